// The functions of GmresScalars on a device. One thread runs them, and one thread for each lane those of GmresLanes:
// they are short, and their data lie in device memory.
#include "core/device/kernel_tools.cuh"
#include "solvers/gmres_scalars_device.hpp"

namespace protean::detail {
namespace {

template <class T>
__global__ void begin_kernel(GmresScalars<T> scalars, const int* stop) {
  if (!device::stopped(stop)) scalars.begin();
}
template <class T>
__global__ void rotate_kernel(GmresScalars<T> scalars, std::int64_t j, bool corrected, const int* stop) {
  if (!device::stopped(stop)) scalars.rotate(j, corrected);
}
template <class T>
__global__ void solve_kernel(GmresScalars<T> scalars, std::int64_t columns) {
  scalars.solve(columns);
}

constexpr int most_lanes = 256;

template <class T>
__global__ void __launch_bounds__(most_lanes)
    begin_lanes_kernel(GmresLanes<T> lanes, const T* running, const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < lanes.width && running[lane] != T(0)) lanes.begin(lane);
}
template <class T>
__global__ void __launch_bounds__(most_lanes)
    rotate_lanes_kernel(GmresLanes<T> lanes, std::int64_t j, bool corrected, const T* running,
                        const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < lanes.width && running[lane] != T(0)) lanes.rotate(lane, j, corrected);
}
template <class T>
__global__ void __launch_bounds__(most_lanes)
    solve_lanes_kernel(GmresLanes<T> lanes, std::int64_t columns, const T* running, const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < lanes.width && running[lane] != T(0)) lanes.solve(lane, columns);
}

}  // namespace

template <class T>
void device_gmres_begin(const Context& context, const GmresLanes<T>& lanes, const T* running) {
  const DeviceState& state = context.device_state();
  device::launch(state, begin_lanes_kernel<T>, 1, most_lanes, lanes, running, state.stop);
}
template <class T>
void device_gmres_rotate(const Context& context, const GmresLanes<T>& lanes, std::int64_t j, bool corrected,
                         const T* running) {
  const DeviceState& state = context.device_state();
  device::launch(state, rotate_lanes_kernel<T>, 1, most_lanes, lanes, j, corrected, running, state.stop);
}
template <class T>
void device_gmres_solve(const Context& context, const GmresLanes<T>& lanes, std::int64_t columns,
                        const T* running) {
  const DeviceState& state = context.device_state();
  device::launch(state, solve_lanes_kernel<T>, 1, most_lanes, lanes, columns, running, state.stop);
}

template <class T>
void device_gmres_begin(const Context& context, const GmresScalars<T>& scalars) {
  begin_kernel<<<1, 1, 0, device::stream(context)>>>(scalars, context.device_state().stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}
template <class T>
void device_gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j,
                         bool corrected) {
  rotate_kernel<<<1, 1, 0, device::stream(context)>>>(scalars, j, corrected, context.device_state().stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}
template <class T>
void device_gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns) {
  solve_kernel<<<1, 1, 0, device::stream(context)>>>(scalars, columns);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_INSTANTIATE(T)                                                                              \
  template void device_gmres_begin<T>(const Context&, const GmresScalars<T>&);                              \
  template void device_gmres_rotate<T>(const Context&, const GmresScalars<T>&, std::int64_t, bool);         \
  template void device_gmres_solve<T>(const Context&, const GmresScalars<T>&, std::int64_t);                \
  template void device_gmres_begin<T>(const Context&, const GmresLanes<T>&, const T*);                      \
  template void device_gmres_rotate<T>(const Context&, const GmresLanes<T>&, std::int64_t, bool, const T*); \
  template void device_gmres_solve<T>(const Context&, const GmresLanes<T>&, std::int64_t, const T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
