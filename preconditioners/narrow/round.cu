// The kernels of round.hpp.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/narrow/round.hpp"

namespace protean::device {
namespace {

__device__ inline unsigned long long size_bits(double value) {
  return static_cast<unsigned long long>(__double_as_longlong(value)) & 0x7fffffffffffffffull;
}

// The largest value of all threads of a block, in its first one. The bits of numbers without their signs are ordered as
// the numbers, and a NaN is larger than all.
__device__ inline unsigned long long most_of_block(unsigned long long most) {
  __shared__ unsigned long long warps[block_size / 32];
  for (int step = 16; step > 0; step /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, most, step);
    most = other > most ? other : most;
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < block_size / 32; ++w) most = warps[w] > most ? warps[w] : most;
  return most;
}

// to := r, and the largest |r_i| of each block.
__global__ void __launch_bounds__(block_size)
    round_kernel(std::int64_t n, const double* r, float* to, double* maxima, const int* stop) {
  if (stopped(stop)) return;
  unsigned long long most = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n; i += step) {
    const double value = r[i];
    to[i] = static_cast<float>(value);
    const unsigned long long bits = size_bits(value);
    most = bits > most ? bits : most;
  }
  most = most_of_block(most);
  if (threadIdx.x == 0) maxima[blockIdx.x] = __longlong_as_double(static_cast<long long>(most));
}

// The scale s, and to := s r if s is not 1.
__global__ void __launch_bounds__(block_size)
    rescale_kernel(std::int64_t n, const double* r, int centre, float* to, double* maxima, int blocks,
                   const int* stop) {
  if (stopped(stop)) return;
  unsigned long long most = 0;
  for (int b = static_cast<int>(threadIdx.x); b < blocks; b += block_size) {
    const unsigned long long bits = size_bits(maxima[b]);
    most = bits > most ? bits : most;
  }
  most = most_of_block(most);
  __shared__ double scale;
  if (threadIdx.x == 0) {
    scale = detail::two_to(detail::exponent_for(__longlong_as_double(static_cast<long long>(most)), centre));
    if (blockIdx.x == 0) maxima[detail::round_blocks] = scale;
  }
  __syncthreads();
  const double s = scale;
  if (s == 1) return;
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n; i += step)
    to[i] = static_cast<float>(s * r[i]);
}

template <class Pointer>
__global__ void __launch_bounds__(block_size)
    round_rows_kernel(std::int64_t rows, const Pointer* ptr, const std::int32_t* col, const double* values,
                      float* to, unsigned long long* found) {
  wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  double largest = 0;
  if (i < rows && detail::round_row(ptr, col, values, i, to, largest))
    atomicMin(found, static_cast<unsigned long long>(i));
  const unsigned long long most = most_of_block(size_bits(largest));
  if (threadIdx.x == 0) atomicMax(found + 1, most);
}

}  // namespace

void round_vector(const Context& context, VectorView<const double> r, int centre, VectorView<float> to,
                  double* numbers) {
  // Sums of the method are of doubles: operations of M in float must not find them.
  close_sums<double>(context);
  const DeviceState& state = context.device_state();
  const std::int64_t needed = (r.size + block_size - 1) / block_size;
  const std::int64_t blocks = std::clamp<std::int64_t>(needed, 1, detail::round_blocks);
  launch(state, round_kernel, blocks, block_size, r.size, r.data, to.data, numbers, state.stop);
  launch(state, rescale_kernel, blocks, block_size, r.size, r.data, centre, to.data, numbers,
         static_cast<int>(blocks), state.stop);
}

void widen_vector(const Context& context, double alpha, VectorView<const float> z, const double* numbers,
                  double beta, VectorView<double> y) {
  const float* const from = z.data;
  double* const to = y.data;
  const double* const scale = numbers + detail::round_blocks;
  each<double>(context, y.size, {}, {}, [=] __device__(std::int64_t i) {
    const double value = alpha / *scale * static_cast<double>(from[i]);
    const double yi = beta == 0 ? value : value + beta * to[i];
    return [=](double, double) { to[i] = yi; };
  });
}

void round_rows(const Context& context, const CsrMatrix<double>& csr, float* to, unsigned long long* found) {
  if (csr.rows() == 0) return;
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    launch(context.device_state(), round_rows_kernel<Pointer>, (csr.rows() + block_size - 1) / block_size,
           block_size, csr.rows(), ptr, csr.pattern.col, csr.values, to, found);
  });
}

}  // namespace protean::device
