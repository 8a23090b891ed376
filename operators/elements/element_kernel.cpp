// Compiled once for each instruction set by Highway; multiply_elements() picks at run time.
#include "core/simd.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operators/elements/element_kernel.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include <atomic>

#include "operators/elements/element_kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// One number for each lane of a batch: several registers if a register has fewer lanes.
template <class T>
struct Line {
  static constexpr int lanes = host_lanes<T>;
  using D = hn::CappedTag<T, lanes>;
  static constexpr int width = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int registers = lanes / width;
  hn::Vec<D> v[registers];

  HWY_INLINE Line() {}  // written out: see core/lanes-inl.hpp
  static HWY_INLINE Line zero() {
    Line line;
    for (int r = 0; r < registers; ++r) line.v[r] = hn::Zero(D());
    return line;
  }
  static HWY_INLINE Line load(const T* from) {
    Line line;
    for (int r = 0; r < registers; ++r) line.v[r] = hn::Load(D(), from + r * width);
    return line;
  }
  HWY_INLINE void store(T* to) const {
    for (int r = 0; r < registers; ++r) hn::Store(v[r], D(), to + r * width);
  }
  // this += a b
  HWY_INLINE void add(const Line& a, const Line& b) {
    for (int r = 0; r < registers; ++r) v[r] = hn::MulAdd(a.v[r], b.v[r], v[r]);
  }
  HWY_INLINE void add(const Line& a) {
    for (int r = 0; r < registers; ++r) v[r] = hn::Add(v[r], a.v[r]);
  }
  HWY_INLINE T sum() const {
    auto total = v[0];
    for (int r = 1; r < registers; ++r) total = hn::Add(total, v[r]);
    return hn::GetLane(hn::SumOfLanes(D(), total));
  }
};

// Prefetch distance in the entries.
constexpr int prefetch_lines = 24;

// y_e := K_e x_e for a batch. Two sums per row hide the latency of the multiply-add.
template <class T>
HWY_INLINE void multiply_full(std::int64_t m, const T* k, const T* x, T* y) {
  constexpr int L = Line<T>::lanes;
  for (std::int64_t i = 0; i < m; ++i) {
    Line<T> even = Line<T>::zero(), odd = even;
    std::int64_t j = 0;
    for (; j + 2 <= m; j += 2, k += 2 * L) {
      hwy::Prefetch(k + prefetch_lines * L), hwy::Prefetch(k + (prefetch_lines + 1) * L);
      even.add(Line<T>::load(k), Line<T>::load(x + j * L));
      odd.add(Line<T>::load(k + L), Line<T>::load(x + (j + 1) * L));
    }
    if (j < m) even.add(Line<T>::load(k), Line<T>::load(x + j * L)), k += L;
    even.add(odd);
    even.store(y + i * L);
  }
}

// y_e := K_e^T x_e for a batch: row i of K_e, times x_i, is added to y_e. Two rows at a time halve the traffic of y_e.
template <class T>
HWY_INLINE void multiply_transposed(std::int64_t m, const T* k, const T* x, T* y) {
  constexpr int L = Line<T>::lanes;
  for (std::int64_t j = 0; j < m; ++j) Line<T>::zero().store(y + j * L);
  std::int64_t i = 0;
  for (; i + 2 <= m; i += 2, k += 2 * m * L) {
    const Line<T> first = Line<T>::load(x + i * L), second = Line<T>::load(x + (i + 1) * L);
    for (std::int64_t j = 0; j < m; ++j) {
      hwy::Prefetch(k + (j + prefetch_lines) * L), hwy::Prefetch(k + (m + j + prefetch_lines) * L);
      Line<T> sum = Line<T>::load(y + j * L);
      sum.add(Line<T>::load(k + j * L), first);
      sum.add(Line<T>::load(k + (m + j) * L), second);
      sum.store(y + j * L);
    }
  }
  if (i == m) return;
  const Line<T> last = Line<T>::load(x + i * L);
  for (std::int64_t j = 0; j < m; ++j) {
    Line<T> sum = Line<T>::load(y + j * L);
    sum.add(Line<T>::load(k + j * L), last);
    sum.store(y + j * L);
  }
}

