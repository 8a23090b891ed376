#include "preconditioners/fields/recipes/schur.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "preconditioners/fields/recipes/recipe.hpp"

namespace protean::detail {

namespace {

// SplitMix64: Steele, Lea, Flood, OOPSLA 2014. Numbers of neighbours on a grid have nothing to do with each other.
std::uint64_t mixed(std::uint64_t i) noexcept {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

template <class T>
CsrMatrix<T> given_complement(const PreconditionerOptions& options) {
  const CsrMatrix<double>& given = *options.schur_operator;
  if (options.schur == SchurComplement::commutator)
    throw BadArgument("schur_operator takes the place of the Schur complement; leave schur commutator out");
  if (options.recipe != Recipe::automatic && !of_schur(options.recipe))
    throw BadArgument(
        fmt::format("schur_operator is for a recipe schur-.., and the recipe is {}; leave it out",
                    to_string(options.recipe)));
  const ContextPtr host = Context::host(1);
  require_finite(*host, given);
  validate_sorted(*host, given.pattern);
  if (given.rows() != given.cols())
    throw ShapeMismatch(
        fmt::format("schur_operator is {} x {}; it must be square", given.rows(), given.cols()));
  if constexpr (sizeof(T) == sizeof(double))
    return deep_copy(host, given);
  else
    return deep_copy(host, convert_values<T>(host, given));
}

template <class T>
std::vector<T> inverse_row_sums(const CsrMatrix<T>& C) {
  std::vector<T> inverse(static_cast<std::size_t>(C.rows()));
  for (std::int64_t i = 0; i < C.rows(); ++i) {
    double sum = 0;
    for (std::int64_t k = C.pattern.row_ptr[i]; k < C.pattern.row_ptr[i + 1]; ++k)
      sum += std::abs(static_cast<double>(C.values[k]));
    inverse[static_cast<std::size_t>(i)] = static_cast<T>(sum > 0 ? 1 / sum : 0);
  }
  return inverse;
}

template <class T>
std::vector<T> inverse_diagonal(const Context& host, const CsrMatrix<T>& C) {
  std::vector<T> inverse(static_cast<std::size_t>(C.rows()));
  extract_diagonal<T>(host, C, inverse.data());
  for (T& one : inverse) one = one > T(0) ? T(1) / one : T(0);
  return inverse;
}

template <class T>
CsrMatrix<T> times(const ContextPtr& host, T factor, const CsrMatrix<T>& C) {
  Buffer<T> values(host, C.nonzeros());
  for (std::int64_t k = 0; k < C.nonzeros(); ++k) values[k] = factor * C.values[k];
  CsrMatrix<T> made = C;
  const auto owner = std::make_shared<const Buffer<T>>(std::move(values));
  made.values = owner->data(), made.values_owner = owner;
  return made;
}

template <class T>
CsrMatrix<T> mass_like(const ContextPtr& host, const SchurPattern& pattern, const CsrMatrix<T>& A10,
                       const CsrMatrix<T>& A11, const CsrMatrix<T>& A01, const std::vector<T>& inverse,
                       const CsrMatrix<T>& C) {
  const auto changed = [&](const CsrMatrix<T>& A, const auto& to) {
    Buffer<T> values(host, A.nonzeros());
    std::transform(A.values, A.values + A.nonzeros(), values.data(), to);
    CsrMatrix<T> made = A;
    const auto owner = std::make_shared<const Buffer<T>>(std::move(values));
    made.values = owner->data(), made.values_owner = owner;
    return made;
  };
  const auto absolute = [](T value) { return std::abs(value); };
  std::vector<T> positive(inverse);
  for (T& one : positive) one = std::abs(one);
  const CsrMatrix<T> none = changed(A11, [](T) { return T(0); });
  T sign = 1;
  const CsrMatrix<T> product =
      pattern.of(host, changed(A10, absolute), &none, changed(A01, absolute), positive, sign);
  Buffer<T> values(host, product.nonzeros());
  for (std::int64_t i = 0; i < product.rows(); ++i)
    for (std::int64_t k = product.pattern.row_ptr[i]; k < product.pattern.row_ptr[i + 1]; ++k)
      values[k] = product.values[k] + (product.pattern.col[k] == i ? std::abs(C.values[k]) : T(0));
  CsrMatrix<T> made = product;
  const auto owner = std::make_shared<const Buffer<T>>(std::move(values));
  made.values = owner->data(), made.values_owner = owner;
  return made;
}

template <class T>
ComplementProbe<T>::ComplementProbe(const LinearOperator<T>& A01, const LinearOperator<T>& A10,
                                    const LinearOperator<T>* A11, T sign, Solve solve_0,
                                    std::function<void(VectorView<T>)> project, Vector<T> weights)
    : A01_(A01),
      A10_(A10),
      A11_(A11),
      sign_(sign),
      solve_0_(std::move(solve_0)),
      project_(std::move(project)),
      weights_(std::move(weights)),
      x_(A01.context(), A01.cols()),
      w_(A01.context(), A01.cols()),
      y_(A01.context(), A01.rows()),
      z_(A01.context(), A01.rows()),
      number_(A01.context(), 1) {}

template <class T>
void ComplementProbe<T>::start() {
  std::vector<T> numbers(static_cast<std::size_t>(x_.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<T>(mixed(i) >> 54) / T(512) - T(1);
  copy<T>(*x_.context(), {numbers.data(), x_.size()}, x_.view());
  project_(x_.view());
}

template <class T>
void ComplementProbe<T>::apply() {
  A01_.apply(T(1), x_.view(), T(0), y_.view());
  solve_0_(y_.view(), z_.view());
  A10_.apply(sign_, z_.view(), T(0), w_.view());
  if (A11_) A11_->apply(-sign_, x_.view(), T(1), w_.view());
}

template <class T>
double ComplementProbe<T>::dot_of(const Vector<T>& a, const Vector<T>& b) const {
  dot<T>(*x_.context(), a.view(), b.view(), number_.data());
  T here = 0;
  copy<T>(*x_.context(), number_.view(), {&here, 1});
  return static_cast<double>(here);
}

template <class T>
double ComplementProbe<T>::form(const LinearOperator<T>& X) {
  X.apply(T(1), x_.view(), T(0), w_.view());
  return weighted();
}
template <class T>
double ComplementProbe<T>::form(VectorView<const T> diagonal) {
  multiply<T>(*x_.context(), diagonal, x_.view(), w_.view());
  return weighted();
}

template <class T>
double ComplementProbe<T>::form_of_S() {
  apply();
  return weighted();
}

template <class T>
double ComplementProbe<T>::weighted() {
  multiply<T>(*x_.context(), weights_.view(), w_.view(), w_.view());
  return dot_of(x_, w_);
}

template <class T>
double ComplementProbe<T>::start_form() {
  start();
  if (!rough_) rough_ = form_of_S();
  return *rough_;
}

template <class T>
bool ComplementProbe<T>::is_like_mass(const LinearOperator<T>& E, VectorView<const T> inverse,
                                      const LinearOperator<T>& C, VectorView<const T> diagonal) {
  const double of_S = start_form(), to_C = of_S / form(C), to_diagonal = of_S / form(diagonal);
  if (!(of_S > 0 && to_C > 0)) return false;
  for (int step = 0; step < 2; ++step) {
    E.apply(T(1), x_.view(), T(0), w_.view());
    multiply<T>(*x_.context(), inverse, w_.view(), x_.view());
    project_(x_.view());
  }
  const double averaged = form_of_S();
  return averaged / form(C) > 2 * to_C && averaged / form(diagonal) > 1.2 * to_diagonal;
}

template <class T>
bool ComplementProbe<T>::is_local(const LinearOperator<T>& C, VectorView<const T> inverse) {
  const double of_S = start_form(), rough = of_S / form(C);
  for (int step = 0; step < 30; ++step) {
    C.apply(T(1), x_.view(), T(0), w_.view());
    multiply<T>(*x_.context(), inverse, w_.view(), w_.view());
    axpy<T>(*x_.context(), T(-1), w_.view(), x_.view());
    project_(x_.view());
  }
  const double smooth = form_of_S();
  return rough > 0 && smooth / form(C) > 1.25 * rough;
}

template <class T>
T ComplementProbe<T>::factor(const Solve& solve_1) {
  start();
  double largest = 1;
  for (int step = 0; step <= 10; ++step) {
    const double norm = std::sqrt(dot_of(x_, x_));
    if (!(norm > 0) || !std::isfinite(norm)) return T(1);
    if (step > 0) largest = norm;
    scale<T>(*x_.context(), static_cast<T>(1 / norm), x_.view());
    apply();
    solve_1(w_.view(), x_.view());
  }
  return static_cast<T>(std::exp2(std::round(std::log2(largest))));
}

#define PROTEAN_INSTANTIATE(T)                                                                        \
  template CsrMatrix<T> given_complement<T>(const PreconditionerOptions&);                            \
  template std::vector<T> inverse_row_sums<T>(const CsrMatrix<T>&);                                   \
  template std::vector<T> inverse_diagonal<T>(const Context&, const CsrMatrix<T>&);                   \
  template CsrMatrix<T> times<T>(const ContextPtr&, T, const CsrMatrix<T>&);                          \
  template CsrMatrix<T> mass_like<T>(const ContextPtr&, const SchurPattern&, const CsrMatrix<T>&,     \
                                     const CsrMatrix<T>&, const CsrMatrix<T>&, const std::vector<T>&, \
                                     const CsrMatrix<T>&);                                            \
  template class ComplementProbe<T>;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
