#include "core/device/extremes.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/error.hpp"

namespace protean::device {
namespace {

template <class T>
__global__ void __launch_bounds__(block_size)
    extremes_kernel(std::int64_t n, const T* x, T infinity, detail::Extremes<T>* found) {
  T least = infinity, most = -infinity;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * block_size) {
    const T value = x[i];
    least = value < least ? value : least, most = value > most ? value : most;
  }
  __shared__ T leasts[block_size], mosts[block_size];
  leasts[threadIdx.x] = least, mosts[threadIdx.x] = most;
  __syncthreads();
  for (int half = block_size / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const T other = leasts[threadIdx.x + half], larger = mosts[threadIdx.x + half];
      if (other < leasts[threadIdx.x]) leasts[threadIdx.x] = other;
      if (larger > mosts[threadIdx.x]) mosts[threadIdx.x] = larger;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) found[blockIdx.x] = {leasts[0], mosts[0]};
}

}  // namespace

template <class T>
detail::Extremes<T> extremes(const Context& context, VectorView<const T> v) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  constexpr std::int64_t most_blocks = 512;
  const std::int64_t blocks = std::min(most_blocks, (v.size + block_size - 1) / block_size);
  detail::Extremes<T> all{infinity, -infinity};
  if (blocks == 0) return all;
  const Scratch<detail::Extremes<T>> scratch(context, blocks);
  extremes_kernel<<<static_cast<unsigned>(blocks), block_size, 0, stream(context)>>>(v.size, v.data, infinity,
                                                                                     scratch.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  std::vector<detail::Extremes<T>> found(static_cast<std::size_t>(blocks));
  copy_out(context, found.data(), scratch.data(), found.size() * sizeof(found[0]));
  for (const auto& one : found)
    all.least = std::min(all.least, one.least), all.most = std::max(all.most, one.most);
  return all;
}
template detail::Extremes<float> extremes<float>(const Context&, VectorView<const float>);
template detail::Extremes<double> extremes<double>(const Context&, VectorView<const double>);

}  // namespace protean::device
