// What is the same in all ways of running steps on a device: two copies of the judgement in host memory, work
// that is ahead of what next() has told, and verdicts on numbers that came back. Private to solvers/.
#pragma once
#include <cmath>
#include <cstring>

#include "core/allocation_hook.hpp"
#include "core/buffer.hpp"
#include "core/device/judge.cuh"
#include "core/device/state.hpp"
#include "solvers/steps.hpp"

namespace protean::detail {

using device::Judgement;

template <class T>
class JudgedSteps : public Steps<T> {
 public:
  ~JudgedSteps() override { (void)cudaStreamSynchronize(state_.stream); }

  const ContextPtr& context() const noexcept { return context_; }

  // A new solve begins. What the one before may have left when an exception ended it is forgotten.
  void attach(const System<T>& system) {
    if (in_flight_ > 0) PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state_.stream));
    in_flight_ = 0, current_ = {}, told_ = 0;
    system_ = &system;
  }

  Verdict next(const IterationControl& control, std::int64_t left) override {
    if (told_ == current_.steps) {
      if (in_flight_ == 0) start(control, left);
      take();
      if (!current_.ended && current_.left > 0) go_ahead();
    }
    const int index = told_++;
    method_.set_phase(method_.phase() + 1);
    const bool last = current_.ended && told_ == current_.steps;
    if (!last) {
      // Its guards were good, or the judge would have stopped.
      Verdict good;
      good.residual = std::sqrt(current_.residual_squared[index]);
      return good;
    }
    const Verdict ended = verdict(control, current_.residual_squared[index]);
    drain();
    return ended;
  }

  std::int64_t settle(const IterationControl& control, Verdict& last) override {
    std::int64_t untold = 0;
    for (;;) {
      if (const int more = current_.steps - told_; more > 0) {
        untold += more;
        method_.set_phase(method_.phase() + more);
        told_ = current_.steps;
        last = verdict(control, current_.residual_squared[told_ - 1]);
      }
      if (in_flight_ == 0) break;
      take();
    }
    return untold;
  }

 protected:
  JudgedSteps(Method<T>& method, const ContextPtr& context)
      : method_(method),
        context_(context),
        state_(context->device_state()),
        judgement_buffer_(context, 1),
        judgement_(judgement_buffer_.data()) {
    // One piece for both copies: such memory takes long to get.
    about_to_allocate(Space::host, 2 * sizeof(Judgement));
    PROTEAN_CUDA_CHECK(cudaMallocHost(&copies_.first, 2 * sizeof(Judgement)));
    for (int k = 0; k < 2; ++k) {
      slots_[k].copy = copies_.first + k;
      PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&slots_[k].done, cudaEventDisableTiming));
    }
  }

  // Queues work for the first steps after begin() or after an end; nothing is in flight.
  virtual void start(const IterationControl& control, std::int64_t left) = 0;
  // Called when the oldest work has been taken and neither ended the run nor reached its limit: queues more,
  // if it can be queued now.
  virtual void go_ahead() = 0;

  // Sets the judge's limits, when nothing is in flight.
  void set_limits(const IterationControl& control, std::int64_t left) {
    Judgement& header = *slots_[0].copy;
    header.turn = first_slot_, header.ended = 0, header.steps = 0, header.left = left;
    header.goal = control.goal(), header.limit = control.too_large();
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(judgement_, &header, offsetof(Judgement, guards),
                                       cudaMemcpyHostToDevice, state_.stream));
  }

  // Marks where the judgement is in its copy. Each piece of work that is asked for writes copies in turn.
  void ask() {
    PROTEAN_CUDA_CHECK(cudaEventRecord(slots_[(first_slot_ + in_flight_) % 2].done, state_.stream));
    ++in_flight_;
  }
  Judgement* copy(int which) const noexcept { return slots_[which].copy; }
  Judgement* next_copy() const noexcept { return copy((first_slot_ + in_flight_) % 2); }

  Method<T>& method_;
  const ContextPtr context_;
  DeviceState& state_;
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
  struct Copies {
    Judgement* first = nullptr;
    Copies() = default;
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;
    ~Copies() {
      if (first) (void)cudaFreeHost(first);
    }
  };

  // IterationControl's reading of the numbers that came with current_.
  Verdict verdict(const IterationControl& control, double residual_squared) const {
    constexpr int most_guards = Judgement::most_guards;
    const Signals<T> signals = method_.signals();
    const T squared = static_cast<T>(residual_squared);
    T numbers[most_guards][3];
    Guard<T> guards[most_guards] = {};
    for (std::size_t g = 0; g < signals.guards.size(); ++g) {
      for (int k = 0; k < 3; ++k) numbers[g][k] = static_cast<T>(current_.guards[g][k]);
      guards[g] = signals.guards[g];
      guards[g].value = &numbers[g][0];
      if (guards[g].scale_a) guards[g].scale_a = &numbers[g][1], guards[g].scale_b = &numbers[g][2];
    }
    Signals<T> here = signals;
    here.residual_squared = &squared;
    here.guards = {guards, signals.guards.size()};
    return control.read(here);
  }

  // Waits for the oldest copy.
  void take() {
    Slot& slot = slots_[first_slot_];
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(slot.done));
    std::memcpy(&current_, slot.copy, sizeof(Judgement));
    first_slot_ ^= 1, --in_flight_;
    told_ = 0;
    system_->A.count_products(current_.steps * products_per_step_);
  }

  // Forgets work that was queued after the end; it has done nothing.
  void drain() {
    while (in_flight_ > 0) {
      PROTEAN_CUDA_CHECK(cudaEventSynchronize(slots_[first_slot_].done));
      first_slot_ ^= 1, --in_flight_;
    }
    current_.steps = told_ = 0;
  }

  Buffer<Judgement> judgement_buffer_;
  Copies copies_;
  Slot slots_[2];
  int first_slot_ = 0, told_ = 0;
  Judgement current_{};

 protected:
  Judgement* judgement_;  // what the kernels are given
  int in_flight_ = 0;
};

}  // namespace protean::detail
