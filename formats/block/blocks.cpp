// Small dense blocks times x. The values of a block are one flat vector; x is repeated in registers as often
// as the block has rows. So neither the width nor the height of a block has to match a register.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/block/blocks.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "formats/block/blocks.hpp"
#include "formats/private/ordered-inl.hpp"
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
      one_block<R, C>(job.values + b * L, job.x + std::int64_t{job.block_col[b]} * C, C, sum);
    return b;
  } else {
    // The last vector of a block also reads values of the next blocks. They end in lanes that are not used.
    end = std::min(end, job.blocks - (V * N - L + L - 1) / L);
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
      const T* values = job.values + block * L;
      const T* const from = job.x + std::int64_t{job.block_col[block]} * C;
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

template <int R, int C, class T>
void ordered(const BlockProduct<T>& job, std::int64_t begin, std::int64_t end) {
  constexpr int size = R * C, bytes = (size + 7) / 8;
  constexpr std::uint64_t full = ~std::uint64_t{0} >> (64 - size);
  for (std::int64_t i = begin; i < end; ++i) {
    T sum[R] = {};
    for (std::int64_t b = job.block_ptr[i]; b < job.block_ptr[i + 1]; ++b) {
      const T *values = job.values + b * size, *x = job.x + std::int64_t{job.block_col[b]} * C;
      std::uint64_t bits = 0;
      for (int byte = 0; byte < bytes; ++byte)
        bits |= std::uint64_t{job.entries[b * bytes + byte]} << (8 * byte);
      for (int k = 0; k < R; ++k)
        for (int j = 0; j < C; ++j)
          if (bits == full || (bits >> (k * C + j) & 1)) sum[k] = std::fma(values[k * C + j], x[j], sum[k]);
    }
    for (std::int64_t r = i * R, k = 0; k < R && r < job.rows; ++k, ++r)
      store_ordered(job.alpha, sum[k], job.beta, job.y[r]);
  }
}

template <int R, int C, class T>
T run(const BlockProduct<T>& job, std::int64_t begin, std::int64_t end) {
  if (job.ordered) {
    ordered<R, C>(job, begin, end);
    return T(0);
  }
  T dot = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    T sum[R] = {};
    const std::int64_t last = job.block_ptr[i + 1];
    std::int64_t whole = last;
    // Blocks ascend, so only the last ones of a block row can reach past the last column.
    while (whole > job.block_ptr[i] && std::int64_t{job.block_col[whole - 1]} * C + reach < R, C,
           T >> job.cols)
      --whole;
    std::int64_t b = many_blocks<R, C>(job, job.block_ptr[i], whole, sum);
    for (; b < last; ++b) {
      const std::int64_t col = std::int64_t{job.block_col[b]} * C;
      one_block<R, C>(job.values + b * R * C, job.x + col, job.cols - col, sum);
    }
    for (std::int64_t r = i * R, k = 0; k < R && r < job.rows; ++k, ++r) {
      formats::store(job.alpha, sum[k], job.beta, job.y[r]);
      if (job.with_dot) dot += job.x[r] * job.y[r];
    }
  }
  return dot;
}

template <int R, class T>
T run_cols(const BlockProduct<T>& job, std::int64_t begin, std::int64_t end) {
  switch (job.C) {
    case 1:
      return run<R, 1>(job, begin, end);
    case 2:
      return run<R, 2>(job, begin, end);
    case 3:
      return run<R, 3>(job, begin, end);
    case 4:
      return run<R, 4>(job, begin, end);
    default:
      return run<R, 8>(job, begin, end);
  }
}

template <class T>
T run_rows(const BlockProduct<T>& job, std::int64_t begin, std::int64_t end) {
  switch (job.R) {
    case 1:
      return run_cols<1>(job, begin, end);
    case 2:
      return run_cols<2>(job, begin, end);
    case 3:
      return run_cols<3>(job, begin, end);
    case 4:
      return run_cols<4>(job, begin, end);
    default:
      return run_cols<8>(job, begin, end);
  }
}

double block_product_f64(const BlockProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return run_rows(job, begin, end);
}
float block_product_f32(const BlockProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return run_rows(job, begin, end);
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