// y_e := K_e x_e from the lower halves: each entry (i, j) below the diagonal is used for row i and for row j.
template <class T>
HWY_INLINE void multiply_half(std::int64_t m, const T* k, const T* x, T* y) {
  constexpr int L = Line<T>::lanes;
  for (std::int64_t i = 0; i < m; ++i) {
    const Line<T> here = Line<T>::load(x + i * L);
    Line<T> even = Line<T>::zero(), odd = even;
    const auto entry = [&](std::int64_t j, Line<T>& sum) {
      const Line<T> value = Line<T>::load(k);
      hwy::Prefetch(k + prefetch_lines * L);
      k += L;
      sum.add(value, Line<T>::load(x + j * L));
      Line<T> mirror = Line<T>::load(y + j * L);
      mirror.add(value, here);
      mirror.store(y + j * L);
    };
    std::int64_t j = 0;
    for (; j + 2 <= i; j += 2) entry(j, even), entry(j + 1, odd);
    if (j < i) entry(j, even);
    even.add(Line<T>::load(k), here), k += L;
    even.add(odd);
    even.store(y + i * L);
  }
}

template <class T>
HWY_INLINE void gather(const ElementBatch& batch, const std::int32_t* map, const T* x, T* to) {
  const std::int64_t size = std::int64_t{batch.m} * Line<T>::lanes;
  if (batch.complete) {
    for (std::int64_t n = 0; n < size; ++n) to[n] = x[map[n]];
  } else {
    for (std::int64_t n = 0; n < size; ++n) to[n] = map[n] < 0 ? T(0) : x[map[n]];
  }
}

template <class T>
HWY_INLINE void scatter(const ElementWork<T>& w, const ElementBatch& batch, const std::int32_t* map,
                        const T* from) {
  const std::int64_t size = std::int64_t{batch.m} * Line<T>::lanes;
  if (batch.shared && w.target == ElementTarget::add_shared) {
    for (std::int64_t n = 0; n < size; ++n)
      if (map[n] >= 0)
        std::atomic_ref<T>(w.y[map[n]]).fetch_add(w.alpha * from[n], std::memory_order_relaxed);
  } else if (batch.complete) {
    for (std::int64_t n = 0; n < size; ++n) w.y[map[n]] += w.alpha * from[n];
  } else {
    for (std::int64_t n = 0; n < size; ++n)
      if (map[n] >= 0) w.y[map[n]] += w.alpha * from[n];
  }
}

template <class T>
T multiply_batches(const ElementWork<T>& w, const Range& range) {
  constexpr int L = Line<T>::lanes;
  alignas(64) T x[largest_element * L];
  alignas(64) T own[largest_element * L];
  Line<T> dot = Line<T>::zero();
  for (std::int64_t b = range.begin; b < range.end; ++b) {
    const ElementBatch& batch = w.batches[b];
    const std::int32_t* map = w.map + batch.map;
    T* y = w.target == ElementTarget::store ? w.y + batch.map : own;
    gather(batch, map, w.x, x);
    if (w.symmetric)
      multiply_half<T>(batch.m, w.values + batch.values, x, y);
    else if (w.transposed)
      multiply_transposed<T>(batch.m, w.values + batch.values, x, y);
    else
      multiply_full<T>(batch.m, w.values + batch.values, x, y);
    for (std::int64_t i = 0; i < batch.m; ++i) dot.add(Line<T>::load(x + i * L), Line<T>::load(y + i * L));
    if (w.target != ElementTarget::store) scatter(w, batch, map, y);
  }
  return dot.sum();
}

