// Device contexts: creation, memory, copies between spaces.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "core/device/cache.hpp"
#include "core/device/copy.hpp"
#include "core/device/state.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/simulated_device.hpp"
#include "core/words.hpp"
#if defined(PROTEAN_KOKKOS_CUDA)
#include "core/blas1_kokkos.hpp"
#include "core/kokkos_start.hpp"
#endif

namespace protean {
namespace device {

void check(cudaError_t status, const char* call, SourceLocation where) {
  if (status == cudaSuccess) return;
  const std::string text = std::string(call) + ": " + cudaGetErrorString(status);
  (void)cudaGetLastError();  // clears the error for the next call, unless it is a sticky one
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory("the GPU has no memory left: " + text, 0, where);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
    throw NotAvailable(
        "this build has no code for this GPU's architecture; configure with "
        "-DCMAKE_CUDA_ARCHITECTURES=native (" +
            text + ")",
        where);
  if (status == cudaErrorStreamCaptureInvalidated) throw RecordingDisturbed(text, where);
  throw DeviceError(text, where);
}
void check(cublasStatus_t status, const char* call, SourceLocation where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(call) + ": " + cublasGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw OutOfMemory("the GPU has no memory left: " + text, 0, where);
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR)
    throw RecordingDisturbed(text, where);
  throw DeviceError(text, where);
}
void check(cusparseStatus_t status, const char* call, SourceLocation where) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const std::string text = std::string(call) + ": " + cusparseGetErrorString(status);
  if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES)
    throw OutOfMemory("the GPU has no memory left: " + text, 0, where);
  if (status == CUSPARSE_STATUS_EXECUTION_FAILED || status == CUSPARSE_STATUS_INTERNAL_ERROR)
    throw RecordingDisturbed(text, where);
  throw DeviceError(text, where);
}

namespace {

// The calling thread's current GPU. Asking for it costs less than setting it.
void set_current(int ordinal) noexcept {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current != ordinal) (void)cudaSetDevice(ordinal);
}

// The caller's current GPU is restored at the end.
struct RestoredDevice {
  int ordinal = -1;
  RestoredDevice() noexcept {
    if (cudaGetDevice(&ordinal) != cudaSuccess) {
      (void)cudaGetLastError();
      ordinal = -1;
    }
  }
  ~RestoredDevice() {
    if (ordinal >= 0) set_current(ordinal);
  }
  RestoredDevice(const RestoredDevice&) = delete;
  RestoredDevice& operator=(const RestoredDevice&) = delete;
};

void destroy(DeviceState* state) {
  if (!state) return;
  const RestoredDevice restored;
  for (const DeviceState::Beside* beside : {&state->behind, &state->before})
    if (beside->state) {
      beside->state->pool = nullptr;  // it shares the pool that is destroyed below
      destroy(beside->state);
    }
  const std::unique_lock lock(recording_mutex());
  (void)cudaSetDevice(state->ordinal);
  if (state->stream) (void)cudaStreamSynchronize(state->stream);
#if defined(PROTEAN_KOKKOS_CUDA)
  detail::forget_kokkos(state);
#endif
  if (state->cusparse) (void)cusparseDestroy(state->cusparse);
  if (state->cublas) (void)cublasDestroy(state->cublas);
  if (state->partials) (void)cudaFree(state->partials);
  if (state->other_partials) (void)cudaFree(state->other_partials);
  if (state->arrived) (void)cudaFree(state->arrived);
  for (DeviceState::Staging& piece : state->staging) {
    if (piece.done) (void)cudaEventDestroy(piece.done);
    if (piece.data) (void)cudaFreeHost(piece.data);
  }
  for (const DeviceState::Pinned& piece : state->pinned) (void)cudaFreeHost(piece.data);
  if (state->pool) (void)cudaMemPoolDestroy(state->pool);
  if (state->stream) (void)cudaStreamDestroy(state->stream);
  (void)cudaGetLastError();  // cublasDestroy() waits for the device, which fails while another thread records
  delete state;
}

