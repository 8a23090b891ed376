// Products on a device that a tuner measures while a solve runs, each on the context's stream. timed_products.hpp is
// the host side. Private to formats/.
#pragma once
#include "core/device_checks.hpp"
#include "formats/device_support.cuh"

namespace protean::formats {

class Event {
 public:
  Event() { PROTEAN_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const { PROTEAN_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  // Seconds from `begin` to this event. Waits until the device has reached it.
  double seconds_since(const Event& begin) const {
    float milliseconds = 0;
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(event_));
    PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin.event_, event_));
    return 1e-3 * static_cast<double>(milliseconds);
  }
  cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Tuner: next(), best(), done() and measured(seconds), as in row/csr_tuner.hpp and option_sweep.hpp. The next product
// reads the time of the one before, for which it waits. So the products of the trials must not be recorded
// (LinearOperator::recording()). One that is recorded all the same uses the best option so far and is not measured. Not
// guarded: a device context is used by one thread at a time.
template <class Tuner>
class TimedProductsOnDevice {
 public:
  explicit TimedProductsOnDevice(const Tuner& tuner) : tuner_(tuner) {}
  const Tuner& tuner() const noexcept { return tuner_; }

  // Calls multiply(option) once.
  template <class Multiply>
  void run(const Context& context, Multiply&& multiply) {
    if (tuner_.done()) return multiply(tuner_.best());
    const cudaStream_t stream = device::stream(context);
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    PROTEAN_CUDA_CHECK(cudaStreamIsCapturing(stream, &capturing));
    if (capturing != cudaStreamCaptureStatusNone) return multiply(tuner_.best());
    if (under_way_) {
      under_way_ = false;
      tuner_.measured(end_.seconds_since(begin_));
      if (tuner_.done()) return multiply(tuner_.best());
    }
    begin_.record(stream);
    multiply(tuner_.next());
    end_.record(stream);
    under_way_ = true;
  }

 private:
  Tuner tuner_;
  bool under_way_ = false;
  Event begin_, end_;
};

}  // namespace protean::formats
