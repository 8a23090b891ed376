// The functions of GmresScalars on a device, by one thread for each lane: they are short, and their data lie in device
// memory.
#include "core/device/kernel_tools.cuh"
#include "solvers/gmres_scalars_device.hpp"

namespace protean::detail {
namespace {

template <class T>
__global__ void begin_kernel(GmresScalars<T> scalars, GmresLanes<T> lanes, const int* stop) {
  if (!device::stopped(stop) && lanes.run(threadIdx.x)) scalars.of(threadIdx.x).begin();
}
template <class T>
__global__ void rotate_kernel(GmresScalars<T> scalars, std::int64_t j, bool corrected, GmresLanes<T> lanes,
                              const int* stop) {
  if (!device::stopped(stop) && lanes.run(threadIdx.x)) scalars.of(threadIdx.x).rotate(j, corrected);
}
template <class T>
__global__ void solve_kernel(GmresScalars<T> scalars, std::int64_t columns, GmresLanes<T> lanes) {
  if (lanes.run(threadIdx.x)) scalars.of(threadIdx.x).solve(columns);
}

}  // namespace

template <class T>
void device_gmres_begin(const Context& context, const GmresScalars<T>& scalars, const GmresLanes<T>& lanes) {
  const auto threads = static_cast<unsigned>(lanes.width);
  begin_kernel<<<1, threads, 0, device::stream(context)>>>(scalars, lanes, context.device_state().stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}
template <class T>
void device_gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j,
                         bool corrected, const GmresLanes<T>& lanes) {
  const auto threads = static_cast<unsigned>(lanes.width);
  rotate_kernel<<<1, threads, 0, device::stream(context)>>>(scalars, j, corrected, lanes,
                                                            context.device_state().stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}
template <class T>
void device_gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns,
                        const GmresLanes<T>& lanes) {
  const auto threads = static_cast<unsigned>(lanes.width);
  solve_kernel<<<1, threads, 0, device::stream(context)>>>(scalars, columns, lanes);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_INSTANTIATE(T)                                                                       \
  template void device_gmres_begin<T>(const Context&, const GmresScalars<T>&, const GmresLanes<T>&); \
  template void device_gmres_rotate<T>(const Context&, const GmresScalars<T>&, std::int64_t, bool,   \
                                       const GmresLanes<T>&);                                        \
  template void device_gmres_solve<T>(const Context&, const GmresScalars<T>&, std::int64_t,          \
                                      const GmresLanes<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
