// Small dense blocks times x. Where blocks lie one after another, the values of a block are one flat vector; x is
// repeated in registers as often as the block has rows. So neither the width nor the height of a block has to match a
// register. In slices, eight neighbouring block rows are computed together.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/blocks/blocks_kernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "core/narrow-inl.hpp"
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/engines/view/ordered-inl.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// sum[i] += block row i times x, of which the first `cols` entries exist.
template <int R, int C, class T>
HWY_INLINE void one_block(const T* values, const T* x, std::int64_t cols, T* sum) {
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j)
      if (j < cols) sum[i] += values[i * C + j] * x[j];
}

// The vectors of many_blocks().
template <int R, int C, class T>
using BlockTag = hn::CappedTag<T, R * C <= 2   ? R * C
                                  : R * C <= 4 ? 4
                                  : R * C <= 8 ? 8
                                               : 16>;

// The number of entries of x that many_blocks() reads for a block. Before AVX-512, processors may fault on lanes
// that are masked out (AMD64 Architecture Programmer's Manual, volume 4, VMASKMOVPS), so whole vectors are read.
template <int R, int C, class T>
constexpr std::int64_t reach = HWY_TARGET <= HWY_AVX3
                                   ? C
                                   : std::max<std::int64_t>(C, lanes_of<BlockTag<R, C, T>>);

// Adds blocks [b, end), for which x can be read up to `reach`, to sum. Returns the first block that was not added.
template <int R, int C, class T>
HWY_INLINE std::int64_t many_blocks(const BlockProduct<T>& job, std::int64_t b, std::int64_t end, T* sum) {
  constexpr int L = R * C;
  using D = BlockTag<R, C, T>;
  constexpr int N = static_cast<int>(lanes_of<D>), V = (L + N - 1) / N;
  if constexpr (N < C || N == 1) {
    for (; b < end; ++b)
      one_block<R, C>(job.grid.values + b * L, job.x + std::int64_t{job.grid.block_col[b]} * C, C, sum);
    return b;
  } else {
    // The last vector of a block also reads values of the next blocks. They end in lanes that are not used.
    end = std::min(end, job.grid.slots - (V * N - L + L - 1) / L);
    if (b >= end) return b;
    const D d;
    const hn::RebindToSigned<D> di;
    alignas(64) hwy::MakeSigned<T> lane[V * N];
    for (int l = 0; l < V * N; ++l) lane[l] = l % C;
    decltype(hn::SetTableIndices(d, lane)) spread[V];
    for (int v = 0; v < V; ++v) spread[v] = hn::IndicesFromVec(d, hn::Load(di, lane + v * N));
    hn::Vec<D> first[V], second[V];
    for (int v = 0; v < V; ++v) first[v] = second[v] = hn::Zero(d);
    const auto add = [&](std::int64_t block, hn::Vec<D>* to) HWY_ATTR {
      const T* values = job.grid.values + block * L;
      const T* const from = job.x + std::int64_t{job.grid.block_col[block]} * C;
#if HWY_TARGET <= HWY_AVX3
      const auto x = hn::MaskedLoad(hn::FirstN(d, C), d, from);
#else
      const auto x = hn::LoadU(d, from);  // lanes from C on are not used
#endif
      hwy::Prefetch(values + 4096 / sizeof(T));
      for (int v = 0; v < V; ++v)
        to[v] = hn::MulAdd(hn::LoadU(d, values + v * N), hn::TableLookupLanes(x, spread[v]), to[v]);
    };
    for (; b + 2 <= end; b += 2) add(b, first), add(b + 1, second);
    if (b < end) add(b++, first);
    alignas(64) T flat[V * N];
    for (int v = 0; v < V; ++v) hn::Store(hn::Add(first[v], second[v]), d, flat + v * N);
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < C; ++j) sum[i] += flat[i * C + j];
    return b;
  }
}

// The end of the blocks of block row i, which begin at b.
template <class T>
HWY_INLINE std::int64_t end_of(const BlockGrid<T>& a, std::int64_t i, std::int64_t b) {
  if (a.ptr) return a.ptr[i + 1];
  while (b < a.slots && a.block_row[b] == i) ++b;
  return b;
}
template <class T>
HWY_INLINE std::int64_t begin_of(const BlockGrid<T>& a, std::int64_t i) {
  return a.ptr ? a.ptr[i] : a.first_of(i);
}

