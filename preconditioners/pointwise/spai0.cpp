// SPAI(0): M^-1 = diag(m) that minimises ||I - diag(m) A|| in the Frobenius norm: m_i = a_ii / sum_j a_ij^2. Broker and
// Grote, Appl. Numer. Math. 41 (2002) 61. It is a diagonal, which solvers multiply by inside their own operations.
// Memory: one vector of n, and a second one while it is set up. A device computes it from its own entries.
#include <memory>
#include <optional>
#include <utility>

#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "operators/rows.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/pointwise/device_spai0.hpp"

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
    Vector<T> m;
    if (context->space() == Space::device) m = on_device(A);
    if (m.size() < A.rows()) m = on_host(A);
    // A solver that holds inverse_diagonal() finds the new one in the place of the old one.
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
  bool one_for_zero() const noexcept { return options_.zero_diagonal == ZeroDiagonal::one; }

  Vector<T> on_host(const LinearOperator<T>& A) const {
    const ContextPtr& context = A.context();
    const ContextPtr host = context->space() == Space::host ? context : Context::host();
    const CsrMatrix<T> csr = finite_rows(A, host, name());
    (void)usable_diagonal<T>(name(), host, csr, options_.zero_diagonal);  // its checks
    Vector<T> m(host, csr.rows());
    csr.pattern.row_ptr.visit([&](const auto* ptr) {
      parallel(useful_parts(*host, csr.nonzeros()), [&](int part, int parts) {
        const Range rows = even_range(csr.rows(), part, parts);
        for (std::int64_t i = rows.begin; i < rows.end; ++i)
          (void)spai0_row(ptr, csr.pattern.col, csr.values, i, one_for_zero(), m[i]);
      });
    });
    return m;
  }

  // Empty if the device has found something wrong, for which the host has the message, and if the entries are not
  // there.
  Vector<T> on_device(const LinearOperator<T>& A) const {
    const ContextPtr& context = A.context();
    const std::optional<CsrMatrix<T>> csr = csr_of(A);
    if (!csr || csr->pattern.space != Space::device) return {};
    Vector<T> m(context, A.rows());
    unsigned trouble = 0;
    if (context->simulated()) {
      const DeviceWork work(*context);
      csr->pattern.row_ptr.visit([&](const auto* ptr) {
        for (std::int64_t i = 0; i < A.rows(); ++i)
          trouble |= spai0_row(ptr, csr->pattern.col, csr->values, i, one_for_zero(), m[i]);
      });
    } else {
#if defined(PROTEAN_HAVE_CUDA)
      Buffer<unsigned> flag(context, 1);
      copy_bytes(*context, flag.data(), Space::device, &trouble, Space::host, sizeof trouble);
      device::spai0_rows<T>(*context, *csr, one_for_zero(), m.view(), flag.data());
      copy_bytes(*context, &trouble, Space::host, flag.data(), Space::device, sizeof trouble);
#endif
    }
    return trouble == 0 ? std::move(m) : Vector<T>();
  }

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
