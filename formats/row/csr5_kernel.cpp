// The tiles of CSR5 on the host: the lanes of a tile are the lanes of a SIMD register, and each adds its own entries.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/row/csr5_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>

#include "formats/row/csr5.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Step s takes entry s of all lanes, which lie side by side. If a row starts in a lane, its sum so far goes to where
// that lane's sums belong, and the lane begins again.
template <class D, class T>
void tile_by_lanes(const Csr5View<T>& a, std::int64_t tile, const T* x, Csr5LaneSums<T>& sums) {
  const D d;
  constexpr int N = static_cast<int>(lanes_of<D>);
  const int omega = a.shape.omega, sigma = a.shape.sigma;
  const T* const values = a.values + tile * a.shape.entries();
  const std::int32_t* const col = a.col + tile * a.shape.entries();
  std::uint32_t starts[csr5_most_depth] = {};  // of each step: the lanes in which a row starts
  T* to[csr5_most_lanes];
  int next[csr5_most_lanes];
  for (int l = 0; l < omega; ++l) {
    const Csr5Lane lane = a.lane(tile, l);
    to[l] = sums.before + l, next[l] = lane.y_offset;
    for (std::uint32_t left = lane.starts; left; left &= left - 1)
      starts[31 - std::countr_zero(left)] |= 1u << l;
  }
  alignas(64) T mine[csr5_most_lanes];
  for (int first = 0; first < omega; first += N) {
    auto sum = hn::Zero(d);
    for (int s = 0; s < sigma; ++s) {
      std::uint32_t here = starts[s] >> first & (N < 32 ? (1u << N) - 1 : ~0u);
      if (here) {
        hn::Store(sum, d, mine);
        for (; here; here &= here - 1) {
          const int i = std::countr_zero(here), l = first + i;
          *to[l] = mine[i], mine[i] = T(0);
          to[l] = sums.of_start + next[l]++;
        }
        sum = hn::Load(d, mine);
      }
      const int at = s * omega + first;
      sum = hn::MulAdd(hn::LoadU(d, values + at), take(d, x, col + at), sum);
    }
    hn::Store(sum, d, mine);
    for (int i = 0; i < N; ++i) *to[first + i] = mine[i];
  }
}

template <class T>
void tile(const Csr5View<T>& a, std::int64_t t, const T* x, Csr5LaneSums<T>& sums) {
  if (a.shape.omega == 2) return tile_by_lanes<hn::CappedTag<T, 2>>(a, t, x, sums);
  if (a.shape.omega == 4) return tile_by_lanes<hn::CappedTag<T, 4>>(a, t, x, sums);
  tile_by_lanes<hn::CappedTag<T, 8>>(a, t, x, sums);
}
void tile_f64(const Csr5View<double>& a, std::int64_t t, const double* x, Csr5LaneSums<double>& sums) {
  tile(a, t, x, sums);
}
void tile_f32(const Csr5View<float>& a, std::int64_t t, const float* x, Csr5LaneSums<float>& sums) {
  tile(a, t, x, sums);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(tile_f64);
HWY_EXPORT(tile_f32);

void csr5_tile(const Csr5View<double>& a, std::int64_t tile, const double* x, Csr5LaneSums<double>& sums) {
  HWY_DYNAMIC_DISPATCH(tile_f64)(a, tile, x, sums);
}
void csr5_tile(const Csr5View<float>& a, std::int64_t tile, const float* x, Csr5LaneSums<float>& sums) {
  HWY_DYNAMIC_DISPATCH(tile_f32)(a, tile, x, sums);
}

}  // namespace protean::formats
#endif
