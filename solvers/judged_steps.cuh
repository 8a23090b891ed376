// What all ways of running steps on a device have in common: two copies of the judgement in host memory,
// steps that the device computes ahead of the host, and verdicts on the numbers that come back. Private to
// solvers/.
#pragma once
#include <cmath>
#include <cstring>

#include "core/buffer.hpp"
#include "core/device/judge.cuh"
#include "core/device/state.hpp"
#include "solvers/steps.hpp"

namespace protean::detail {

using device::Judgement;

template <class T>
class JudgedSteps : public Steps<T> {
 public:
  ~JudgedSteps() override { wait(); }

  // A new solve begins. Work that is still in flight belongs to a solve that an exception ended; its results
  // are dropped.
  void attach(const System<T>& system) {
    if (in_flight_ > 0) PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream()));
    in_flight_ = 0, current_ = {}, reported_ = 0, taken_ = 0, held_ = false;
    system_ = &system;
  }

  // Queued work reads the arrays of the system before; what was freed of them is free when the stream comes to it.
  void change_system(const System<T>& system) noexcept override { system_ = &system; }
  void hold(bool held) noexcept override { held_ = held; }
  bool rests() const noexcept override { return in_flight_ == 0 && reported_ == current_.steps; }

  Verdict next(const IterationControl& control, std::int64_t left) override {
    if (reported_ == current_.steps) {
      if (in_flight_ == 0) start(control, left);
      take();
      if (!current_.ended && current_.left > 0 && !held_) go_ahead();
    }
    const int index = reported_++;
    method_.set_phase(method_.phase() + 1);
    const bool last = current_.ended && reported_ == current_.steps;
    if (!last) {
      // The guards of this step were good: the judge would have stopped here otherwise.
      Verdict good;
      good.residual = std::sqrt(current_.residual_squared[index]);
      return good;
    }
    const Verdict ended = verdict(control, current_.residual_squared[index]);
    drain();
    return ended;
  }

  std::int64_t settle(const IterationControl& control, Verdict& last) override {
    std::int64_t unreported = 0;
    for (;;) {
      if (const int more = current_.steps - reported_; more > 0) {
        unreported += more;
        method_.set_phase(method_.phase() + more);
        reported_ = current_.steps;
        last = verdict(control, current_.residual_squared[reported_ - 1]);
      }
      if (in_flight_ == 0) break;
      take();
    }
    return unreported;
  }

 protected:
  // Until the queued work is done. It does not wait for the stream, on which another thread may record a graph
  // when a solver that has gone on to another context ends this object.
  void wait() noexcept {
    for (; in_flight_ > 0; --in_flight_)
      (void)cudaEventSynchronize(slots_[(first_slot_ + in_flight_ - 1) % 2].done);
  }
  JudgedSteps(Method<T>& method, const ContextPtr& context)
      : method_(method),
        context_(context),
        judgement_buffer_(context, 1),
        judgement_(judgement_buffer_.data()),
        copies_(context, 2 * sizeof(Judgement)) {
    // Graphs copy all guards, including guards that a method does not have.
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(judgement_, 0, sizeof(Judgement), stream()));
    for (int k = 0; k < 2; ++k) {
      slots_[k].copy = static_cast<Judgement*>(copies_.data()) + k;
      PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&slots_[k].done, cudaEventDisableTiming));
    }
  }

  // Queues the first steps after begin() or after an end. Nothing is in flight then.
  virtual void start(const IterationControl& control, std::int64_t left) = 0;
  // Called after the oldest work was taken, if it neither ended the run nor reached its limit. Queues more
  // work if that is possible already.
  virtual void go_ahead() = 0;

  // Sets the judge's limits. Nothing is in flight.
  void set_limits(const IterationControl& control, std::int64_t left) {
    Judgement& header = *slots_[0].copy;
    header.next_copy = first_slot_, header.ended = 0, header.steps = 0, header.left = left;
    header.goal = control.goal(), header.limit = control.too_large();
    PROTEAN_CUDA_CHECK(
        cudaMemcpyAsync(judgement_, &header, offsetof(Judgement, guards), cudaMemcpyHostToDevice, stream()));
  }

  // The steps of this solve that were done and read by the host.
  std::int64_t taken() const noexcept { return taken_; }
  // The verdict on the scalars in the copy of the queued work.
  Verdict take_verdict(const IterationControl& control) {
    take();
    return verdict(control, current_.residual_squared[0]);
  }

  // Records the event after which the copy of the queued work is complete. Two pieces of work in a row write
  // to different copies.
  void expect_copy() {
    PROTEAN_CUDA_CHECK(cudaEventRecord(slots_[(first_slot_ + in_flight_) % 2].done, stream()));
    ++in_flight_;
  }
  Judgement* copy(int which) const noexcept { return slots_[which].copy; }
  Judgement* next_copy() const noexcept { return copy((first_slot_ + in_flight_) % 2); }

  DeviceState& state() const noexcept { return context_->device_state(); }
  cudaStream_t stream() const noexcept { return state().stream; }

  Method<T>& method_;
  const ContextPtr context_;
  const System<T>* system_ = nullptr;   // of the present solve
  std::int64_t products_per_step_ = 1;  // for A.products()

 private:
  struct Slot {
    Judgement* copy = nullptr;
    cudaEvent_t done = nullptr;
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
      if (done) (void)cudaEventDestroy(done);
    }
  };

  // IterationControl's reading of the numbers that came with current_.
  Verdict verdict(const IterationControl& control, double residual_squared) const {
    return read_elsewhere(control, method_.signals(), [&](const T*, int guard, int which) {
      return static_cast<T>(guard < 0 ? residual_squared : current_.guards[guard][which]);
    });
  }

  // Waits for the oldest copy and reads it.
  void take() {
    Slot& slot = slots_[first_slot_];
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(slot.done));
    std::memcpy(&current_, slot.copy, sizeof(Judgement));
    first_slot_ ^= 1, --in_flight_;
    reported_ = 0, taken_ += current_.steps;
    system_->count_products(current_.steps * products_per_step_);
  }

  // Waits for work that was queued after the end. Its kernels returned at once, so there is nothing to read.
  void drain() {
    while (in_flight_ > 0) {
      PROTEAN_CUDA_CHECK(cudaEventSynchronize(slots_[first_slot_].done));
      first_slot_ ^= 1, --in_flight_;
    }
    current_.steps = reported_ = 0;
  }

  Buffer<Judgement> judgement_buffer_;
  device::PinnedMemory copies_;
  Slot slots_[2];
  int first_slot_ = 0;
  Judgement current_{};  // the copy that was read last
  int reported_ = 0;     // steps of current_ that next() has returned
  std::int64_t taken_ = 0;
  bool held_ = false;

 protected:
  Judgement* judgement_;  // as kernels get it
  int in_flight_ = 0;     // pieces of queued work whose copies were not taken yet
};

}  // namespace protean::detail
