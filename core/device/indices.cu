// Converts indices that count from 1 into indices that count from 0.
#include "core/device/kernel_tools.cuh"

namespace protean::device {
namespace {

template <class Index>
__global__ void less_one(const Index* from, std::int64_t size, Index* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride)
    to[i] = from[i] - 1;
}

template <class Index>
void queue(const Context& context, const Index* from, std::int64_t size, Index* to) {
  if (size == 0) return;
  less_one<<<blocks_for(context.device_state(), size), block_size, 0, stream(context)>>>(from, size, to);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void subtract_one(const Context& context, const std::int32_t* from, std::int64_t size, std::int32_t* to) {
  queue(context, from, size, to);
}
void subtract_one(const Context& context, const std::int64_t* from, std::int64_t size, std::int64_t* to) {
  queue(context, from, size, to);
}

}  // namespace protean::device