template <class RowSize, class ColSize, class T>
void ordered(const BlockProduct<T>& job, RowSize R, ColSize C, std::int64_t begin, std::int64_t end) {
  const BlockGrid<T>& a = job.grid;
  const int size = R * C, bytes = (size + 7) / 8;
  const std::uint64_t full = ~std::uint64_t{0} >> (64 - size);
  std::int64_t b = begin_of(a, begin);
  for (std::int64_t i = begin; i < end; ++i) {
    T sum[RowSize::most] = {};
    for (const std::int64_t last = end_of(a, i, b); b < last; ++b) {
      const T *values = a.values + b * size, *x = job.x + std::int64_t{a.block_col[b]} * C;
      std::uint64_t bits = 0;
      for (int byte = 0; byte < bytes; ++byte)
        bits |= std::uint64_t{a.entries[b * bytes + byte]} << (8 * byte);
      for (int k = 0; k < R; ++k)
        for (int j = 0; j < C; ++j)
          if (bits == full || (bits >> (k * C + j) & 1)) sum[k] = std::fma(values[k * C + j], x[j], sum[k]);
    }
    for (std::int64_t r = i * R, k = 0; k < R && r < a.rows; ++k, ++r)
      store_ordered(job.alpha, sum[k], job.beta, job.y[r]);
  }
}

template <class T>
HWY_INLINE void finish(const BlockProduct<T>& job, std::int64_t row, T sum, T& dot) {
  formats::store(job.alpha, sum, job.beta, job.y[row]);
  if (job.with_dot) dot += job.x[row] * job.y[row];
}

// Blocks that lie one after another.
template <int R, int C, class T>
T run(const BlockProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const BlockGrid<T>& a = job.grid;
  T dot = 0;
  std::int64_t b = begin_of(a, begin);
  for (std::int64_t i = begin; i < end; ++i) {
    T sum[R] = {};
    const std::int64_t first = b, last = end_of(a, i, b);
    std::int64_t whole = last;
    // Blocks ascend, so only the last ones of a block row can reach past the last column.
    while (whole > first && std::int64_t{a.block_col[whole - 1]} * C + reach < R, C, T >> a.cols) --whole;
    b = many_blocks<R, C>(job, first, whole, sum);
    for (; b < last; ++b) {
      const std::int64_t col = std::int64_t{a.block_col[b]} * C;
      one_block<R, C>(a.values + b * R * C, job.x + col, a.cols - col, sum);
    }
    for (std::int64_t r = i * R, k = 0; k < R && r < a.rows; ++k, ++r) finish(job, r, sum[k], dot);
  }
  return dot;
}

// sum[r] += the block in column `number` whose values begin at v, times x. W values lie together.
template <class RowSize, class ColSize, class UnitSize, class T>
HWY_INLINE void add_block(const BlockGrid<T>& a, RowSize R, ColSize C, UnitSize W, const T* v,
                          std::int64_t unit, std::int64_t number, const T* x, T* sum) {
  const std::int64_t left = a.cols - number * C;
  x += number * C;
  if (left >= C) {
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) sum[r] += v[(r * (C / W) + c / W) * unit + c % W] * x[c];
    return;
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < left; ++c) sum[r] += v[(r * (C / W) + c / W) * unit + c % W] * x[c];
}

// Blocks in any order, one block row after another.
template <class RowSize, class ColSize, class UnitSize, class T>
T one_by_one(const BlockProduct<T>& job, RowSize R, ColSize C, UnitSize W, std::int64_t begin,
             std::int64_t end) {
  const BlockGrid<T>& a = job.grid;
  T dot = 0;
  for (std::int64_t at = begin; at < end; ++at) {
    T sum[RowSize::most] = {};
    const BlockRow b = a.block_row_at(at);
    const std::int64_t i = a.number(at);
    for (std::int64_t k = 0; k < b.count; ++k)
      add_block(a, R, C, W, a.values + b.base + k * b.step, b.unit, a.block_col[b.first + k * b.slot_step],
                job.x, sum);
    for (std::int64_t r = i * R, k = 0; k < R && r < a.rows; ++k, ++r) finish(job, r, sum[k], dot);
  }
  return dot;
}

constexpr int together = 8;  // block rows

// add_block() for slices that are not full: one code for all shapes, to save time of the build.
template <class T>
HWY_NOINLINE void add_block_of_any_size(const BlockGrid<T>& a, int R, int C, int W, const T* v,
                                        std::int64_t unit, std::int64_t number, const T* x, T* sum) {
  add_block(a, AnySize{R}, AnySize{C}, AnySize{W}, v, unit, number, x, sum);
}

