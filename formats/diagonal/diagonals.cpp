// The product of the diagonal formats: rows lie side by side in SIMD lanes, and no column index is read.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/diagonal/diagonals.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/diagonal/diagonals.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t block = 512;  // rows whose sums and x stay in the first cache

// Rows [r, end) of one hack: diagonal d has its values at values + d * stride (for row r) and its x at x +
// off[d].
template <class T>
struct Block {
  const DiagonalProduct<T>& job;
  const T* values;
  const std::int32_t* off;
  std::int64_t diagonals, r, end;
};

template <int U, class D, class T>
HWY_INLINE void inner(D d, Block<T>& b, T& dot) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N;
  const auto& job = b.job;
  const auto alpha = hn::Set(d, job.alpha), beta = hn::Set(d, job.beta);
  auto dots = hn::Zero(d);
  for (; b.r + rows <= b.end; b.r += rows, b.values += rows) {
    hn::Vec<D> sum[U];
    for (int u = 0; u < U; ++u) sum[u] = hn::Zero(d);
    const T* x = job.x + b.r;
    for (std::int64_t k = 0; k < b.diagonals; ++k)
      for (int u = 0; u < U; ++u)
        sum[u] = hn::MulAdd(hn::LoadU(d, b.values + k * job.height + u * N),
                            hn::LoadU(d, x + b.off[k] + u * N), sum[u]);
    for (int u = 0; u < U; ++u) {
      T* y = job.y + b.r + u * N;
      auto result = hn::Mul(alpha, sum[u]);
      if (job.beta != T(0)) result = hn::MulAdd(beta, hn::LoadU(d, y), result);
      hn::StoreU(result, d, y);
      if (job.with_dot) dots = hn::MulAdd(result, hn::LoadU(d, x + u * N), dots);
    }
  }
  if (job.with_dot) dot += hn::GetLane(hn::SumOfLanes(d, dots));
}

// Where diagonals leave the matrix: each is cut to the rows where its columns exist.
template <class T>
void edge(const Block<T>& b, T& dot) {
  const auto& job = b.job;
  T sum[block] = {};
  for (std::int64_t k = 0; k < b.diagonals; ++k) {
    const std::int64_t first = std::max(b.r, -static_cast<std::int64_t>(b.off[k]));
    const std::int64_t last = std::min(b.end, job.cols - b.off[k]);
    const T* values = b.values + k * job.height;
    for (std::int64_t r = first; r < last; ++r) sum[r - b.r] += values[r - b.r] * job.x[r + b.off[k]];
  }
  for (std::int64_t r = b.r; r < b.end; ++r) {
    formats::store(job.alpha, sum[r - b.r], job.beta, job.y[r]);
    if (job.with_dot) dot += job.x[r] * job.y[r];
  }
}

template <class T>
T run(const DiagonalProduct<T>& job, std::int64_t begin, std::int64_t end) {
  T dot = 0;
  while (begin < end) {
    const std::int64_t h = begin / job.height, top = h * job.height, first = job.ptr[h];
    const std::int64_t stop = std::min({begin + block, end, top + job.height});
    Block<T> b{
        job, job.values + first * job.height + begin - top, job.off + first, job.ptr[h + 1] - first, begin,
        stop};
    if (b.diagonals == 0 || (begin + b.off[0] >= 0 && stop + b.off[b.diagonals - 1] <= job.cols)) {
      const hn::ScalableTag<T> d;
      inner<4>(d, b, dot);
      inner<1>(d, b, dot);
      inner<1>(hn::CappedTag<T, 1>(), b, dot);
    } else {
      edge(b, dot);
    }
    begin = stop;
  }
  return dot;
}

double diagonal_product_f64(const DiagonalProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return run(job, begin, end);
}
float diagonal_product_f32(const DiagonalProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return run(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(diagonal_product_f64);
HWY_EXPORT(diagonal_product_f32);

double diagonal_product(const DiagonalProduct<double>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(diagonal_product_f64)(product, begin, end);
}
float diagonal_product(const DiagonalProduct<float>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(diagonal_product_f32)(product, begin, end);
}

}  // namespace protean::formats
#endif