// Never launched. Its attributes show what this program was compiled for.
__global__ void compiled_for() {}

// Makes the stream and the workspace of a state that has its GPU and its pool.
void complete(DeviceState& state, int priority) {
  PROTEAN_CUDA_CHECK(cudaStreamCreateWithPriority(&state.stream, cudaStreamNonBlocking, priority));
  detail::about_to_allocate(Space::device, sizeof(double) * DeviceState::max_blocks * DeviceState::max_sums);
  // From the pool, because cudaMalloc() might wait for a solve that runs at the same time.
  const auto allocate = [&](std::size_t bytes) {
    void* memory = nullptr;
    PROTEAN_CUDA_CHECK(cudaMallocFromPoolAsync(&memory, bytes, state.pool, state.stream));
    return memory;
  };
  for (double** partials : {&state.partials, &state.other_partials})
    *partials =
        static_cast<double*>(allocate(sizeof(double) * DeviceState::max_blocks * DeviceState::max_sums));
  cudaFuncAttributes compiled;
  PROTEAN_CUDA_CHECK(cudaFuncGetAttributes(&compiled, compiled_for));
  state.can_overlap = compiled.ptxVersion >= 90;
  state.arrived = static_cast<unsigned*>(allocate(sizeof(unsigned)));
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(state.arrived, 0, sizeof(unsigned), state.stream));
}

void make_cublas(DeviceState& state) {
  PROTEAN_CUDA_CHECK(cublasCreate(&state.cublas));
  PROTEAN_CUDA_CHECK(cublasSetStream(state.cublas, state.stream));
  PROTEAN_CUDA_CHECK(cublasSetPointerMode(state.cublas, CUBLAS_POINTER_MODE_DEVICE));
}
void make_cusparse(DeviceState& state) {
  PROTEAN_CUDA_CHECK(cusparseCreate(&state.cusparse));
  PROTEAN_CUDA_CHECK(cusparseSetStream(state.cusparse, state.stream));
}

// Of streams; the smaller the number, the higher the priority. A solve lies between the two kinds of background work.
struct Priorities {
  int behind = 0, before = 0;
  Priorities() { PROTEAN_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&behind, &before)); }
  int solve() const { return std::min(behind, before + 1); }
};

}  // namespace

std::shared_mutex& recording_mutex() {
  static auto* const mutex = new std::shared_mutex;  // contexts may be destroyed after all statics
  return *mutex;
}

RecordingScope::RecordingScope(DeviceState& state) : state_(state), lock_(recording_mutex()) {
  const std::lock_guard lock(state.release_mutex);
  state.recording = true;
}
RecordingScope::~RecordingScope() {
  const std::lock_guard lock(state_.release_mutex);
  state_.recording = false;
  for (void* data : state_.released) (void)cudaFreeAsync(data, state_.stream);
  state_.released.clear();
}

PinnedMemory::PinnedMemory(ContextPtr context, std::size_t bytes)
    : context_(std::move(context)), state_(context_->device_state()) {
  constexpr std::size_t page = 4096;
  detail::about_to_allocate(Space::host, bytes);
  {
    const std::lock_guard lock(state_.release_mutex);
    // The least that is large enough, unless most of it would lie idle.
    auto best = state_.pinned.end();
    for (auto piece = state_.pinned.begin(); piece != state_.pinned.end(); ++piece)
      if (piece->bytes >= bytes && piece->bytes <= 4 * (bytes + page) &&
          (best == state_.pinned.end() || piece->bytes < best->bytes))
        best = piece;
    if (best != state_.pinned.end()) {
      piece_ = *best;
      state_.pinned.erase(best);
      return;
    }
    state_.pinned.reserve(DeviceState::most_pinned);  // the destructor cannot fail
  }
  piece_.bytes = (bytes + page - 1) / page * page;
  PROTEAN_CUDA_CHECK(cudaMallocHost(&piece_.data, piece_.bytes));
}

