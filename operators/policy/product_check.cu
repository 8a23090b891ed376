// Compares two products on a device.
#include "operators/policy/product_check.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/device/kernel_tools.cuh"

namespace protean::detail {
namespace {

// sums[i] := the part of sum_j |a_ij x_j| that this thread has, for several rows side by side. Of row i it takes the
// entries k[i], k[i] + stride, ... before end[i]. Four entries of each row are loaded before it waits for the first.
template <int stride, int rows, class T>
__device__ inline void magnitudes(const std::int32_t* col, const T* values, const T* x,
                                  std::int64_t (&k)[rows], const std::int64_t (&end)[rows],
                                  double (&sums)[rows]) {
  constexpr int steps = 4;
#pragma unroll
  for (int i = 0; i < rows; ++i) sums[i] = 0;
  for (bool more = true; more;) {
    more = false;
    std::int32_t c[rows][steps];
    T v[rows][steps];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
      for (int j = 0; j < steps; ++j) {
        const std::int64_t at = k[i] + j * stride;
        c[i][j] = -1;
        if (at < end[i]) c[i][j] = __ldg(col + at), v[i][j] = __ldg(values + at);
      }
      k[i] += stride * steps;
      more = more || k[i] < end[i];
    }
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < steps; ++j)
        if (c[i][j] >= 0)
          sums[i] += fabs(static_cast<double>(v[i][j]) * static_cast<double>(__ldg(x + c[i][j])));
  }
}

// `lanes` threads take two rows at a time; the whole warp takes a long one.
template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    bounds_kernel(std::int64_t rows, const P* row_ptr, const std::int32_t* col, const T* values, const T* x,
                  double relative, T* bounds) {
  constexpr int at_once = 2;
  constexpr std::int64_t groups = device::block_size / lanes, of_block = groups * at_once,
                         long_row = lanes == 32 ? INT64_MAX : 64 * lanes;
  constexpr unsigned all = 0xffffffffu;
  const int lane = threadIdx.x % lanes, of_warp = threadIdx.x % 32;
  for (std::int64_t first = blockIdx.x * of_block; first < rows; first += gridDim.x * of_block) {
    std::int64_t row[at_once], begin[at_once], end[at_once], k[at_once], short_end[at_once];
    double sums[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      row[i] = first + i * groups + threadIdx.x / lanes;
      begin[i] = row[i] < rows ? row_ptr[row[i]] : 0, end[i] = row[i] < rows ? row_ptr[row[i] + 1] : 0;
      k[i] = begin[i] + lane, short_end[i] = end[i] - begin[i] > long_row ? begin[i] : end[i];
    }
    magnitudes<lanes>(col, values, x, k, short_end, sums);
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      // All threads of a warp take part in the sums.
      double sum = device::sum_lanes<lanes>(sums[i]);
      unsigned waiting = __ballot_sync(all, short_end[i] < end[i] && lane == 0);
      for (; waiting != 0; waiting &= waiting - 1) {
        const int whose = __ffs(static_cast<int>(waiting)) - 1;
        std::int64_t from[1] = {__shfl_sync(all, begin[i], whose) + of_warp};
        const std::int64_t to[1] = {__shfl_sync(all, end[i], whose)};
        double of_row[1];
        magnitudes<32>(col, values, x, from, to, of_row);
        of_row[0] = device::sum_lanes<32>(of_row[0]);
        if (of_warp == whose) sum = of_row[0];
      }
      const double terms = static_cast<double>(end[i] - begin[i] + 2);
      if (row[i] < rows && lane == 0)
        bounds[row[i]] = static_cast<T>((2 * terms * std::numeric_limits<T>::epsilon() + relative) * sum);
    }
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
  // A thread has at most about four entries of a row, as many as it loads at once.
  const std::int64_t mean = csr.nonzeros() / csr.rows();
  csr.pattern.row_ptr.visit([&]<class P>(const P* row_ptr) {
    const auto launch = [&]<int lanes>(std::integral_constant<int, lanes>) {
      bounds_kernel<lanes, T, P>
          <<<device::blocks_for(state, (csr.rows() + 1) / 2 * lanes), device::block_size, 0, state.stream>>>(
              csr.rows(), row_ptr, csr.pattern.col, csr.values, x.data, relative, bounds.data);
    };
    if (mean <= 16)
      launch(std::integral_constant<int, 4>());
    else if (mean <= 32)
      launch(std::integral_constant<int, 8>());
    else if (mean <= 64)
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
