#include "core/device/streams.hpp"

#include <mutex>
#include <string>

#include "core/device/state.hpp"
#include "core/device_checks.hpp"

namespace protean::device {
namespace {

// An event of the current GPU. CUDA frees it when the work before it is done.
class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
  }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaStream_t handle(StreamNumber stream) {
  if (stream <= 1) return cudaStreamLegacy;
  return stream == 2 ? cudaStreamPerThread : reinterpret_cast<cudaStream_t>(stream);
}

std::string called(StreamNumber stream) {
  return stream <= 1 ? "the default stream" : stream == 2 ? "the default stream of the thread" : "its stream";
}

// The caller's stream records no graph.
void require_not_recording(cudaStream_t stream, StreamNumber number, std::string_view what) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  const cudaError_t status = cudaStreamIsCapturing(stream, &capturing);
  if (status == cudaErrorStreamCaptureImplicit || capturing != cudaStreamCaptureStatusNone) {
    (void)cudaGetLastError();
    throw BadArgument(std::string(what) + ": a CUDA graph is being recorded on " + called(number) +
                      "; products and solves cannot be part of it, so make them before or after");
  }
  check(status, "cudaStreamIsCapturing");
}

void require_own_gpu(cudaError_t status, const Context& context, StreamNumber number, std::string_view what) {
  if (status == cudaErrorInvalidResourceHandle || status == cudaErrorInvalidValue) {
    (void)cudaGetLastError();
    throw BadArgument(std::string(what) + ": " + called(number) + " is none of GPU " +
                      std::to_string(context.device_state().ordinal) +
                      ", where the matrix lies; use a stream of that GPU");
  }
  check(status, "cudaEventRecord");
}

}  // namespace

void wait_for(const Context& context, StreamNumber number, std::string_view what) {
  const detail::DeviceScope scope(context);
  const cudaStream_t theirs = handle(number), ours = stream(context);
  if (theirs == ours) return;
  require_not_recording(theirs, number, what);
  const Event event;
  require_own_gpu(cudaEventRecord(event.get(), theirs), context, number, what);
  PROTEAN_CUDA_CHECK(cudaStreamWaitEvent(ours, event.get(), 0));
}

void let_wait(const Context& context, StreamNumber number, std::string_view what) {
  const detail::DeviceScope scope(context);
  const cudaStream_t theirs = handle(number), ours = stream(context);
  if (theirs == ours) return;
  require_not_recording(theirs, number, what);
  const Event event;
  PROTEAN_CUDA_CHECK(cudaEventRecord(event.get(), ours));
  require_own_gpu(cudaStreamWaitEvent(theirs, event.get(), 0), context, number, what);
}

void finish_all(const Context& context) {
  const detail::DeviceScope scope(context);
  const std::unique_lock lock(recording_mutex());
  (void)context.device_state();
  PROTEAN_CUDA_CHECK(cudaDeviceSynchronize());
}

double seconds_between(const Context& context, const std::function<void()>& queue) {
  const detail::DeviceScope scope(context);
  const cudaStream_t ours = stream(context);
  const Event begin(cudaEventDefault), end(cudaEventDefault);
  PROTEAN_CUDA_CHECK(cudaEventRecord(begin.get(), ours));
  queue();
  PROTEAN_CUDA_CHECK(cudaEventRecord(end.get(), ours));
  PROTEAN_CUDA_CHECK(cudaEventSynchronize(end.get()));
  float milliseconds = 0;
  PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return 1e-3 * static_cast<double>(milliseconds);
}

int ordinal_of(const void* data, std::string_view what) {
  cudaPointerAttributes attributes;
  check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeDevice) return attributes.device;
  const char* const kind = attributes.type == cudaMemoryTypeManaged ? "managed memory"
                           : attributes.type == cudaMemoryTypeHost  ? "pinned memory of the host"
                                                                    : "memory of the host";
  throw WrongSpace(std::string(what) + " is said to lie in the memory of a GPU, but is " + kind +
                   "; copy it there");
}

}  // namespace protean::device
