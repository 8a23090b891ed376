// Vectors in another numbering.
#include "core/device/kernel_tools.cuh"
#include "core/device/permute.hpp"

namespace protean::device {
namespace {

template <class T, class Index>
__global__ void gather_kernel(const T* from, const Index* index, std::int64_t size, T* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride)
    to[i] = from[index[i]];
}

}  // namespace

template <class T, class Index>
void gather(const Context& context, const T* from, const Index* index, std::int64_t size, T* to) {
  if (size == 0) return;
  gather_kernel<<<blocks_for(context.device_state(), size), block_size, 0, stream(context)>>>(from, index,
                                                                                              size, to);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_GATHER(T, Index) \
  template void gather<T, Index>(const Context&, const T*, const Index*, std::int64_t, T*);
PROTEAN_GATHER(float, std::int32_t)
PROTEAN_GATHER(float, std::int64_t)
PROTEAN_GATHER(double, std::int32_t)
PROTEAN_GATHER(double, std::int64_t)
#undef PROTEAN_GATHER

}  // namespace protean::device