PinnedMemory::~PinnedMemory() {
  {
    const std::lock_guard lock(state_.release_mutex);
    if (state_.pinned.size() < DeviceState::most_pinned) {
      state_.pinned.push_back(piece_);
      return;
    }
  }
  (void)cudaFreeHost(piece_.data);
}

cusparseHandle_t cusparse(const Context& context) {
  DeviceState& state = context.device_state();
  if (!state.cusparse) make_cusparse(state);
  return state.cusparse;
}

}  // namespace device

namespace detail {

void make_current(const DeviceState& state) noexcept { device::set_current(state.ordinal); }
int DeviceScope::enter(const Context& context) noexcept {
  int before = -1;
  if (cudaGetDevice(&before) != cudaSuccess) {
    (void)cudaGetLastError();
    return -1;
  }
  (void)context.device_state();
  return before;
}
void DeviceScope::restore(int ordinal) noexcept { device::set_current(ordinal); }

DeviceState* enter_background(const Context& context, const std::atomic<bool>& cancel, bool before) {
  DeviceState& own = context.device_state();
  DeviceState::Beside& beside = before ? own.before : own.behind;
  while (!beside.in_use.try_lock_for(std::chrono::milliseconds(5)))
    if (cancel.load(std::memory_order_relaxed))
      throw Cancelled("background work was asked to end while it waited for other background work");
  try {
    if (!beside.state) {
      std::unique_ptr<DeviceState, void (*)(DeviceState*)> made(new DeviceState, [](DeviceState* state) {
        state->pool = nullptr;
        device::destroy(state);
      });
      made->ordinal = own.ordinal, made->processors = own.processors, made->pool = own.pool;
      made->memory_bytes = own.memory_bytes;
      const device::Priorities priorities;
      device::complete(*made, before ? priorities.before : priorities.behind);
      beside.state = made.release();
    }
  } catch (...) {
    beside.in_use.unlock();
    throw;
  }
  return beside.state;
}

void leave_background(const Context& context, DeviceState* state) noexcept {
  (void)cudaStreamSynchronize(state->stream);
  DeviceState& own = context.device_state();
  (state == own.before.state ? own.before : own.behind).in_use.unlock();
}

}  // namespace detail

int Context::device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

std::shared_ptr<Context> Context::device(int ordinal, const DeviceOptions& options) {
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
  detail::require_vector_kernels(options.vector_kernels, Space::device, options.deterministic);
  const device::RestoredDevice restored;
  std::shared_ptr<Context> context(new Context(Space::device, 1));
  context->options_ = {options.vector_kernels, options.deterministic};
  context->device_ = {new DeviceState, device::destroy};
  // Destroyed before the context, whose end takes the same mutex when something below throws.
  std::unique_lock lock(device::recording_mutex());
  DeviceState& state = *context->device_;
  state.ordinal = ordinal;
  PROTEAN_CUDA_CHECK(cudaSetDevice(ordinal));
  PROTEAN_CUDA_CHECK(cudaDeviceGetAttribute(&state.processors, cudaDevAttrMultiProcessorCount, ordinal));
  std::size_t free = 0;
  PROTEAN_CUDA_CHECK(cudaMemGetInfo(&free, &state.memory_bytes));
  cudaMemPoolProps properties;
  std::memset(&properties, 0, sizeof properties);
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  PROTEAN_CUDA_CHECK(cudaMemPoolCreate(&state.pool, &properties));
  // The pool keeps freed memory for the next buffer. By default it would free it at each synchronisation.
  unsigned long long keep = ~0ull;
  PROTEAN_CUDA_CHECK(cudaMemPoolSetAttribute(state.pool, cudaMemPoolAttrReleaseThreshold, &keep));
  device::complete(state, device::Priorities().solve());
  device::make_cublas(state);
  device::make_cusparse(state);
  PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state.stream));
  lock.unlock();
