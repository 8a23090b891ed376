// Sum over a run of entries of one row, for the SIMD target being compiled: include it inside foreach_target
// files after hwy/highway.h. Private to formats/.
//
// Long rows: four lanes of x are loaded one by one and joined in registers. Hardware gathers are slower than that on
// many processors and hardly faster on the others. Two accumulators hide the latency of the addition.
//
// Short rows: joining lanes, adding them up and mispredicted ends of loops cost more instructions than SIMD saves. So
// rows of up to `most_unrolled` entries are added one entry after another, in code for exactly this length. The
// processor computes several rows at the same time. It took 0.63 of the time at 7 entries and 0.7 at 9 on Zen 3.
#if defined(PROTEAN_FORMATS_ROW_DOT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_FORMATS_ROW_DOT_INL
#undef PROTEAN_FORMATS_ROW_DOT_INL
#else
#define PROTEAN_FORMATS_ROW_DOT_INL
#endif

#include <cmath>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "formats/simd_load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using RowTag = hn::CappedTag<T, 4>;

// x[col[0]], x[col[1]], ... in the lanes of a vector.
#if HWY_TARGET == HWY_SCALAR
template <class T>
HWY_INLINE hn::Vec<RowTag<T>> pick(const T* HWY_RESTRICT x, const std::int32_t* HWY_RESTRICT col) {
  return hn::Set(RowTag<T>(), x[col[0]]);
}
#else
template <class T>
HWY_INLINE hn::Vec<RowTag<T>> pick(const T* HWY_RESTRICT x, const std::int32_t* HWY_RESTRICT col) {
  const RowTag<T> d;
  if constexpr (sizeof(T) == 4) {
    // 0 2 and 1 3 make 0 1 2 3
    const auto even = hn::InterleaveLower(d, hn::Set(d, x[col[0]]), hn::Set(d, x[col[2]]));
    const auto odd = hn::InterleaveLower(d, hn::Set(d, x[col[1]]), hn::Set(d, x[col[3]]));
    return hn::InterleaveLower(d, even, odd);
  } else {
    const hn::FixedTag<T, 2> two;
    const auto low = hn::InterleaveLower(two, hn::Set(two, x[col[0]]), hn::Set(two, x[col[1]]));
    if constexpr (hn::MaxLanes(RowTag<T>()) == 2)
      return low;
    else
      return hn::Combine(d, hn::InterleaveLower(two, hn::Set(two, x[col[2]]), hn::Set(two, x[col[3]])), low);
  }
}
#endif

// a b + sum: fused if the processor has an instruction for it.
template <class T>
HWY_INLINE T add_product(T a, T b, T sum) {
#if HWY_ARCH_X86
  constexpr bool instruction = HWY_TARGET <= HWY_AVX2;  // better targets have smaller numbers
#elif defined(FP_FAST_FMA) && defined(FP_FAST_FMAF)
  constexpr bool instruction = true;
#else
  constexpr bool instruction = false;
#endif
  if constexpr (instruction)
    return std::fma(a, b, sum);
  else
    return a * b + sum;
}

constexpr int most_unrolled = 10;

// The sum of values[k] x[col[k]] for k < length, one after another.
template <int length, class T, class V>
HWY_INLINE T short_dot(const V* HWY_RESTRICT values, const std::int32_t* HWY_RESTRICT col,
                       const T* HWY_RESTRICT x) {
  if constexpr (length == 0)
    return T(0);
  else
    return add_product(T{values[length - 1]}, x[col[length - 1]], short_dot<length - 1>(values, col, x));
}

// The sum of values[k] x[col[k]] for begin <= k < end. The order of the additions depends on end - begin
// only. Fewer than `shortest` entries are added one by one.
template <int shortest = 4, class T, class P, class V>
HWY_INLINE T row_dot(const V* HWY_RESTRICT values, const std::int32_t* HWY_RESTRICT col,
                     const T* HWY_RESTRICT x, P k, P end) {
  const RowTag<T> d;
  constexpr P lanes = static_cast<P>(hn::MaxLanes(RowTag<T>()));
  T sum = 0;
  if (end - k >= shortest) {
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (; k + 2 * lanes <= end; k += 2 * lanes) {
      even = hn::MulAdd(load_values(d, values + k), pick(x, col + k), even);
      odd = hn::MulAdd(load_values(d, values + k + lanes), pick(x, col + k + lanes), odd);
    }
    if (k + lanes <= end) {
      even = hn::MulAdd(load_values(d, values + k), pick(x, col + k), even);
      k += lanes;
    }
    sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  }
  for (; k < end; ++k) sum += values[k] * x[col[k]];
  return sum;
}

// Masks pay with vectors of 4.
constexpr bool has_masks = hn::MaxLanes(RowTag<double>()) == 4;

// The same, with `chunk` entries at a time, a multiple of 4: the last chunk is computed as a whole, and what belongs to
// the rows that follow is set to zero. So the only branch is on the number of chunks; it is rarely mispredicted if rows
// of varying length have few chunks. Reads up to chunk - 1 entries from `end` on.
template <int chunk, class T, class P, class V>
HWY_INLINE T masked_row_dot(const V* HWY_RESTRICT values, const std::int32_t* HWY_RESTRICT col,
                            const T* HWY_RESTRICT x, P k, P end) {
  const RowTag<T> d;
  constexpr P lanes = static_cast<P>(hn::MaxLanes(RowTag<T>()));
  auto sum = hn::Zero(d);
  for (; end - k > chunk; k += chunk)
    for (P j = 0; j < chunk; j += lanes)
      sum = hn::MulAdd(load_values(d, values + k + j), pick(x, col + k + j), sum);
  for (P j = 0; j < chunk; j += lanes) {
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(end - k - j > 0 ? end - k - j : 0));
    // Only products are masked: x may be infinite in columns in which this row has no entry.
    sum = hn::Add(sum,
                  hn::IfThenElseZero(inside, hn::Mul(load_values(d, values + k + j), pick(x, col + k + j))));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

constexpr std::size_t prefetch_distance = 512, prefetch_step = 64 / sizeof(std::int32_t);

// Prefetches prefetch_step values and indices (one or two arrays) a few KiB after entry k. The hardware's own
// prefetcher stops at the end of every page and starts late; this makes large matrices up to 2 times faster. The
// address may lie past the end of an array, which is allowed for a prefetch.
template <class T, class P, class... Index>
HWY_INLINE void prefetch_ahead(P k, const T* values, const Index*... index) {
  const auto ask = [](const auto* array, std::size_t at) HWY_ATTR {
    hwy::Prefetch(
        reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(array) + at * sizeof(*array)));
  };
  const auto at = static_cast<std::size_t>(k) + prefetch_distance;
  ask(values, at);
  if constexpr (sizeof(T) == 8) ask(values, at + prefetch_step / 2);
  (ask(index, at), ...);
}

// The same for all entries before `wanted`; `prefetched` is how far it has come.
template <class T, class P, class... Index>
HWY_INLINE void prefetch_entries(P wanted, P& prefetched, const T* values, const Index*... index) {
  for (; prefetched < wanted; prefetched += static_cast<P>(prefetch_step))
    prefetch_ahead(prefetched, values, index...);
}

}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
