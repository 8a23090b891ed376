// Jacobi: M = diag(A). Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 10.2.
// Memory: one vector of n. The second setup adds a second one; later setups take no memory.
#include <fmt/format.h>

#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/makers.hpp"

namespace protean::detail {
namespace {

template <class T>
class Jacobi final : public Preconditioner<T> {
 public:
  Jacobi(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : Preconditioner<T>(A.context(), A.shape()), options_(options) {}

  std::string_view name() const noexcept override { return "jacobi"; }
  VectorView<const T> inverse_diagonal() const noexcept override { return inverse_; }
  // As a part of a composition. Each setup may have moved the diagonal.
  Recording recording() const noexcept override { return {true, 1 + this->setups(), bytes(), true}; }
  std::size_t bytes() const noexcept override {
    return static_cast<std::size_t>(inverse_.size() + next_.size()) * sizeof(T);
  }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    const Ability<HasDiagonal<T>> known = A.abilities().diagonal;
    if (!known)
      throw BadArgument(fmt::format(
          "jacobi needs the diagonal, which operator '{}' does not know; use preconditioner none, or "
          "derive the operator from HasDiagonal",
          A.name()));
    // It is computed in a second vector, so that M is unchanged if this fails, and then copied, so that a solver that
    // holds inverse_diagonal() finds the new one in the place of the old one.
    const ContextPtr& context = A.context();
    if (next_.size() != A.rows() || next_.context() != context) next_ = Vector<T>(context, A.rows());
    if (unusable_.context() != context) unusable_ = Vector<T>(context, 1);
    known->diagonal(next_);
    reciprocal<T>(*context, next_, unusable_.data());
    T bad = 0;
    copy<T>(*context, unusable_.view(), {&bad, 1});
    if (bad > 0) {
      known->diagonal(next_);
      check(*context, next_.view());
      reciprocal<T>(*context, next_, unusable_.data());
    }
    if (inverse_.size() == next_.size() && inverse_.context() == context)
      copy<T>(*context, next_.view(), inverse_);
    else
      std::swap(inverse_, next_);
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (inverse_.size() != this->rows())
      throw BadArgument("the jacobi preconditioner is applied before ensure(A) has set it up");
    const Context& context = *this->context();
    if (alpha == T(0)) return scale<T>(context, beta, y);
    // y := d .* x + (beta / alpha) y, then y := alpha y. Solvers use alpha = 1, beta = 0.
    if (beta == T(0))
      multiply<T>(context, inverse_, x, y);
    else
      multiply_add<T>(context, inverse_, x, beta / alpha, y);
    if (alpha != T(1)) scale<T>(context, alpha, y);
  }

 private:
  // Throws for a diagonal that is refused.
  void check(const Context& context, VectorView<const T> diagonal) const {
    std::vector<T> d(static_cast<std::size_t>(diagonal.size));
    copy<T>(context, diagonal, {d.data(), diagonal.size});
    require_finite<T>(name(), {d.data(), diagonal.size});
    if (options_.zero_diagonal == ZeroDiagonal::error) refuse_diagonal<T>(name(), {d.data(), diagonal.size});
  }

  PreconditionerOptions options_;
  Vector<T> inverse_, next_, unusable_;
};

}  // namespace

template <class T>
std::unique_ptr<Preconditioner<T>> make_jacobi(const LinearOperator<T>& A,
                                               const PreconditionerOptions& options) {
  return std::make_unique<Jacobi<T>>(A, options);
}
template std::unique_ptr<Preconditioner<float>> make_jacobi<float>(const LinearOperator<float>&,
                                                                   const PreconditionerOptions&);
template std::unique_ptr<Preconditioner<double>> make_jacobi<double>(const LinearOperator<double>&,
                                                                     const PreconditionerOptions&);

}  // namespace protean::detail