#if defined(PROTEAN_KOKKOS_CUDA)
  if (options.vector_kernels == VectorKernels::kokkos) {
    start_kokkos(*context);
    kokkos::prepare(*context);
  }
#endif
  return context;
}

void Context::synchronize() const {
  const detail::DeviceScope scope(*this);
  if (space_ == Space::device && !simulated_)
    PROTEAN_CUDA_CHECK(cudaStreamSynchronize(device_state().stream));
}

namespace device {

std::size_t free_bytes(const Context& context) {
  const detail::DeviceScope scope(context);
  const DeviceState& state = context.device_state();
  std::size_t free = 0, total = 0, reserved = 0, used = 0;
  PROTEAN_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  // Memory that the pool keeps for the next buffer is free as well.
  PROTEAN_CUDA_CHECK(cudaMemPoolGetAttribute(state.pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  PROTEAN_CUDA_CHECK(cudaMemPoolGetAttribute(state.pool, cudaMemPoolAttrUsedMemCurrent, &used));
  return free + (reserved > used ? reserved - used : 0);
}

std::size_t cache_bytes(const Context& context) {
  int bytes = 0;
  PROTEAN_CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, context.device_state().ordinal));
  return static_cast<std::size_t>(bytes);
}

std::int64_t shared_memory_of_block(const Context& context) {
  constexpr int of_kernels = 1024;  // at most, of fixed size
  int most = 0;
  PROTEAN_CUDA_CHECK(
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device_state().ordinal));
  return most - of_kernels;
}

}  // namespace device

namespace detail {

void* allocate_device(const Context& context, std::size_t bytes) {
  const DeviceScope scope(context);
  const DeviceState& state = context.device_state();
  void* data = nullptr;
  // A pool takes memory piece by piece: a request that is larger than the device would take all that is left, for
  // seconds, from every other program on it before it fails.
  const cudaError_t status = bytes > state.memory_bytes
                                 ? cudaErrorMemoryAllocation
                                 : cudaMallocFromPoolAsync(&data, bytes, state.pool, state.stream);
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
  const DeviceScope scope(context);
  DeviceState& state = context.device_state();
  const std::lock_guard lock(state.release_mutex);
  if (state.recording)
    state.released.push_back(data);
  else
    (void)cudaFreeAsync(data, state.stream);
}

std::size_t allocated_on_device(const Context& context) {
  const DeviceScope scope(context);
  const DeviceState& state = context.device_state();
  PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state.stream));
  std::size_t used = 0;
  PROTEAN_CUDA_CHECK(cudaMemPoolGetAttribute(state.pool, cudaMemPoolAttrUsedMemCurrent, &used));
  return used;
}

void require_device_memory(const Context& context, const void* data, std::string_view what) {
  if (context.space() != Space::device || !data) return;
  if (context.simulated()) return require_simulated_memory(context, data, what);
  const DeviceScope scope(context);
  const int ordinal = context.device_state().ordinal;
  cudaPointerAttributes attributes;
  device::check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  std::string kind;
  switch (attributes.type) {
    case cudaMemoryTypeDevice:
      if (attributes.device == ordinal) return;
      kind = "memory of GPU " + std::to_string(attributes.device) + "; the context is of GPU " +
             std::to_string(ordinal);
      break;
    case cudaMemoryTypeManaged:
      kind = "managed memory, which Protean does not use";
      break;
    case cudaMemoryTypeHost:
      kind = "pinned memory of the host";
      break;
    default:
      kind = "memory of the host";
  }
  throw WrongSpace(std::string(what) + " is said to lie in device memory, but is " + kind +
                   " (copy it by name)");
}

CUstream_st* stream_of(const Context& context) noexcept {
  return context.space() == Space::device && !context.simulated() ? context.device_state().stream : nullptr;
}

void check_queued(const Context& context, std::string_view what) {
  if (context.space() != Space::device || context.simulated()) return;
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    device::check(status, std::string(what).c_str());
}

}  // namespace detail
}  // namespace protean
