// The kernels of device_inverse.hpp: some lanes of a warp for each row.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/factors/device/device_inverse.hpp"

namespace protean::device {
namespace {

template <int lanes, class T>
__global__ void __launch_bounds__(block_size)
    inverse_kernel(detail::TriangleRows<T> t, detail::InverseRows<T> X, const T* d,
                   const std::int64_t* mirror, T* mirrored, std::int32_t most, unsigned* bad) {
  wait_for_stream();
  extern __shared__ double shared_rows[];
  const std::int64_t i = place_of_thread<lanes>();
  if (i >= X.rows) return;
  const unsigned mask = lanes_of_row<lanes>();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t begin = X.begin(i), count = X.size(i);
  const bool shared = count <= most;
  // The columns and the values, in the place where they are found fastest.
  constexpr int groups = block_size / lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes;
  T* const all = reinterpret_cast<T*>(shared_rows);
  T* const x = shared ? all + group * most : X.values + begin;
  const std::int32_t* columns = X.col + begin;
  if (shared) {
    auto* const own = reinterpret_cast<std::int32_t*>(all + groups * most) + group * most;
    for (std::int64_t k = lane; k < count; k += lanes) own[k] = columns[k];
    __syncwarp(mask);
    columns = own;
  }
  // Each lane finds the row of one of the next steps.
  detail::TriangleRow next{};
  const auto row_of = [&](std::int64_t step) {
    const int from = static_cast<int>(step % lanes);
    if (from == 0 && step + lane < count)
      next = t.row(columns[detail::number_of_step(X.lower, count, step + lane)]);
    return detail::TriangleRow{__shfl_sync(mask, static_cast<long long>(next.begin), from, lanes),
                               __shfl_sync(mask, static_cast<long long>(next.end), from, lanes)};
  };
  detail::inverse_row(t, X.lower, columns, x, count, lane, lanes, row_of, [mask] { __syncwarp(mask); });
  // The lane that reads a value below has written it here.
  if (shared)
    for (std::int64_t k = lane; k < count; k += lanes) X.values[begin + k] = x[k];
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
  const std::int32_t most = room_for_rows(entries, X.rows, lanes, sizeof(T) + 4);
  with_lanes(lanes, [&](auto n) {
    launch_with_memory(context.device_state(), inverse_kernel<n(), T>, blocks_of_rows(X.rows, n()),
                       block_size, std::int64_t{block_size / n()} * most * std::int64_t{sizeof(T) + 4}, t, X,
                       d, mirror, mirrored, most, bad);
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
