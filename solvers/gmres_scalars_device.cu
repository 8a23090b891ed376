// The functions of GmresScalars on a device. One thread runs them: they are short, and their data lie in
// device memory.
#include "core/device/kernel_tools.cuh"
#include "solvers/gmres_scalars_device.hpp"

namespace protean::detail {
namespace {

template <class T>
__global__ void begin_kernel(GmresScalars<T> scalars) {
  scalars.begin();
}
template <class T>
__global__ void rotate_kernel(GmresScalars<T> scalars, std::int64_t j, bool corrected, const int* stop) {
  if (!device::stopped(stop)) scalars.rotate(j, corrected);
}
template <class T>
__global__ void solve_kernel(GmresScalars<T> scalars, std::int64_t columns) {
  scalars.solve(columns);
}

}  // namespace

template <class T>
void device_gmres_begin(const Context& context, const GmresScalars<T>& scalars) {
  begin_kernel<<<1, 1, 0, device::stream(context)>>>(scalars);
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

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template void device_gmres_begin<T>(const Context&, const GmresScalars<T>&);                      \
  template void device_gmres_rotate<T>(const Context&, const GmresScalars<T>&, std::int64_t, bool); \
  template void device_gmres_solve<T>(const Context&, const GmresScalars<T>&, std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