// W vectors: the vectors of an element are at x + w m L.
template <int W, bool symmetric, class T>
HWY_INLINE void multiply_several(std::int64_t m, const T* k, const T* x, T* y) {
  constexpr int L = Line<T>::lanes;
  const std::int64_t size = m * L;
  for (std::int64_t i = 0; i < m; ++i) {
    Line<T> sum[W];
    for (int w = 0; w < W; ++w) sum[w] = Line<T>::zero();
    for (std::int64_t j = 0; j < (symmetric ? i : m); ++j, k += L) {
      hwy::Prefetch(k + prefetch_lines * L);
      const Line<T> value = Line<T>::load(k);
      for (int w = 0; w < W; ++w) {
        sum[w].add(value, Line<T>::load(x + w * size + j * L));
        if constexpr (symmetric) {
          Line<T> mirror = Line<T>::load(y + w * size + j * L);
          mirror.add(value, Line<T>::load(x + w * size + i * L));
          mirror.store(y + w * size + j * L);
        }
      }
    }
    if constexpr (symmetric) {
      const Line<T> value = Line<T>::load(k);
      k += L;
      for (int w = 0; w < W; ++w) sum[w].add(value, Line<T>::load(x + w * size + i * L));
    }
    for (int w = 0; w < W; ++w) sum[w].store(y + w * size + i * L);
  }
}

// A batch times vectors first .. first + W - 1.
template <int W, class T>
HWY_INLINE void several(const ElementMultiWork<T>& w, const ElementBatch& batch, std::int64_t first, T* x,
                        T* own) {
  const std::int64_t size = std::int64_t{batch.m} * Line<T>::lanes;
  const std::int32_t* const map = w.map + batch.map;
  const T* const from = w.x + first * w.x_column;
  T* const to = w.y + first * w.y_column;
  for (std::int64_t n = 0; n < size; ++n)
    for (int j = 0; j < W; ++j) x[j * size + n] = map[n] < 0 ? T(0) : from[map[n] * w.x_row + j * w.x_column];
  if (w.symmetric)
    multiply_several<W, true>(batch.m, w.values + batch.values, x, own);
  else
    multiply_several<W, false>(batch.m, w.values + batch.values, x, own);
  const bool shared = batch.shared && w.target == ElementTarget::add_shared;
  for (std::int64_t n = 0; n < size; ++n)
    if (map[n] >= 0)
      for (int j = 0; j < W; ++j) {
        T& y = to[map[n] * w.y_row + j * w.y_column];
        const T more = w.alpha * own[j * size + n];
        if (shared)
          std::atomic_ref<T>(y).fetch_add(more, std::memory_order_relaxed);
        else
          y += more;
      }
}

template <class T>
void multiply_batches(const ElementMultiWork<T>& w, const Range& range) {
  constexpr int L = Line<T>::lanes, most = 4;
  // Room for one vector of the largest elements, or for four vectors of elements with a quarter of the rows.
  alignas(64) T x[largest_element * L];
  alignas(64) T own[largest_element * L];
  for (std::int64_t b = range.begin; b < range.end; ++b) {
    const ElementBatch& batch = w.batches[b];
    std::int64_t j = 0;
    if (batch.m * most <= largest_element)
      for (; j + most <= w.columns; j += most) several<most>(w, batch, j, x, own);
    for (; j < w.columns; ++j) several<1>(w, batch, j, x, own);
  }
}

void multiply_multi_f64(const ElementMultiWork<double>& w, const Range& range) { multiply_batches(w, range); }
void multiply_multi_f32(const ElementMultiWork<float>& w, const Range& range) { multiply_batches(w, range); }
double multiply_f64(const ElementWork<double>& w, const Range& range) { return multiply_batches(w, range); }
float multiply_f32(const ElementWork<float>& w, const Range& range) { return multiply_batches(w, range); }

}  // namespace
}  // namespace protean::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::detail {
namespace {
HWY_EXPORT(multiply_f64);
HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_multi_f64);
HWY_EXPORT(multiply_multi_f32);
}  // namespace

template <>
double multiply_elements<double>(const ElementWork<double>& work, Range batches) {
  return HWY_DYNAMIC_DISPATCH(multiply_f64)(work, batches);
}
template <>
float multiply_elements<float>(const ElementWork<float>& work, Range batches) {
  return HWY_DYNAMIC_DISPATCH(multiply_f32)(work, batches);
}
template <>
void multiply_elements<double>(const ElementMultiWork<double>& work, Range batches) {
  HWY_DYNAMIC_DISPATCH(multiply_multi_f64)(work, batches);
}
template <>
void multiply_elements<float>(const ElementMultiWork<float>& work, Range batches) {
  HWY_DYNAMIC_DISPATCH(multiply_multi_f32)(work, batches);
}

}  // namespace protean::detail
#endif
