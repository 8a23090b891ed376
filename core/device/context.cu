// Device contexts: creation, memory, copies between spaces.
#include <cstring>
#include <memory>
#include <string>

#include "core/device/copy.hpp"
#include "core/device/state.hpp"
#include "core/error.hpp"

namespace protean {
namespace device {

void check(cudaError_t status, const char* call, std::source_location where) {
  if (status == cudaSuccess) return;
  const std::string text = std::string(call) + ": " + cudaGetErrorString(status);
  (void)cudaGetLastError();  // a sticky error stays, any other is cleared for the next call
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory("the GPU has no memory left: " + text, 0, where);
  if (status == cudaErrorNoKernelImageForDevice)
    throw NotAvailable(
        "this build has no code for this GPU's architecture; configure with "
        "-DCMAKE_CUDA_ARCHITECTURES=native (" +
            text + ")",
        where);
  throw DeviceError(text, where);
}
void check(cublasStatus_t status, const char* call, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(call) + ": " + cublasGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw OutOfMemory("the GPU has no memory left: " + text, 0, where);
  throw DeviceError(text, where);
}
void check(cusparseStatus_t status, const char* call, std::source_location where) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const std::string text = std::string(call) + ": " + cusparseGetErrorString(status);
  if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES)
    throw OutOfMemory("the GPU has no memory left: " + text, 0, where);
  throw DeviceError(text, where);
}

namespace {

void destroy(DeviceState* state) {
  if (!state) return;
  (void)cudaSetDevice(state->ordinal);
  if (state->stream) (void)cudaStreamSynchronize(state->stream);
  if (state->cusparse) (void)cusparseDestroy(state->cusparse);
  if (state->cublas) (void)cublasDestroy(state->cublas);
  if (state->partials) (void)cudaFree(state->partials);
  if (state->arrived) (void)cudaFree(state->arrived);
  for (DeviceState::Staging& piece : state->staging) {
    if (piece.done) (void)cudaEventDestroy(piece.done);
    if (piece.data) (void)cudaFreeHost(piece.data);
  }
  if (state->pool) (void)cudaMemPoolDestroy(state->pool);
  if (state->stream) (void)cudaStreamDestroy(state->stream);
  delete state;
}

}  // namespace
}  // namespace device

int Context::device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

std::shared_ptr<Context> Context::device(int ordinal) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    throw NotAvailable(std::string("no GPU can be used (") +
                       (status == cudaSuccess ? "none found" : cudaGetErrorString(status)) +
                       "); check nvidia-smi and the driver");
  }
  if (ordinal < 0 || ordinal >= count)
    throw BadArgument("GPU " + std::to_string(ordinal) + " was asked for; there are " +
                      std::to_string(count) + ", counted from 0");
  std::shared_ptr<Context> context(new Context(Space::device, 1));
  context->device_ = {new DeviceState, device::destroy};
  DeviceState& state = *context->device_;
  state.ordinal = ordinal;
  PROTEAN_CUDA_CHECK(cudaSetDevice(ordinal));
  PROTEAN_CUDA_CHECK(cudaDeviceGetAttribute(&state.processors, cudaDevAttrMultiProcessorCount, ordinal));
  PROTEAN_CUDA_CHECK(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking));
  cudaMemPoolProps properties;
  std::memset(&properties, 0, sizeof properties);
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  PROTEAN_CUDA_CHECK(cudaMemPoolCreate(&state.pool, &properties));
  // Freed memory is kept for the next buffer instead of being given back at each synchronisation.
  unsigned long long keep = ~0ull;
  PROTEAN_CUDA_CHECK(cudaMemPoolSetAttribute(state.pool, cudaMemPoolAttrReleaseThreshold, &keep));
  PROTEAN_CUDA_CHECK(
      cudaMalloc(&state.partials, sizeof(double) * DeviceState::max_blocks * DeviceState::max_sums));
  PROTEAN_CUDA_CHECK(cudaMalloc(&state.arrived, sizeof(unsigned)));
  PROTEAN_CUDA_CHECK(cudaMemset(state.arrived, 0, sizeof(unsigned)));
  PROTEAN_CUDA_CHECK(cublasCreate(&state.cublas));
  PROTEAN_CUDA_CHECK(cublasSetStream(state.cublas, state.stream));
  PROTEAN_CUDA_CHECK(cublasSetPointerMode(state.cublas, CUBLAS_POINTER_MODE_DEVICE));
  PROTEAN_CUDA_CHECK(cusparseCreate(&state.cusparse));
  PROTEAN_CUDA_CHECK(cusparseSetStream(state.cusparse, state.stream));
  PROTEAN_CUDA_CHECK(cudaDeviceSynchronize());
  return context;
}

void Context::synchronize() const {
  if (space_ == Space::device) PROTEAN_CUDA_CHECK(cudaStreamSynchronize(device_->stream));
}

namespace device {

std::size_t free_bytes(const Context& context) {
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaSetDevice(state.ordinal));
  std::size_t free = 0, total = 0, reserved = 0, used = 0;
  PROTEAN_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  // What the pool keeps for the next buffer is free, too.
  PROTEAN_CUDA_CHECK(cudaMemPoolGetAttribute(state.pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  PROTEAN_CUDA_CHECK(cudaMemPoolGetAttribute(state.pool, cudaMemPoolAttrUsedMemCurrent, &used));
  return free + (reserved > used ? reserved - used : 0);
}

}  // namespace device

namespace detail {

void* allocate_device(const Context& context, std::size_t bytes) {
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaSetDevice(state.ordinal));
  void* data = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&data, bytes, state.pool, state.stream);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw OutOfMemory("no GPU memory for a buffer of " + human_bytes(bytes) + "; " + human_bytes(free) +
                          " of " + human_bytes(total) + " are free",
                      bytes);
  }
  device::check(status, "cudaMallocFromPoolAsync");
  return data;
}

void deallocate_device(const Context& context, void* data) noexcept {
  (void)cudaFreeAsync(data, context.device_state().stream);
}

}  // namespace detail
}  // namespace protean
