// Chebyshev: M^-1 r = p(D^-1 A) D^-1 r, D = diag(A). p has the given degree k, and 1 - t p(t) is the Chebyshev
// polynomial of degree k + 1 that is smallest on [lambda / ratio, lambda] and 1 at 0. Saad, Iterative Methods for
// Sparse Linear Systems, 2nd ed., SIAM 2003, algorithm 12.1. k products of A for each M^-1 r. M^-1 is symmetric
// positive definite for such an A if no eigenvalue of D^-1 A exceeds lambda by much; eigenvalues below lambda / ratio
// may be any.
//
// lambda: 1.1 times the largest eigenvalue of the tridiagonal matrix of 20 steps of cg with M = D, from a fixed
// pseudo-random vector (Saad, section 6.7.3). The largest eigenvalue of a symmetric positive definite D^-1 A is rarely
// larger. It is found again for new values.
//
// Needs products and HasDiagonal only. Memory: three vectors of n, and one of BySolving; four more during a setup.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/sparse/sparse_work.hpp"

namespace protean::detail {
namespace {

constexpr int lanczos_steps = 20;
constexpr double safety = 1.1;

// The largest eigenvalue of a symmetric tridiagonal matrix by bisection: eigenvalues below x are counted by the signs
// of the pivots of T - x I (Golub and Van Loan, Matrix Computations, 4th ed., section 8.4.1). beta[i] couples i and i +
// 1.
double largest_eigenvalue(const std::vector<double>& alpha, const std::vector<double>& beta) {
  const std::size_t n = alpha.size();
  double low = alpha[0], high = alpha[0];
  for (std::size_t i = 0; i < n; ++i) {
    const double radius = (i > 0 ? std::abs(beta[i - 1]) : 0) + (i + 1 < n ? std::abs(beta[i]) : 0);
    low = std::max(low, alpha[i]), high = std::max(high, alpha[i] + radius);
  }
  for (int step = 0; step < 60 && high - low > 1e-12 * std::abs(high); ++step) {
    const double x = low + (high - low) / 2;
    std::size_t below = 0;
    double pivot = 1;
    for (std::size_t i = 0; i < n; ++i) {
      pivot = alpha[i] - x - (i > 0 ? beta[i - 1] * beta[i - 1] / pivot : 0);
      if (pivot == 0) pivot = -1e-300;
      below += pivot < 0;
    }
    (below == n ? high : low) = x;
  }
  return high;
}

template <class T>
class Chebyshev final : public BySolving<T> {
 public:
  Chebyshev(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : BySolving<T>(A), options_(options) {
    for (Vector<T>* v : {&residual_, &direction_}) *v = Vector<T>(A.context(), A.rows());
  }

  std::string_view name() const noexcept override { return "chebyshev"; }
  std::vector<PreconditionerFigure> figures() const override {
    if (!A_) return {};
    return {{"eigenvalue_bound", lambda_}};
  }
  // Records the products of A. They are written to residual_, and z by vector operations.
  Recording recording() const noexcept override {
    if (!A_) return {};
    const Recording product = A_->recording();
    return {product.allowed, product.version == 0 ? 0 : product.version + this->setups(),
            static_cast<std::size_t>(options_.degree) * product.bytes, true};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    const ContextPtr& context = A.context();
    const Ability<HasDiagonal<T>> known = A.abilities().diagonal;
    if (!known)
      throw BadArgument(fmt::format(
          "chebyshev needs the diagonal, which operator '{}' does not know; use preconditioner none, or "
          "derive the operator from HasDiagonal",
          A.name()));
    Vector<T> inverse(context, A.rows()), unusable(context, 1);
    known->diagonal(inverse);
    // What a device can divide by need not be copied to the host, which has the messages.
    const bool looked =
        context->space() == Space::device && sparse_work<T>(context)->positive_divisors(inverse.view());
    std::vector<T> d(looked ? 0 : static_cast<std::size_t>(A.rows()));
    const VectorView<const T> on_host{d.data(), A.rows(), Space::host};
    if (!looked) {
      copy<T>(*context, inverse, {d.data(), A.rows()});
      require_finite<T>(name(), on_host);
      require_positive<T>(name(), on_host);
    }
    reciprocal<T>(*context, inverse, unusable.data());
    if (!looked && fetch(*context, unusable.data()) > 0 && options_.zero_diagonal == ZeroDiagonal::error)
      refuse_diagonal<T>(name(), on_host);
    const double lambda = all_rows(*context, A.rows()) > 0 ? safety * ritz_value(A, inverse) : 1;
    std::swap(inverse_, inverse);
    A_ = &A, lambda_ = lambda;
  }

  void solve(VectorView<const T> r, VectorView<T> z) const override {
    const Context& context = *this->context();
    const std::lock_guard lock(mutex_);
    const double high = lambda_, low = lambda_ / options_.eigenvalue_ratio;
    const double theta = (high + low) / 2, delta = (high - low) / 2, sigma = theta / delta;
    // z := D^-1 r / theta; direction is d / factor, where d is the last change of z
    double rho = 1 / sigma, factor = 1 / theta;
    multiply<T>(context, inverse_, r, direction_);
    axpby<T>(context, static_cast<T>(factor), direction_, T(0), z);
    for (std::int64_t k = 0; k < options_.degree; ++k) {
      const double next = 1 / (2 * sigma - rho), next_factor = 2 * next / delta;
      // residual := r - A z
      axpby<T>(context, T(1), r, T(0), residual_);
      A_->apply(T(-1), z, T(1), residual_);
      // d := (2 rho' / delta) D^-1 residual + rho rho' d;  z := z + d
      multiply_add<T>(context, inverse_, residual_, static_cast<T>(next * rho * factor / next_factor),
                      direction_);
      axpy<T>(context, static_cast<T>(next_factor), direction_, z);
      rho = next, factor = next_factor;
    }
  }
  std::size_t bytes_of_arrays() const noexcept override {
    return static_cast<std::size_t>(inverse_.size() + residual_.size() + direction_.size()) * sizeof(T);
  }

 private:
  static double fetch(const Context& context, const T* where) {
    T value = 0;
    copy<T>(context, VectorView<const T>{where, 1, context.space()}, {&value, 1});
    return value;
  }

  // Xorshift64: Marsaglia, J. Stat. Softw. 8 (2003) 14.
  static void start_vector(const Context& context, const LinearOperator<T>& A, Vector<T>& r) {
    constexpr std::uint64_t seed = 88172645463325252u;
    if (context.space() == Space::device) return sparse_work<T>(A.context())->start_vector(seed, r.view());
    std::uint64_t state = seed;
    for (std::int64_t i = 0; i < r.size(); ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      r[i] = static_cast<T>(static_cast<double>(state >> 11) * 0x1p-52 - 1);
    }
  }

  // The largest Ritz value of D^-1 A, which is positive. All steps are queued before the host reads their scalars.
  // Steps behind the last one that counts change nothing: their vectors are 0 or not read.
  static double ritz_value(const LinearOperator<T>& A, const Vector<T>& inverse) {
    const Context& context = *A.context();
    const std::int64_t n = A.rows();
    Vector<T> r(A.context(), n), p(A.context(), n), q(A.context(), n),
        scalars(A.context(), 2 * lanczos_steps);
    start_vector(context, A, r);
    for (int k = 0; k < lanczos_steps; ++k) {
      T *const rz = scalars.data() + 2 * k, *const pq = rz + 1;
      multiply<T>(context, inverse, r, q);
      dot<T>(context, r, q, rz);
      // p := z + (r . z) / (r . z)_before p
      axpby<T>(context, T(1), q,
               k > 0 ? Coefficient<T>(T(1), rz, rz - 2, Demand::nonzero) : Coefficient<T>(T(0)), p);
      A.apply(p, q);
      dot<T>(context, p, q, pq);
      axpy<T>(context, Coefficient<T>(T(-1), rz, pq, Demand::nonzero), q, r);
    }
    std::vector<T> found(2 * lanczos_steps);
    copy<T>(context, scalars, {found.data(), static_cast<std::int64_t>(found.size())});
    std::vector<double> alpha, beta;
    double last_step = 0;
    for (std::size_t k = 0; k < lanczos_steps; ++k) {
      const double rz = found[2 * k], pq = found[2 * k + 1];
      constexpr double eps = std::numeric_limits<T>::epsilon();
      if (!std::isfinite(rz)) refuse(A, "r . D^-1 r", rz);
      if (k > 0 && !(rz > eps * eps * static_cast<double>(found[0]))) break;  // the Krylov space is complete
      if (!(rz > 0)) refuse(A, "r . D^-1 r", rz);
      if (!(pq > 0) || !std::isfinite(pq)) refuse(A, "p . A p", pq);
      const double step = rz / pq, ratio = k > 0 ? rz / found[2 * k - 2] : 0;
      alpha.push_back(1 / step + (k > 0 ? ratio / last_step : 0));
      if (k > 0) beta.push_back(std::sqrt(ratio) / last_step);
      last_step = step;
    }
    return largest_eigenvalue(alpha, beta);
  }
  [[noreturn]] static void refuse(const LinearOperator<T>& A, std::string_view what, double value) {
    if (!std::isfinite(value))
      throw BadMatrix(fmt::format(
          "chebyshev needs finite entries and products of them, but {} was {} with operator '{}': an entry "
          "is not finite, or numbers grow too large; correct or scale the matrix",
          what, value, A.name()));
    throw BadMatrix(
        fmt::format("chebyshev needs a symmetric positive definite matrix, but {} was {:.3g} with operator "
                    "'{}'; use spai0, ilu0 or another preconditioner",
                    what, value, A.name()));
  }

  PreconditionerOptions options_;
  const LinearOperator<T>* A_ = nullptr;
  double lambda_ = 0;
  Vector<T> inverse_;
  mutable std::mutex mutex_;
  mutable Vector<T> residual_, direction_;
};

}  // namespace

template <class T>
MadePreconditioner<T> make_chebyshev(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Chebyshev<T>>(A, options);
}
template MadePreconditioner<float> make_chebyshev<float>(const LinearOperator<float>&,
                                                         const PreconditionerOptions&);
template MadePreconditioner<double> make_chebyshev<double>(const LinearOperator<double>&,
                                                           const PreconditionerOptions&);

}  // namespace protean::detail
