// SPAI(0): M^-1 = diag(m) that minimises ||I - diag(m) A|| in the Frobenius norm: m_i = a_ii / sum_j a_ij^2. Broker and
// Grote, Appl. Numer. Math. 41 (2002) 61. It is a diagonal, which solvers multiply by inside their own operations.
// Memory: one vector of n, and while it is set up the entries in host memory.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/parallel.hpp"
#include "preconditioners/by_solving.hpp"
#include "preconditioners/diagonal.hpp"
#include "preconditioners/entries.hpp"
#include "preconditioners/makers.hpp"

namespace protean::detail {
namespace {

template <class T>
class Spai0 final : public BySolving<T> {
 public:
  Spai0(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : BySolving<T>(A), options_(options) {}

  std::string_view name() const noexcept override { return "spai0"; }
  VectorView<const T> inverse_diagonal() const noexcept override { return m_; }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    const ContextPtr& context = A.context();
    const ContextPtr host = context->space() == Space::host ? context : Context::host();
    const CsrMatrix<T> csr = finite_rows(A, host, name());
    Vector<T> m = usable_diagonal<T>(name(), host, csr, options_.zero_diagonal);
    parallel(useful_parts(*host, csr.nonzeros()), [&](int part, int parts) {
      const Range rows = even_range(csr.rows(), part, parts);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        // Scaled by the largest entry, so that no square overflows or underflows.
        T largest = 0;
        const std::int64_t begin = csr.pattern.row_ptr[i], end = csr.pattern.row_ptr[i + 1];
        for (std::int64_t p = begin; p < end; ++p) largest = std::max(largest, std::abs(csr.values[p]));
        if (!(largest > T(0))) continue;  // a row of zeros, for which m_i = 1 was asked
        T sum = 0;
        for (std::int64_t p = begin; p < end; ++p) {
          const T scaled = csr.values[p] / largest;
          sum += scaled * scaled;
        }
        m[i] = m[i] / largest / sum / largest;
      }
    });
    // A solver that holds inverse_diagonal() has the new one where the old one was.
    if (m_.size() != m.size() || m_.context() != context) m_ = Vector<T>(context, m.size());
    copy<T>(*context, m, m_);
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    multiply<T>(*this->context(), m_, r, z);
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return static_cast<std::size_t>(m_.size()) * sizeof(T);
  }

 private:
  PreconditionerOptions options_;
  Vector<T> m_;
};

}  // namespace

template <class T>
MadePreconditioner<T> make_spai0(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Spai0<T>>(A, options);
}
template MadePreconditioner<float> make_spai0<float>(const LinearOperator<float>&,
                                                     const PreconditionerOptions&);
template MadePreconditioner<double> make_spai0<double>(const LinearOperator<double>&,
                                                       const PreconditionerOptions&);

}  // namespace protean::detail
