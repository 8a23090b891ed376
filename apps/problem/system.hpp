// The linear system of a problem file in memory. `solve`, `compare` and `inspect` begin with it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command/clock.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/report/progress.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"
#include "formats/choose.hpp"

namespace protean::apps {

// Of the GPU with this number. Throws NotAvailable, with what to do, when there is no device.
ContextPtr device_context(const DeviceOptions& options, int number = 0);

// The host, and where the solve runs: the host or the device; of several devices the first one. Throws NotAvailable;
// BadFile for what several devices do not serve.
struct Contexts {
  ContextPtr host, solve;
  std::vector<ContextPtr> devices;  // that share the rows; empty for fewer than two
  std::vector<int> numbers;         // of the GPUs; empty on the host
};
Contexts make_contexts(const Problem& problem);

// The matrix with its values times `factor`; throws BadFile at `place` if one becomes infinite. The
// pattern is shared. Also used for the matrix alone, as in `convert --scale`.
CsrMatrix<double> scaled(const ContextPtr& host, const CsrMatrix<double>& matrix, double factor,
                         const Place& place);

// The matrix in host memory, times spec.scale. Throws BadFile, OutOfMemory; refuses empty matrices.
CsrMatrix<double> make_matrix_data(const ContextPtr& host, const MatrixSpec& spec);

// Throws BadFile, at the place of the matrix, unless a matrix of these sizes is square and not empty.
void require_system(const Problem& problem, std::int64_t rows, std::int64_t cols);

struct ProblemSystem {
  CsrMatrix<double> csr;
  std::unique_ptr<ElementOperator<double>>
      elements;  // instead of csr with storage: element; in the memory of the solve
  // Right-hand sides. b, x0 and exact hold `columns` vectors, one after another.
  std::int64_t columns = 1;
  Vector<double> b, x0;
  Vector<double> exact;  // empty unless the right-hand side was made from a solution
};

// Matrix and right-hand side are multiplied by matrix.scale, so x is the solution of the system as it was
// given. Everything is made in host memory, except element matrices, which are made in `context`. b = A x is
// always computed with format csr, so that all formats get the same b, bit for bit (with element matrices it
// is computed by them). Throws BadFile also for a matrix that is not square, and for several right-hand sides unless
// `several`.
ProblemSystem make_system(const ContextPtr& host, const Problem& problem, const ContextPtr& context = nullptr,
                          bool several = false);

// Reads the files of preconditioner.coordinates or near_null_space, of labels and of schur_operator, if there are any,
// and sets the options of the preconditioner, for a matrix of that many rows. Throws BadFile.
void read_preconditioner_files(const ContextPtr& host, Problem& problem, std::int64_t rows);

// Products of an iteration of a method. Each method that auto takes has one.
double products_of(std::string_view method);

// The question behind format auto in this space, as `operator` and `solver` ask it, without the machine table. It
// points to no part of the problem. Throws as find_selector().
ChoiceOptions choice_options(const Problem& problem, Space space);

// Returns the vector in the memory of `target`. `device` makes the copy.
Vector<double> moved(const ContextPtr& target, const Context& device, Vector<double>&& vector);

// A random number, uniform in [-1, 1), for entry `index` of a vector.
double random_value(std::uint64_t seed, std::int64_t index);

// ||x - exact|| / ||exact|| in the 2-norm; ||x - exact|| if exact is 0.
double relative_error(VectorView<const double> x, VectorView<const double> exact);

}  // namespace protean::apps
