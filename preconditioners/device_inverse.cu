// The kernels of device_inverse.hpp: some lanes of a warp for each row.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/device_inverse.hpp"
#include "preconditioners/lanes.cuh"

namespace protean::device {
namespace {

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    inverse_kernel(detail::TriangleRows<T> t, detail::InverseRows<T> X, const T* d,
                   const std::int64_t* mirror, T* mirrored, unsigned* bad) {
  wait_for_stream();
  const std::int64_t i = place_of_thread<lanes>();
  if (i >= X.rows) return;
  const unsigned mask = lanes_of_row<lanes>();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  detail::inverse_row(t, X.lower, X.col + X.ptr[i], X.values + X.ptr[i], X.size(i), lane, lanes,
                      [mask] { __syncwarp(mask); });
  if (!detail::finish_inverse_row(X, i, d, mirror, mirrored, lane, lanes)) atomicOr(bad, 1u);
}

}  // namespace

template <class T>
void invert_triangle(const Context& context, const detail::TriangleRows<T>& t,
                     const detail::InverseRows<T>& X, std::int64_t entries, const T* d,
                     const std::int64_t* mirror, T* mirrored, unsigned* bad) {
  if (X.rows == 0) return;
  int lanes = 4;
  while (lanes < 32 && lanes * X.rows < entries) lanes *= 2;
  with_lanes(lanes, [&](auto n) {
    launch(context.device_state(), inverse_kernel<n(), T>, blocks_of_rows(X.rows, n()), block_size, t, X, d,
           mirror, mirrored, bad);
  });
}

#define PROTEAN_INSTANTIATE(T)                                                            \
  template void invert_triangle<T>(const Context&, const detail::TriangleRows<T>&,        \
                                   const detail::InverseRows<T>&, std::int64_t, const T*, \
                                   const std::int64_t*, T*, unsigned*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device
