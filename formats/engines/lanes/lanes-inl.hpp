// The product of lane-mapped ELLPACK on the host, for lanes.cpp (entries) and lane_blocks.cpp (blocks of two entries),
// which share the time to compile it. Included once for each instruction set, after Highway. Private to formats/.
#if defined(PROTEAN_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_LANES_INL
#undef PROTEAN_LANES_INL
#else
#define PROTEAN_LANES_INL
#endif
#include <hwy/highway.h>

#include "formats/engines/lanes/lanes.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int most_lanes = 256;

// The first and the second column of a block 1x2; the second is the first if it is not an entry.
struct FirstColumn {
  HWY_INLINE std::int32_t operator()(std::int32_t key) const { return key >> 2; }
};
struct SecondColumn {
  HWY_INLINE std::int32_t operator()(std::int32_t key) const { return (key >> 2) + ((key >> 1) & 1); }
};
// The lanes of x in which bit e of the key is set, 0 in the others.
template <class D>
HWY_INLINE hn::Vec<D> where_entry(D d, const std::int32_t* key, int e, hn::Vec<D> x) {
  const hn::Rebind<std::int32_t, D> narrow;
  const hn::RebindToSigned<D> wide;
  const auto bit = hn::And(hn::LoadU(narrow, key), hn::Set(narrow, 1 << e));
  if constexpr (sizeof(hn::TFromD<D>) == 8)
    return hn::IfThenElseZero(hn::RebindMask(d, hn::Ne(hn::PromoteTo(wide, bit), hn::Zero(wide))), x);
  else
    return hn::IfThenElseZero(hn::RebindMask(d, hn::Ne(bit, hn::Zero(narrow))), x);
}

// Adds what the slots from `values` on contribute to the sums of their lanes: sum[e] is the sum of row e of the block
// rows.
template <int R, int C, class D, class T, class V>
HWY_INLINE void add_slots(D d, const T* x, const T* values, std::int64_t L, const std::int32_t* col,
                          V (&sum)[R]) {
  if constexpr (C == 2) {
    sum[0] = hn::MulAdd(hn::LoadU(d, values), take_at(d, x, col, FirstColumn()), sum[0]);
    sum[0] = hn::MulAdd(hn::LoadU(d, values + L), take_at(d, x, col, SecondColumn()), sum[0]);
  } else if constexpr (R == 2) {
    const V taken = take_at(d, x, col, FirstColumn());
    sum[0] = hn::MulAdd(hn::LoadU(d, values), where_entry(d, col, 0, taken), sum[0]);
    sum[1] = hn::MulAdd(hn::LoadU(d, values + L), where_entry(d, col, 1, taken), sum[1]);
  } else {
    sum[0] = hn::MulAdd(hn::LoadU(d, values), take(d, x, col), sum[0]);
  }
}

// The sums of U vectors of lanes of a unit from lane l on. Its columns are the columns of slots from col[0] on. S:
// unroll.
template <int R, int C, int U, int S, class D, class T>
HWY_INLINE void lane_sums(D d, const LaneProduct<T>& job, std::int64_t u, const std::int32_t* col, int l,
                          T* sums) {
  constexpr int N = static_cast<int>(lanes_of<D>), B = R * C;
  const MappedLanes<T>& a = job.a;
  const std::int64_t L = a.L;
  std::int64_t left =
      a.unit_ptr[u + 1] - a.unit_ptr[u];  // slots of all lanes; a division by L would cost more than a slot
  // Without a slot there may be no array.
  const T* values = left > 0 ? a.values + B * a.unit_ptr[u] + l : nullptr;
  hn::Vec<D> sum[U][R];
  for (int i = 0; i < U; ++i)
    for (int e = 0; e < R; ++e) sum[i][e] = hn::Zero(d);
  for (; left >= S * L; left -= S * L, values += S * B * L, col += S * L)
    for (int k = 0; k < S; ++k)
      for (int i = 0; i < U; ++i)
        add_slots<R, C>(d, job.x, values + k * B * L + i * N, L, col + k * L + l + i * N, sum[i]);
  if constexpr (S > 1)
    for (; left > 0; left -= L, values += B * L, col += L)
      for (int i = 0; i < U; ++i) add_slots<R, C>(d, job.x, values + i * N, L, col + l + i * N, sum[i]);
  for (int i = 0; i < U; ++i)
    for (int e = 0; e < R; ++e) hn::StoreU(sum[i][e], d, sums + e * most_lanes + l + i * N);
}

