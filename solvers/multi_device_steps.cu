// Steps with several columns on a GPU. A batch of steps is queued, kernel by kernel, and a small kernel after each step
// judges every lane on its own: one that has ended is marked as not running, and later steps leave its vectors and
// scalars as they are. The host queues the next batch before it reads the results of the last one, so it never waits
// between two steps.
#include <cstring>

#include "core/buffer.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/state.hpp"
#include "solvers/lane_judge.hpp"

namespace protean::detail {
namespace {

constexpr int batch = most_batch;

template <class T>
__global__ void judge_lanes(LaneJudgement* judgement, int lanes, int step, LaneTests<T> of, T* running,
                            const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < lanes) of.judge(lane, step, judgement[lane], running);
}

template <class T>
class QueuedSteps final : public MultiDeviceSteps<T> {
 public:
  using typename MultiDeviceSteps<T>::Limits;
  using typename MultiDeviceSteps<T>::Done;

  QueuedSteps(const ContextPtr& context, std::int64_t most)
      : context_(context),
        most_(most),
        judgement_(context, most),
        copies_(context, 2 * static_cast<std::size_t>(most) * sizeof(LaneJudgement)) {
    for (Slot& slot : slots_)
      PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming));
  }
  ~QueuedSteps() override {
    for (; in_flight_ > 0; --in_flight_)
      (void)cudaEventSynchronize(slots_[(first_ + in_flight_ - 1) % 2].done);
  }

  void start(const std::vector<Limits>& limits) override {
    // Work that is still in flight belongs to a solve that an exception ended.
    if (in_flight_ > 0) PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream()));
    in_flight_ = 0, ahead_ = 0, lanes_ = limits.size();
    LaneJudgement* const header = copies();
    std::memset(header, 0, lanes_ * sizeof(LaneJudgement));
    for (std::size_t l = 0; l < lanes_; ++l)
      header[l].goal = limits[l].goal, header[l].too_large = limits[l].too_large,
      header[l].left = limits[l].left;
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(judgement_.data(), header, lanes_ * sizeof(LaneJudgement),
                                       cudaMemcpyHostToDevice, stream()));
    // The first copy back goes to the other slot only after this one has been read by the device: the stream is in
    // order.
  }

  void next(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
            std::int64_t room, Done& done) override {
    done.reset(lanes_);
    while (in_flight_ < 2 && method.phase() < method.period() && ahead_ < room)
      queue(system, method, lanes, room - ahead_);
    take(done);
  }

  void settle(Done& done) override {
    done.reset(lanes_);
    while (in_flight_ > 0) take(done);
  }

 private:
  struct Slot {
    cudaEvent_t done = nullptr;
    std::int64_t steps = 0;
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
      if (done) (void)cudaEventDestroy(done);
    }
  };

  cudaStream_t stream() const { return context_->device_state().stream; }
  LaneJudgement* copies() const noexcept { return static_cast<LaneJudgement*>(copies_.data()); }

  void queue(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
             std::int64_t room) {
    const DeviceState& state = context_->device_state();
    // A cycle ends with a shorter batch, and so does a stop of the observer: what follows is the driver's.
    int step = 0;
    for (; step < batch && step < room && method.phase() < method.period(); ++step) {
      method.step(system, lanes);
      device::launch(state, judge_lanes<T>, 1, 256, judgement_.data(), static_cast<int>(lanes_), step,
                     LaneTests<T>(method), method.running(), state.stop);
    }
    const int slot = (first_ + in_flight_) % 2;
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(copies() + slot * most_, judgement_.data(),
                                       lanes_ * sizeof(LaneJudgement), cudaMemcpyDeviceToHost, stream()));
    PROTEAN_CUDA_CHECK(cudaEventRecord(slots_[slot].done, stream()));
    slots_[slot].steps = step, ahead_ += step;
    ++in_flight_;
  }

  // Waits for the oldest batch and adds it.
  void take(Done& done) {
    const LaneJudgement* const copy = copies() + first_ * most_;
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(slots_[first_].done));
    add_batch<T>({copy, lanes_}, done);
    ahead_ -= slots_[first_].steps;
    first_ ^= 1, --in_flight_;
  }

  const ContextPtr context_;
  const std::int64_t most_;
  Buffer<LaneJudgement> judgement_;
  device::PinnedMemory copies_;
  Slot slots_[2];
  int first_ = 0, in_flight_ = 0;
  std::int64_t ahead_ = 0;  // steps in flight
  std::size_t lanes_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<MultiDeviceSteps<T>> make_multi_device_steps(const ContextPtr& context, std::int64_t most) {
  return std::make_unique<QueuedSteps<T>>(context, most);
}
template std::unique_ptr<MultiDeviceSteps<float>> make_multi_device_steps<float>(const ContextPtr&,
                                                                                 std::int64_t);
template std::unique_ptr<MultiDeviceSteps<double>> make_multi_device_steps<double>(const ContextPtr&,
                                                                                   std::int64_t);

}  // namespace protean::detail
