// A row times several vectors, for the SIMD target being compiled: include it inside foreach_target files after
// hwy/highway.h. Private to formats/.
#if defined(PROTEAN_FORMATS_MULTI_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_FORMATS_MULTI_ROWS_INL
#undef PROTEAN_FORMATS_MULTI_ROWS_INL
#else
#define PROTEAN_FORMATS_MULTI_ROWS_INL
#endif

#include "core/lanes-inl.hpp"
#include "core/narrow-inl.hpp"
#include "formats/engines/several/multi_rows.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {

using lanes::HWY_NAMESPACE::for_chunks;
using lanes::HWY_NAMESPACE::Lanes;

template <class How, int W, class T>
HWY_INLINE void add_entry(const MultiTask<T>& t, T value, std::int64_t col, std::int64_t first,
                          Lanes<T, W>& sum) {
  using L = Lanes<T, W>;
  const T* const x = t.x + col * t.x_row + (How::side_by_side ? first : first * t.x_column);
  const L xs = How::side_by_side ? L::load(x) : L::load(x, t.x_column);
  if constexpr (How::ordered)
    sum.add_fused(value, xs);
  else
    sum.add_product(value, xs);
}

// y := alpha sum + beta y for W vectors from `first` on.
template <class How, int W, class T>
HWY_INLINE void finish_row(const MultiTask<T>& t, std::int64_t row, std::int64_t first,
                           const Lanes<T, W>& sum) {
  using L = Lanes<T, W>;
  T* const y = t.y + row * t.y_row + (How::side_by_side ? first : first * t.y_column);
  L result = L::all(t.alpha) * sum;
  if (t.beta != T(0)) {
    const L old = How::side_by_side ? L::load(y) : L::load(y, t.y_column);
    if constexpr (How::ordered)
      result.add_fused(t.beta, old);
    else
      result.add_product(t.beta, old);
  }
  if constexpr (How::side_by_side)
    result.store(y);
  else
    result.store(y, t.y_column);
}

// One row for all vectors: entries(add) calls add(value, column) for its entries.
template <class How, class T, class Entries>
HWY_INLINE void multi_row(const MultiTask<T>& t, std::int64_t row, const Entries& entries) {
  for_chunks<How::few_widths || lanes::HWY_NAMESPACE::few_widths>(
      t.columns, [&]<int W>(std::int64_t first) HWY_ATTR {
        auto sum = Lanes<T, W>::zero();
        entries([&](T value, std::int64_t col) HWY_ATTR { add_entry<How>(t, value, col, first, sum); });
        finish_row<How>(t, row, first, sum);
      });
}

template <class T, class F>
HWY_INLINE void with_how(const MultiTask<T>& t, F&& f) {
  const bool side_by_side = t.x_column == 1 && t.y_column == 1;
  if (side_by_side)
    t.ordered ? f(MultiHow<true, true>()) : f(MultiHow<true, false>());
  else
    t.ordered ? f(MultiHow<false, true>()) : f(MultiHow<false, false>());
}

}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