// The same for coded columns, which are restored for S slots at a time.
template <int R, int C, int S, class D, class T>
HWY_INLINE void coded_sums(D d, const LaneProduct<T>& job, std::int64_t u, const std::uint16_t* delta,
                           T* sums) {
  constexpr int N = static_cast<int>(lanes_of<D>), B = R * C;
  const MappedLanes<T>& a = job.a;
  const int L = a.L;
  const T* values = a.values + B * a.unit_ptr[u];
  std::int32_t col[S][32];
  std::copy(a.first + u * L, a.first + (u + 1) * L, col[0]);
  for (int e = 0; e < R; ++e) std::fill(sums + e * most_lanes, sums + e * most_lanes + L, T(0));
  for (std::int64_t left = a.unit_ptr[u + 1] - a.unit_ptr[u]; left > 0; left -= S * L, values += S * B * L) {
    int slots = 1;
    for (; slots < S && slots * L < left; ++slots) {}
    for (int k = 1; k < slots; ++k, delta += L)
      for (int l = 0; l < L; ++l) col[k][l] = col[k - 1][l] + delta[l];
    for (int l = 0; l < L; l += N) {
      hn::Vec<D> sum[R];
      for (int e = 0; e < R; ++e) sum[e] = hn::LoadU(d, sums + e * most_lanes + l);
      for (int k = 0; k < slots; ++k) add_slots<R, C>(d, job.x, values + k * B * L + l, L, col[k] + l, sum);
      for (int e = 0; e < R; ++e) hn::StoreU(sum[e], d, sums + e * most_lanes + l);
    }
    if (left <= S * L) break;
    for (int l = 0; l < L; ++l) col[0][l] = col[S - 1][l] + delta[l];
    delta += L;
  }
}

template <int R, int C, int S, class D, class T>
void units(D d, const LaneProduct<T>& job, std::int64_t begin, std::int64_t end) {
  constexpr int N = static_cast<int>(lanes_of<D>);
  const MappedLanes<T>& a = job.a;
  alignas(64) T sums[R * most_lanes];
  std::int64_t open = -1;  // the row, or block row, whose sums these are, so far
  T sum[R] = {};
  const T alpha = job.alpha, beta = job.beta;
  T* const y = job.y;
  const std::int64_t height = a.rows;
  const auto write = [&](std::int64_t row, int e, T total) {
    if (row >= 0 && (R == 1 || R * row + e < height)) store(alpha, total, beta, y[R * row + e]);
  };
  for (std::int64_t u = begin; u < end; ++u) {
    const std::int64_t code = a.code_ptr ? a.code_ptr[u] : -1 - a.unit_ptr[u];
    if (code >= 0) {
      coded_sums<R, C, S>(d, job, u, a.delta + code, sums);
    } else {
      const std::int32_t* const col = a.col + (-1 - code);
      // About four vectors of x are gathered at a time, of as many lanes as slots leave.
      constexpr int U = std::max(1, 4 / (S * R * C));
      int l = 0;
      for (; l + U * N <= a.L; l += U * N) lane_sums<R, C, U, S>(d, job, u, col, l, sums);
      if constexpr (U > 1)
        for (; l < a.L; l += N) lane_sums<R, C, 1, S>(d, job, u, col, l, sums);
    }
    const std::int32_t* const rows = a.lane_row + u * a.L;
    for (int e = 0; e < R; ++e) {
      const T* const of_lane = sums + e * most_lanes;
      std::int64_t now = open;
      T total = sum[e];
      for (int l = 0; l < a.L; ++l) {
        const std::int64_t row = row_of_lane(rows[l]);
        if (row != now) write(now, e, total), now = row, total = 0;
        if (rows[l] >= 0) total += of_lane[l];  // padding of a lane without entries may be NaN
      }
      sum[e] = total;
    }
    open = row_of_lane(rows[a.L - 1]);
  }
  for (int e = 0; e < R; ++e) write(open, e, sum[e]);
}

template <int R, int C, int S, class T>
void lanes(const LaneProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  constexpr int N = static_cast<int>(lanes_of<hn::ScalableTag<T>>);
  if (job.a.L % N == 0) return units<R, C, S>(d, job, begin, end);
  // Few lanes. Vectors of every length for all blocks and loops would take a minute to compile.
  if constexpr (R * C * S == 1) {
    if (job.a.L >= 8) return units<R, C, S>(hn::CappedTag<T, 8>(), job, begin, end);
    if (job.a.L >= 4) return units<R, C, S>(hn::CappedTag<T, 4>(), job, begin, end);
  }
  units<R, C, S>(hn::CappedTag<T, 2>(), job, begin, end);
}

// With `unroll` slots a turn of the loop.
template <int R, int C, class T>
void lanes(const LaneProduct<T>& job, int unroll, std::int64_t begin, std::int64_t end) {
  if (unroll == 4) return lanes<R, C, 4>(job, begin, end);
  if (unroll == 2) return lanes<R, C, 2>(job, begin, end);
  lanes<R, C, 1>(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
