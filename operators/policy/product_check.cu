// Compares two products on a device.
#include "operators/policy/product_check.hpp"

#include <cmath>
#include <limits>

#include "core/device/kernel_tools.cuh"

namespace protean::detail {
namespace {

// `lanes` threads of a warp take a row.
template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    bounds_kernel(std::int64_t rows, const P* row_ptr, const std::int32_t* col, const T* values, const T* x,
                  double relative, T* bounds) {
  constexpr std::int64_t of_block = device::block_size / lanes;
  const int lane = threadIdx.x % lanes;
  for (std::int64_t first = blockIdx.x * of_block; first < rows; first += gridDim.x * of_block) {
    const std::int64_t row = first + threadIdx.x / lanes;
    const std::int64_t begin = row < rows ? row_ptr[row] : 0, end = row < rows ? row_ptr[row + 1] : 0;
    double sum = 0;
    for (std::int64_t k = begin + lane; k < end; k += lanes)
      sum += fabs(static_cast<double>(values[k]) * static_cast<double>(x[col[k]]));
    sum = device::sum_lanes<lanes>(sum);  // of all threads of a warp
    const double terms = static_cast<double>(end - begin + 2);
    if (row < rows && lane == 0)
      bounds[row] = static_cast<T>((2 * terms * std::numeric_limits<T>::epsilon() + relative) * sum);
  }
}

template <class T>
__global__ void __launch_bounds__(device::block_size) sample_kernel(std::int64_t size, T* x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * device::block_size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x; i < size; i += stride)
    x[i] = sample_value<T>(i);
}

// The count may be too large for T, so it is an integer and is rounded to T at the end. 0 stays exact.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    differing_kernel(std::int64_t size, const T* a, const T* b, const T* bounds, T* result) {
  const std::int64_t stride = std::int64_t{gridDim.x} * device::block_size;
  int count = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x; i < size; i += stride)
    count += !(fabs(a[i] - b[i]) <= bounds[i]) && isfinite(bounds[i]);
  count = device::sum_lanes(count);
  if (threadIdx.x % 32 == 0 && count > 0) atomicAdd(result, static_cast<T>(count));
}

}  // namespace

template <class T>
void device_sample(const Context& context, VectorView<T> x) {
  if (x.size == 0) return;
  const DeviceState& state = context.device_state();
  sample_kernel<<<device::blocks_for(state, x.size), device::block_size, 0, state.stream>>>(x.size, x.data);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void device_bounds(const Context& context, const CsrMatrix<T>& csr, VectorView<const T> x, double relative,
                   VectorView<T> bounds) {
  if (csr.rows() == 0) return;
  const DeviceState& state = context.device_state();
  constexpr std::int64_t few_entries = 16;  // a row
  const bool short_rows = csr.nonzeros() < few_entries * csr.rows();
  csr.pattern.row_ptr.visit([&]<class P>(const P* row_ptr) {
    const auto kernel = short_rows ? bounds_kernel<4, T, P> : bounds_kernel<32, T, P>;
    kernel<<<device::blocks_for(state, csr.rows() * (short_rows ? 4 : 32)), device::block_size, 0,
             state.stream>>>(csr.rows(), row_ptr, csr.pattern.col, csr.values, x.data, relative, bounds.data);
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void device_count_differing(const Context& context, VectorView<const T> a, VectorView<const T> b,
                            VectorView<const T> bounds, T* result) {
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(result, 0, sizeof(T), state.stream));
  if (a.size == 0) return;
  differing_kernel<<<device::blocks_for(state, a.size), device::block_size, 0, state.stream>>>(
      a.size, a.data, b.data, bounds.data, result);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template void device_sample<T>(const Context&, VectorView<T>);                                    \
  template void device_bounds<T>(const Context&, const CsrMatrix<T>&, VectorView<const T>, double,  \
                                 VectorView<T>);                                                    \
  template void device_count_differing<T>(const Context&, VectorView<const T>, VectorView<const T>, \
                                          VectorView<const T>, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
