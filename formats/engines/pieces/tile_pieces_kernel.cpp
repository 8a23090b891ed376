// Sums of pieces of rows: along a piece if its entries lie together, else over neighbouring pieces.
#define PROTEAN_WITHOUT_AVX512  // it gains nothing: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/pieces/tile_pieces_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/pieces/tile_pieces.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T dot(const T* values, const std::int32_t* col, std::int64_t count, const T* x) {
  const hn::CappedTag<T, 8> d;
  constexpr std::int64_t lanes = lanes_of<hn::CappedTag<T, 8>>;
  std::int64_t k = 0;
  T sum = 0;
  if (count >= lanes) {
    auto sums = hn::Zero(d);
    for (; k + lanes <= count; k += lanes)
      sums = hn::MulAdd(hn::LoadU(d, values + k), take(d, x, col + k), sums);
    sum = hn::GetLane(hn::SumOfLanes(d, sums));
  }
  for (; k < count; ++k) sum += values[k] * x[col[k]];
  return sum;
}

// Pieces first .. first + h - 1 of a workload in ELLPACK; lengths descend.
template <class T>
HWY_INLINE void add_slots(const PieceProduct<T, CompositePlace>& job, std::int64_t slot, std::int64_t first,
                          std::int64_t h) {
  const hn::CappedTag<T, 8> d;
  constexpr std::int64_t lanes = lanes_of<hn::CappedTag<T, 8>>;
  const T* const values = job.a.values + slot;
  const std::int32_t* const col = job.a.col + slot;
  const std::int32_t *const row = job.a.piece_row + first, *const length = job.a.place.extent + first;
  std::int64_t i = 0;
  for (; i + lanes <= h; i += lanes) {
    auto sums = hn::Zero(d);
    for (std::int64_t k = 0, at = i; k < length[i]; ++k, at += h)
      sums = hn::MulAdd(hn::LoadU(d, values + at), take(d, job.x, col + at), sums);
    T flat[lanes];
    hn::StoreU(sums, d, flat);
    for (std::int64_t l = 0; l < lanes; ++l) job.y[row[i + l]] += job.alpha * flat[l];
  }
  for (; i < h; ++i) {
    T sum = 0;
    for (std::int64_t k = 0, at = i; k < length[i]; ++k, at += h) sum += values[at] * job.x[col[at]];
    job.y[row[i]] += job.alpha * sum;
  }
}

template <class T>
HWY_INLINE void workloads(const PieceProduct<T, CompositePlace>& job, std::int64_t begin, std::int64_t end) {
  const CompositePlace& place = job.a.place;
  for (std::int64_t w = begin; w < end; ++w) {
    const std::int64_t first = place.work_piece[w], h = place.work_piece[w + 1] - first;
    if (!CompositePlace::is_csr(place.extent[first], h)) {
      add_slots(job, place.work_slot[w], first, h);
      continue;
    }
    for (std::int64_t p = first; p < first + h; ++p) {
      const PieceSpan span = place.span_in(w, p);
      job.y[job.a.piece_row[p]] +=
          job.alpha * dot(job.a.values + span.begin, job.a.col + span.begin, span.count, job.x);
    }
  }
}

template <class T>
HWY_INLINE void groups(const PieceProduct<T, VslPlace>& job, std::int64_t begin, std::int64_t end,
                       std::int64_t first_row, T* sums) {
  for (std::int64_t p = begin; p < end; ++p) {
    const PieceSpan span = job.a.place.span(p);
    sums[job.a.piece_row[p] - first_row] +=
        dot(job.a.values + span.begin, job.a.col + span.begin, span.count, job.x);
  }
}

void workloads_f64(const PieceProduct<double, CompositePlace>& job, std::int64_t begin, std::int64_t end) {
  workloads(job, begin, end);
}
void workloads_f32(const PieceProduct<float, CompositePlace>& job, std::int64_t begin, std::int64_t end) {
  workloads(job, begin, end);
}
void groups_f64(const PieceProduct<double, VslPlace>& job, std::int64_t begin, std::int64_t end,
                std::int64_t first_row, double* sums) {
  groups(job, begin, end, first_row, sums);
}
void groups_f32(const PieceProduct<float, VslPlace>& job, std::int64_t begin, std::int64_t end,
                std::int64_t first_row, float* sums) {
  groups(job, begin, end, first_row, sums);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(workloads_f64);
HWY_EXPORT(workloads_f32);
HWY_EXPORT(groups_f64);
HWY_EXPORT(groups_f32);

void add_workloads(const PieceProduct<double, CompositePlace>& product, std::int64_t begin,
                   std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(workloads_f64)(product, begin, end);
}
void add_workloads(const PieceProduct<float, CompositePlace>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(workloads_f32)(product, begin, end);
}
void add_groups(const PieceProduct<double, VslPlace>& product, std::int64_t begin, std::int64_t end,
                std::int64_t first_row, double* sums) {
  HWY_DYNAMIC_DISPATCH(groups_f64)(product, begin, end, first_row, sums);
}
void add_groups(const PieceProduct<float, VslPlace>& product, std::int64_t begin, std::int64_t end,
                std::int64_t first_row, float* sums) {
  HWY_DYNAMIC_DISPATCH(groups_f32)(product, begin, end, first_row, sums);
}

}  // namespace protean::formats
#endif
