// Arithmetic on the scalars of a method where they lie, by vector operations on vectors of one entry: so it runs in
// every space of a context, is recorded with the step, and returns at once when the run has ended. Private to solvers/.
#pragma once
#include "core/blas1.hpp"
#include "core/vector.hpp"

namespace protean::detail {

template <class T>
VectorView<T> one_entry(const Context& context, T* scalar) noexcept {
  return {scalar, 1, context.space()};
}

// result := a * b
template <class T>
void set_scalar(const Context& context, T* result, Coefficient<T> a, Coefficient<T> b = T(1)) {
  scalar_product<T>(context, a, b, result);
}

// result := result + a * x
template <class T>
void add_scalar(const Context& context, T* result, Coefficient<T> a, const T* x) {
  axpy<T>(context, a, one_entry<const T>(context, x), one_entry(context, result));
}

// result := 1 where the scalar is positive, else 0; NaN where the scalar is infinite. result is another place.
template <class T>
void is_positive(const Context& context, T* result, const T* scalar) {
  scalar_product<T>(context, {1, scalar, scalar, Demand::positive}, T(1), result);
}

// L is lower triangular, n x n, column j at L + j * stride, entries i >= j. x := L^-1 x by columns; where a pivot is 0,
// x is 0.
template <class T>
void solve_lower(const Context& context, const T* L, std::int64_t stride, std::int64_t n, T* x) {
  for (std::int64_t j = 0; j < n; ++j) {
    const T* const column = L + j * stride;
    set_scalar<T>(context, x + j, {1, x + j, column + j, Demand::nonzero});
    if (const std::int64_t below = n - j - 1; below > 0)
      axpy<T>(context, {-1, x + j}, {column + j + 1, below, context.space()},
              {x + j + 1, below, context.space()});
  }
}

}  // namespace protean::detail
