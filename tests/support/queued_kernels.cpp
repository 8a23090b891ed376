#include "support/queued_kernels.hpp"

#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/state.hpp"
#include "core/device_checks.hpp"
#endif

namespace protean::test {

#if defined(PROTEAN_HAVE_CUDA)
std::vector<std::int64_t> queued_kernels(const ContextPtr& context, const std::function<void()>& work) {
  const detail::DeviceScope scope(*context);
  DeviceState& state = context->device_state();
  cudaGraph_t graph = nullptr;
  {
    const device::RecordingScope recording(state);
    PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(state.stream, cudaStreamCaptureModeThreadLocal));
    work();
    PROTEAN_CUDA_CHECK(cudaStreamEndCapture(state.stream, &graph));
  }
  std::size_t count = 0;
  PROTEAN_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  PROTEAN_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::vector<std::int64_t> blocks;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    PROTEAN_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    cudaKernelNodeParams params;
    PROTEAN_CUDA_CHECK(cudaGraphKernelNodeGetParams(node, &params));
    blocks.push_back(params.gridDim.x);
  }
  PROTEAN_CUDA_CHECK(cudaGraphDestroy(graph));
  return blocks;
}

RunEnded::RunEnded(const ContextPtr& context) : context_(context), flag_(context, 1) {
  const detail::DeviceScope scope(*context);
  DeviceState& state = context->device_state();
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(flag_.data(), 0xff, sizeof(int), state.stream));
  state.stop = flag_.data();
}
RunEnded::~RunEnded() {
  const detail::DeviceScope scope(*context_);
  context_->device_state().stop = nullptr;
  (void)cudaStreamSynchronize(context_->device_state().stream);
}
#else
RunEnded::RunEnded(const ContextPtr& context) : context_(context) {}
RunEnded::~RunEnded() = default;
std::vector<std::int64_t> queued_kernels(const ContextPtr&, const std::function<void()>&) { return {}; }
#endif

}  // namespace protean::test
