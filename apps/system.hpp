// The system a problem file describes, in memory: what `solve`, `compare` and `inspect` begin with.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "apps/clock.hpp"
#include "apps/problem_file.hpp"
#include "apps/progress.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"

namespace protean::apps {

// Throws NotAvailable with what to do, where there is no device.
ContextPtr device_context(const DeviceOptions& options);

// The matrix with its values times `factor`; throws BadFile at `place` where one becomes infinite. The
// pattern is shared. Also used for the matrix alone, as in `convert --scale`.
CsrMatrix<double> scaled(const ContextPtr& host, const CsrMatrix<double>& matrix, double factor,
                         const Place& place);

// The matrix in host memory, times spec.scale. Throws BadFile, OutOfMemory; refuses empty matrices.
CsrMatrix<double> make_matrix_data(const ContextPtr& host, const MatrixSpec& spec);

struct LinearSystem {
  CsrMatrix<double> csr;
  std::unique_ptr<ElementOperator<double>>
      elements;  // instead of csr: storage: element, where the solve runs
  Vector<double> b, x0;
  Vector<double> exact;  // empty unless the right-hand side was made from a solution
};

// The scaled system (matrix.scale): matrix and right-hand side are multiplied, so x is that of the system as
// it was given. Everything in host memory, but for element matrices, which are made in `context`. b is made
// with format csr whatever the problem's format, so that every format gets the same b, bit for bit (of
// element matrices by themselves). Refuses a matrix that is not square.
LinearSystem make_system(const ContextPtr& host, const Problem& problem, const ContextPtr& context = nullptr);

// The vector in the memory of `target`; the copy is made by `device`.
Vector<double> moved(const ContextPtr& target, const Context& device, Vector<double>&& vector);

// ||x - exact|| / ||exact||, 2-norms; of the difference alone where exact is 0.
double relative_error(const Vector<double>& x, const Vector<double>& exact);

}  // namespace protean::apps
