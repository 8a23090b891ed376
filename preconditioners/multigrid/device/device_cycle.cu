// The kernels of device_cycle.hpp.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/multigrid/device/device_cycle.hpp"

namespace protean::device {

template <class T>
void first_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r, VectorView<T> z,
                 VectorView<T> rest) {
  const T *const ds = d.data, *const rs = r.data;
  T *const zs = z.data, *const rests = rest.data;
  each<T>(context, z.size, {}, {}, [=] __device__(std::int64_t i) {
    const T ri = rs[i], zi = ds[i] * ri;
    return [=](T, T) { zs[i] = zi, rests[i] = ri; };
  });
}

template <class T>
void next_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r,
                VectorView<const T> product, VectorView<T> z) {
  const T *const ds = d.data, *const rs = r.data, *const ps = product.data;
  T* const zs = z.data;
  each<T>(context, z.size, {}, {}, [=] __device__(std::int64_t i) {
    const T zi = zs[i] + ds[i] * (rs[i] - ps[i]);
    return [=](T, T) { zs[i] = zi; };
  });
}

namespace {

// A warp for each row. Few warps a block, so that the rows, at most some hundred, use many processors.
constexpr int dense_threads = 128;

template <class T>
__global__ void __launch_bounds__(dense_threads)
    dense_kernel(int n, const T* X, const T* r, T* z, const int* stop) {
  if (stopped(stop)) return;
  const int row = static_cast<int>(blockIdx.x) * (dense_threads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (row >= n) return;
  const T* const entries = X + std::int64_t{row} * n;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  T sum = 0;
#pragma unroll 4
  for (int j = lane; j < n; j += 32) sum += entries[j] * r[j];
  sum = sum_lanes(sum);
  if (lane == 0) z[row] = sum;
}

}  // namespace

template <class T>
void dense_product(const Context& context, VectorView<const T> X, VectorView<const T> r, VectorView<T> z) {
  if (z.size == 0) return;
  const DeviceState& state = context.device_state();
  constexpr int rows = dense_threads / 32;
  launch(state, dense_kernel<T>, (z.size + rows - 1) / rows, dense_threads, static_cast<int>(z.size), X.data,
         r.data, z.data, state.stop);
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template void first_sweep<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<T>,      \
                               VectorView<T>);                                                               \
  template void next_sweep<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<const T>, \
                              VectorView<T>);                                                                \
  template void dense_product<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<T>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device
