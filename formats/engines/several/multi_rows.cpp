// multi_rows.hpp: products with several vectors.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/several/multi_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/blocks/blocks.hpp"
#include "formats/engines/rows/row_dot-inl.hpp"
#include "formats/engines/several/multi_rows-inl.hpp"
#include "formats/engines/several/multi_rows.hpp"
#include "formats/engines/slices/slice_view.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

template <class How, class T, class P>
void rows(How, const MultiCsr<T, P>& a, const MultiTask<T>& t, std::int64_t begin, std::int64_t end) {
  P prefetched = begin < end ? a.row_ptr[begin] : 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const P first = a.row_ptr[r], last = a.row_ptr[r + 1];
    if (a.prefetch) prefetch_entries(last, prefetched, a.values, a.col);
    multi_row<How>(t, r, [&](auto add) HWY_ATTR {
      for (P k = first; k < last; ++k) add(a.values[k], a.col[k]);
    });
  }
}

template <class How, class T>
void rows(How, const SliceView<T>& a, const MultiTask<T>& t, std::int64_t begin, std::int64_t end) {
  const bool simple = a.order == LaneOrder::columns && !a.diagonal_apart && a.kind == LaneLengths::none;
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t row = a.row(p);
    if (row < 0) continue;
    if (!simple) {
      multi_row<How>(t, row, [&](auto add) HWY_ATTR {
        a.for_entries(p, [&](std::int32_t col, std::int64_t place) HWY_ATTR { add(a.values[place], col); });
      });
      continue;
    }
    const LaneSlots at = a.at(p);
    const std::int64_t slots = a.absent_count > 0 && a.is_absent(p) ? 0 : at.width;
    multi_row<How>(t, row, [&](auto add) HWY_ATTR {
      // Padding repeats a column.
      std::int32_t last = -1;
      for (std::int64_t k = 0, slot = at.base; k < slots && a.col[slot] > last; ++k, slot += at.C)
        add(a.values[slot], last = a.col[slot]);
    });
  }
}

template <class How, class T>
void rows(How, const BlockGrid<T>& a, const MultiTask<T>& t, std::int64_t begin, std::int64_t end) {
  for (std::int64_t place = begin; place < end; ++place) {
    const BlockRow b = a.block_row_at(place);
    const std::int64_t i = a.number(place);
    for (int r = 0; r < a.R; ++r) {
      const std::int64_t row = i * a.R + r;
      if (row >= a.rows) break;
      // Fill must add nothing in deterministic mode.
      if (How::ordered) {
        multi_row<How>(t, row, [&](auto add) HWY_ATTR {
          a.for_entries(place * a.R + r,
                        [&](std::int32_t col, std::int64_t at) HWY_ATTR { add(a.values[at], col); });
        });
        continue;
      }
      multi_row<How>(t, row, [&](auto add) HWY_ATTR {
        const auto block = [&](const BlockRow& of, std::int64_t k, std::int64_t number) HWY_ATTR {
          const std::int64_t left = number * a.C, width = std::min<std::int64_t>(a.C, a.cols - left);
          if (a.order == BlockOrder::blocks) {
            const T* const values = a.values + of.base + k * of.step + r * a.C;
            for (std::int64_t c = 0; c < width; ++c) add(values[c], left + c);
          } else {
            for (int c = 0; c < width; ++c) add(a.values[a.place(of, k, r, c)], left + c);
          }
        };
        for (std::int64_t k = 0; k < b.count; ++k) block(b, k, a.block_col[b.first + k * b.slot_step]);
        if (a.diagonal_apart) block(a.apart(i), 0, i);
      });
    }
  }
}

// Few widths are registers of at most 256 bits.
template <class How, class A, class T>
void rows_in_widths(How how, const A& a, const MultiTask<T>& t, std::int64_t begin, std::int64_t end) {
  if constexpr (How::few_widths)
    formats::PROTEAN_NARROW::rows(how, a, t, begin, end);
  else
    rows(how, a, t, begin, end);
}

#define PROTEAN_MULTI_KERNELS(T, suffix)                                                               \
  void csr_p32_##suffix(const MultiCsr<T, std::int32_t>& a, const MultiTask<T>& t, std::int64_t b,     \
                        std::int64_t e) {                                                              \
    with_how(t, [&](auto how) { rows_in_widths(how, a, t, b, e); });                                   \
  }                                                                                                    \
  void csr_p64_##suffix(const MultiCsr<T, std::int64_t>& a, const MultiTask<T>& t, std::int64_t b,     \
                        std::int64_t e) {                                                              \
    with_how(t, [&](auto how) { rows_in_widths(how, a, t, b, e); });                                   \
  }                                                                                                    \
  void slices_##suffix(const SliceView<T>& a, const MultiTask<T>& t, std::int64_t b, std::int64_t e) { \
    with_how(t, [&](auto how) { rows_in_widths(how, a, t, b, e); });                                   \
  }                                                                                                    \
  void blocks_##suffix(const BlockGrid<T>& a, const MultiTask<T>& t, std::int64_t b, std::int64_t e) { \
    with_how(t, [&](auto how) { rows_in_widths(how, a, t, b, e); });                                   \
  }
PROTEAN_MULTI_KERNELS(double, f64)
PROTEAN_MULTI_KERNELS(float, f32)
#undef PROTEAN_MULTI_KERNELS

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {
namespace {
HWY_EXPORT(csr_p32_f64);
HWY_EXPORT(csr_p64_f64);
HWY_EXPORT(slices_f64);
HWY_EXPORT(blocks_f64);
HWY_EXPORT(csr_p32_f32);
HWY_EXPORT(csr_p64_f32);
HWY_EXPORT(slices_f32);
HWY_EXPORT(blocks_f32);
}  // namespace

#define PROTEAN_MULTI_PRODUCTS(T, suffix)                                                            \
  template <>                                                                                        \
  void multi_product(const MultiCsr<T, std::int32_t>& a, const MultiTask<T>& t, std::int64_t b,      \
                     std::int64_t e) {                                                               \
    HWY_DYNAMIC_DISPATCH(csr_p32_##suffix)(a, t, b, e);                                              \
  }                                                                                                  \
  template <>                                                                                        \
  void multi_product(const MultiCsr<T, std::int64_t>& a, const MultiTask<T>& t, std::int64_t b,      \
                     std::int64_t e) {                                                               \
    HWY_DYNAMIC_DISPATCH(csr_p64_##suffix)(a, t, b, e);                                              \
  }                                                                                                  \
  template <>                                                                                        \
  void multi_product(const SliceView<T>& a, const MultiTask<T>& t, std::int64_t b, std::int64_t e) { \
    HWY_DYNAMIC_DISPATCH(slices_##suffix)(a, t, b, e);                                               \
  }                                                                                                  \
  template <>                                                                                        \
  void multi_product(const BlockGrid<T>& a, const MultiTask<T>& t, std::int64_t b, std::int64_t e) { \
    HWY_DYNAMIC_DISPATCH(blocks_##suffix)(a, t, b, e);                                               \
  }
PROTEAN_MULTI_PRODUCTS(double, f64)
PROTEAN_MULTI_PRODUCTS(float, f32)
#undef PROTEAN_MULTI_PRODUCTS

}  // namespace protean::formats
#endif  // HWY_ONCE
