// Jacobi: M = diag(A). Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 10.2.
// Memory: one vector of n, twice that during setup.
#include "preconditioners/jacobi.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean::detail {
namespace {

template <class T>
class Jacobi final : public Preconditioner<T> {
 public:
  Jacobi(const LinearOperator<T>& A, const PreconditionerOptions& options)
      : Preconditioner<T>(A.context(), A.shape()), options_(options) {}

  std::string_view name() const noexcept override { return "jacobi"; }
  VectorView<const T> inverse_diagonal() const noexcept override { return inverse_; }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    const auto* known = dynamic_cast<const HasDiagonal<T>*>(&A);
    if (!known)
      throw BadArgument(
          fmt::format("jacobi needs the diagonal, which operator '{}' does not know; use preconditioner "
                      "none, or derive the "
                      "operator from HasDiagonal",
                      A.name()));
    // Built aside, so that a failure leaves M as it was.
    Vector<T> inverse(A.context(), A.rows());
    known->diagonal(inverse);
    const std::int64_t bad = invert(inverse);
    if (bad > 0 && options_.zero_diagonal == ZeroDiagonal::error) {
      known->diagonal(inverse);
      refuse(inverse, bad);
    }
    inverse_ = std::move(inverse);
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (inverse_.size() != this->rows())
      throw BadArgument("the jacobi preconditioner is applied before ensure(A) has set it up");
    parallel(useful_parts(*this->context(), y.size), [&](int part, int parts) {
      const Range range = even_range(y.size, part, parts, 64);
      if (beta == T(0))
        for (std::int64_t i = range.begin; i < range.end; ++i) y.data[i] = alpha * (inverse_[i] * x.data[i]);
      else
        for (std::int64_t i = range.begin; i < range.end; ++i)
          y.data[i] = alpha * (inverse_[i] * x.data[i]) + beta * y.data[i];
    });
  }

 private:
  // An inverse that overflows is as useless as that of a zero.
  static bool usable(T entry) { return std::isfinite(entry) && std::isfinite(T(1) / entry); }

  // d := 1 ./ d, with 1 where that is not possible; returns how many those were.
  std::int64_t invert(Vector<T>& d) const {
    const std::int64_t n = d.size();
    const int parts = useful_parts(*d.context(), n);
    std::vector<std::int64_t> bad(static_cast<std::size_t>(parts), 0);
    parallel(parts, [&](int part, int count) {
      const Range range = even_range(n, part, count, 64);
      std::int64_t found = 0;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const bool good = usable(d[i]);
        found += !good;
        d[i] = good ? T(1) / d[i] : T(1);
      }
      bad[part] = found;
    });
    std::int64_t sum = 0;
    for (std::int64_t b : bad) sum += b;
    return sum;
  }

  [[noreturn]] static void refuse(const Vector<T>& d, std::int64_t bad) {
    constexpr int shown = 5;
    std::string rows;
    int found = 0;
    for (std::int64_t i = 0; i < d.size() && found < shown; ++i)
      if (!usable(d[i])) rows += fmt::format("{}row {} ({})", found++ ? ", " : "", i, d[i]);
    throw BadMatrix(fmt::format(
        "jacobi divides by the diagonal, but {} of {} diagonal entries are zero, missing or not finite: {}{} "
        "(rows "
        "count from 0). Reorder the matrix, use preconditioner none, or take 1 for them (zero_diagonal: one)",
        bad, d.size(), rows, bad > found ? ", ..." : ""));
  }

  PreconditionerOptions options_;
  Vector<T> inverse_;
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