// sum[l][r] += the blocks of n <= together lanes. Lane l has the block in column number[l]; its values begin at v + l
// W.
template <class RowSize, class ColSize, class UnitSize, class T>
HWY_INLINE void add_lanes(const BlockGrid<T>& a, RowSize R, ColSize C, UnitSize W, int n, const T* v,
                          std::int64_t unit, const std::int32_t* number, const T* x,
                          T (*sum)[RowSize::most]) {
  if (n < together) {
    for (int l = 0; l < n; ++l) add_block_of_any_size(a, R, C, W, v + l * W, unit, number[l], x, sum[l]);
    return;
  }
  if (W > 1) {
    for (int l = 0; l < n; ++l) add_block(a, R, C, W, v + l * W, unit, number[l], x, sum[l]);
    return;
  }
  T xs[ColSize::most][together] = {}, sums[together];
  for (int l = 0; l < together; ++l) {
    const std::int64_t col = std::int64_t{number[l]} * C;
    for (int c = 0; c < C; ++c) xs[c][l] = col + c < a.cols ? x[col + c] : T(0);
  }
  for (int r = 0; r < R; ++r) {
    for (int l = 0; l < together; ++l) sums[l] = sum[l][r];
    for (int c = 0; c < C; ++c, v += unit)
      for (int l = 0; l < together; ++l) sums[l] += v[l] * xs[c][l];
    for (int l = 0; l < together; ++l) sum[l][r] = sums[l];
  }
}

// Slices.
template <class RowSize, class ColSize, class UnitSize, class T>
T in_lanes(const BlockProduct<T>& job, RowSize R, ColSize C, UnitSize W, std::int64_t begin,
           std::int64_t end) {
  const BlockGrid<T>& a = job.grid;
  T dot = 0;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t slice_end = std::min((at / a.height + 1) * a.height, end);
    const int n = static_cast<int>(std::min<std::int64_t>(together, slice_end - at));
    const BlockRow b = a.block_row_at(at);
    T sum[together][RowSize::most] = {};
    std::int32_t own[together];
    for (int l = 0; l < n; ++l) own[l] = static_cast<std::int32_t>(at + l);
    // k = -1: the diagonal, if it is apart.
    for (std::int64_t k = a.diagonal_apart ? -1 : 0; k < b.count; ++k)
      add_lanes(a, R, C, W, n, a.values + (k < 0 ? a.apart(at).base : b.base + k * b.step),
                k < 0 ? a.apart(at).unit : b.unit, k < 0 ? own : a.block_col + b.first + k * b.slot_step,
                job.x, sum);
    for (int l = 0; l < n; ++l)
      for (std::int64_t r = a.number(at + l) * R, k = 0; k < R && r < a.rows; ++k, ++r)
        finish(job, r, sum[l][k], dot);
    at += n;
  }
  return dot;
}

// Calls f(R, C) as with_usual_shape() does. Processors without AVX2 get one code for all shapes, to save time of the
// build.
template <class T, class F>
decltype(auto) with_compiled_shape(const BlockProduct<T>& job, F&& f) {
#if HWY_TARGET == HWY_SCALAR
  return f(AnySize{static_cast<int>(job.grid.R)}, AnySize{static_cast<int>(job.grid.C)});
#else
  return with_usual_shape(job.grid.R, job.grid.C, f);
#endif
}

template <class T>
T product(const BlockProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const BlockGrid<T>& a = job.grid;
  if (begin == end) return T(0);
  if (a.container == BlockContainer::slices)
    return with_compiled_shape(job, [&](auto R, auto C) {
      if (a.W == 1) return in_lanes(job, R, C, FixedSize<1>(), begin, end);
      if constexpr (decltype(C)::most == largest_block)
        if (a.W != C) return in_lanes(job, R, C, FixedSize<4>(), begin, end);
      return in_lanes(job, R, C, C, begin, end);
    });
  if (a.order != BlockOrder::blocks)
    return with_compiled_shape(job, [&](auto R, auto C) {
      using formats::PROTEAN_NARROW::one_by_one;
      if (a.W == 1) return one_by_one(job, R, C, FixedSize<1>(), begin, end);
      if constexpr (decltype(C)::most == largest_block)
        if (a.W != C) return one_by_one(job, R, C, FixedSize<4>(), begin, end);
      return one_by_one(job, R, C, C, begin, end);
    });
  if (job.ordered) {
    with_compiled_shape(job,
                        [&](auto R, auto C) { formats::PROTEAN_NARROW::ordered(job, R, C, begin, end); });
    return T(0);
  }
#if HWY_TARGET == HWY_SCALAR
  return with_compiled_shape(job, [&](auto R, auto C) { return one_by_one(job, R, C, C, begin, end); });
#else
  return with_shape(a.R, a.C, [&](auto R, auto C) {
    if constexpr (std::is_same_v<decltype(R), AnySize>)
      return formats::PROTEAN_NARROW::one_by_one(job, R, C, C, begin, end);
    else
      return formats::PROTEAN_NARROW::run<decltype(R)::most, decltype(C)::most>(job, begin, end);
  });
#endif
}

double block_product_f64(const BlockProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return product(job, begin, end);
}
float block_product_f32(const BlockProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return product(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(block_product_f64);
HWY_EXPORT(block_product_f32);

double block_product(const BlockProduct<double>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(block_product_f64)(product, begin, end);
}
float block_product(const BlockProduct<float>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(block_product_f32)(product, begin, end);
}

}  // namespace protean::formats
#endif
