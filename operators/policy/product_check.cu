// Compares two products on a device.
#include "operators/policy/product_check.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/device/kernel_tools.cuh"

namespace protean::detail {
namespace {

// The part of sum_j |a_ij x_j| that this thread has, which takes the entries k, k + stride, ... of a row that ends at
// `end`. The entries of four steps are loaded before it waits for the first.
template <int stride, class T>
__device__ inline double magnitudes(const std::int32_t* col, const T* values, const T* x, std::int64_t k,
                                    std::int64_t end) {
  constexpr int steps = 4;
  double sum = 0;
  for (; k < end; k += stride * steps) {
    std::int32_t c[steps];
    T v[steps];
#pragma unroll
    for (int j = 0; j < steps; ++j) {
      c[j] = -1;
      if (k + j * stride < end) c[j] = __ldg(col + k + j * stride), v[j] = __ldg(values + k + j * stride);
    }
#pragma unroll
    for (int j = 0; j < steps; ++j)
      if (c[j] >= 0) sum += fabs(static_cast<double>(v[j]) * static_cast<double>(__ldg(x + c[j])));
  }
  return sum;
}

// `lanes` threads take a row; the whole warp takes a long one.
template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    bounds_kernel(std::int64_t rows, const P* row_ptr, const std::int32_t* col, const T* values, const T* x,
                  double relative, T* bounds) {
  constexpr std::int64_t of_block = device::block_size / lanes,
                         long_row = lanes == 32 ? INT64_MAX : 64 * lanes;
  constexpr unsigned all = 0xffffffffu;
  const int lane = threadIdx.x % lanes, of_warp = threadIdx.x % 32;
  for (std::int64_t first = blockIdx.x * of_block; first < rows; first += gridDim.x * of_block) {
    const std::int64_t row = first + threadIdx.x / lanes;
    const std::int64_t begin = row < rows ? row_ptr[row] : 0, end = row < rows ? row_ptr[row + 1] : 0;
    const bool is_long = end - begin > long_row;
    // All threads of a warp take part in the sums.
    double sum =
        device::sum_lanes<lanes>(is_long ? 0.0 : magnitudes<lanes>(col, values, x, begin + lane, end));
    for (unsigned waiting = __ballot_sync(all, is_long && lane == 0); waiting != 0; waiting &= waiting - 1) {
      const int whose = __ffs(static_cast<int>(waiting)) - 1;
      const std::int64_t from = __shfl_sync(all, begin, whose), to = __shfl_sync(all, end, whose);
      const double of_row = device::sum_lanes<32>(magnitudes<32>(col, values, x, from + of_warp, to));
      if (of_warp == whose) sum = of_row;
    }
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
  // A thread has about four entries of a row, as many as it loads at once.
  const std::int64_t mean = csr.nonzeros() / csr.rows();
  csr.pattern.row_ptr.visit([&]<class P>(const P* row_ptr) {
    const auto launch = [&]<int lanes>(std::integral_constant<int, lanes>) {
      bounds_kernel<lanes, T, P>
          <<<device::blocks_for(state, csr.rows() * lanes), device::block_size, 0, state.stream>>>(
              csr.rows(), row_ptr, csr.pattern.col, csr.values, x.data, relative, bounds.data);
    };
    if (mean <= 24)
      launch(std::integral_constant<int, 4>());
    else if (mean <= 48)
      launch(std::integral_constant<int, 8>());
    else if (mean <= 96)
      launch(std::integral_constant<int, 16>());
    else
      launch(std::integral_constant<int, 32>());
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
