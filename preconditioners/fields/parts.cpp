#include "preconditioners/fields/parts.hpp"

#include "core/blas1.hpp"

namespace protean::detail {

template <class T>
void FieldParts<T>::apply(VectorView<const T> x, VectorView<T> y) const {
  layout->permutation.apply(x, r.view());
  combine();
  layout->permutation.apply_inverse(VectorView<const T>(z), y);
}

template <class T>
void FieldParts<T>::solve(std::int64_t i, VectorView<const T> x, VectorView<T> y) const {
  const auto& M = inner[static_cast<std::size_t>(i)].M;
  if (M) return M->apply(x, y);
  copy<T>(*context, x, y);
}

template <class T>
void FieldParts<T>::project(VectorView<T> x) const {
  if (ones.size() == 0) return;
  dot<T>(*context, ones.view(), x, sum.data());
  axpy<T>(*context, Coefficient<T>(T(-1) / static_cast<T>(x.size), sum.data()), ones.view(), x);
}

template <class T>
void FieldParts<T>::solve_schur(VectorView<T> x, VectorView<T> y) const {
  project(x);
  solve(1, x, y);
  if (layout->commuted) {
    const VectorView<T> t0 = part(t, 0), t1 = part(t, 1), u0{t.data() + r.size(), t0.size, t0.space};
    block(0, 1).apply(T(1), y, T(0), t0);
    multiply<T>(*context, inverse.view(), t0, t0);
    block(0, 0).apply(T(1), t0, T(0), u0);
    multiply<T>(*context, inverse.view(), u0, u0);
    block(1, 0).apply(sign, u0, T(0), t1);
    solve(1, t1, y);
  }
  project(y);
}

template <class T>
void FieldParts<T>::solve_complement() const {
  solve_schur(part(r, 1), part(z, 1));
  if (sign > T(0)) scale<T>(*context, T(-1), part(z, 1));
}

template <class T>
void FieldParts<T>::subtract(std::int64_t i, std::int64_t j) const {
  block(i, j).apply(T(-1), part(z, j), T(1), part(r, i));
}

template <class T>
void FieldParts<T>::combine() const {
  const std::int64_t count = layout->fields.size();
  switch (layout->recipe) {
    case Recipe::automatic:
    case Recipe::additive:
      for (std::int64_t i = 0; i < count; ++i) solve_field(i);
      return;
    case Recipe::lower:
    case Recipe::symmetric:
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < i; ++j) subtract(i, j);
        solve_field(i);
      }
      if (layout->recipe == Recipe::symmetric) sweep_back();
      return;
    case Recipe::upper:
      for (std::int64_t i = count; i-- > 0;) {
        for (std::int64_t j = i + 1; j < count; ++j) subtract(i, j);
        solve_field(i);
      }
      return;
    case Recipe::cpr_quasi_impes:
    case Recipe::cpr_true_impes:
      return solve_pressure_first();
    case Recipe::schur_diagonal:
      solve_field(0);
      return solve_schur(part(r, 1), part(z, 1));
    case Recipe::schur_lower:
      solve_field(0), subtract(1, 0);
      return solve_complement();
    case Recipe::schur_upper:
      solve_complement();
      subtract(0, 1);
      return solve_field(0);
    case Recipe::schur_full:
      solve_field(0), subtract(1, 0);
      solve_complement();
      subtract(0, 1);
      return solve_field(0);
  }
}

template <class T>
void FieldParts<T>::solve_pressure_first() const {
  const std::int64_t n = r.size(), cells = layout->begin[1];
  const VectorView<T> first{t.data(), n, t.space()}, second{t.data() + n, n, t.space()},
      all = z.view(), weighted = part(t, 0);
  copy<T>(*context, part(r, 0), weighted);
  for (std::int64_t i = 1; i < layout->fields.size(); ++i)
    multiply_add<T>(*context, {weights.data() + (i - 1) * cells, cells, t.space()}, part(r, i), T(1),
                    weighted);
  solve(0, weighted, part(z, 0));
  for (std::int64_t i = 0; i < layout->fields.size(); ++i) subtract(i, 0);
  layout->permutation.apply_inverse(VectorView<const T>(r), first);
  solve(1, first, second);
  fill<T>(*context, T(0), {all.data + cells, n - cells, all.space});
  layout->permutation.apply(VectorView<const T>(second), first);
  axpy<T>(*context, T(1), first, all);
}

template <class T>
void FieldParts<T>::sweep_back() const {
  const std::int64_t count = layout->fields.size();
  for (std::int64_t i = count - 1; i-- > 0;) {
    const VectorView<T> t_i = part(t, i), u{t.data() + r.size(), t_i.size, t_i.space};
    for (std::int64_t j = i + 1; j < count; ++j)
      block(i, j).apply(T(1), part(z, j), j == i + 1 ? T(0) : T(1), t_i);
    solve(i, t_i, u);
    axpy<T>(*context, T(-1), u, part(z, i));
  }
}

template struct FieldParts<float>;
template struct FieldParts<double>;

}  // namespace protean::detail
