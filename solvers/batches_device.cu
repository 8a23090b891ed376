// Batches of steps with several columns on a GPU: a small kernel after each step judges all lanes, and a batch that
// comes again is a CUDA graph.
#include <cstring>

#include "core/buffer.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/state.hpp"
#include "solvers/batches.hpp"
#include "solvers/steps_graph.cuh"

namespace protean::detail {
namespace {

template <class T>
__global__ void judge_lanes(LaneJudgement* judgement, int lanes, int step, LaneTests<T> of, T* running,
                            const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < lanes) of.judge(lane, step, judgement[lane], running);
}

template <class T>
class DeviceBatches final : public Batches<T> {
 public:
  DeviceBatches(const ContextPtr& context, std::int64_t most)
      : Batches<T>(most_batch),
        context_(context),
        most_(most),
        judgement_(context, most),
        copies_(context, 2 * static_cast<std::size_t>(most) * sizeof(LaneJudgement)) {
    for (Slot& slot : slots_)
      PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming));
  }
  ~DeviceBatches() override {
    for (; expected_ > 0; --expected_) (void)cudaEventSynchronize(slots_[(first_ + expected_ - 1) % 2].done);
  }
  std::string_view name() const noexcept override { return this->replayed() > 0 ? "graph" : "queued"; }

 protected:
  using typename Batches<T>::Recorded;

  // The first copy back goes to the other slot only after this one has been read by the device: the stream is in order.
  void send(std::span<const LaneJudgement> lanes) override {
    const std::size_t bytes = lanes.size_bytes();
    std::memcpy(copies(), lanes.data(), bytes);
    PROTEAN_CUDA_CHECK(
        cudaMemcpyAsync(judgement_.data(), copies(), bytes, cudaMemcpyHostToDevice, state().stream));
  }
  void judge(MultiMethod<T>& method, int step) override {
    device::launch(state(), judge_lanes<T>, 1, 256, judgement_.data(), lanes(), step, LaneTests<T>(method),
                   method.running(), state().stop);
  }
  void expect() override {
    const int slot = (first_ + expected_) % 2;
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(copies() + slot * most_, judgement_.data(),
                                       static_cast<std::size_t>(lanes()) * sizeof(LaneJudgement),
                                       cudaMemcpyDeviceToHost, state().stream));
    PROTEAN_CUDA_CHECK(cudaEventRecord(slots_[slot].done, state().stream));
    ++expected_;
  }
  std::span<const LaneJudgement> receive() override {
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(slots_[first_].done));
    const LaneJudgement* const copy = copies() + first_ * most_;
    first_ ^= 1, --expected_;
    return {copy, static_cast<std::size_t>(lanes())};
  }

  // Steps that cannot be recorded are queued from then on.
  bool replay(std::unique_ptr<Recorded>& recorded, const std::function<void()>& queue) override {
    if (!recorded) {
      auto made = std::make_unique<Graph>();
      std::string why;
      if (!made->graph.record(state(), why, queue)) return false;
      recorded = std::move(made);
    }
    static_cast<Graph&>(*recorded).graph.launch(state().stream);
    return true;
  }

 private:
  struct Graph final : Recorded {
    StepsGraph graph;
  };
  struct Slot {
    cudaEvent_t done = nullptr;
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
      if (done) (void)cudaEventDestroy(done);
    }
  };

  DeviceState& state() const { return context_->device_state(); }
  LaneJudgement* copies() const noexcept { return static_cast<LaneJudgement*>(copies_.data()); }
  int lanes() const noexcept { return static_cast<int>(Batches<T>::lanes()); }

  const ContextPtr context_;
  const std::int64_t most_;
  Buffer<LaneJudgement> judgement_;
  device::PinnedMemory copies_;
  Slot slots_[2];
  int first_ = 0, expected_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<Batches<T>> make_device_batches(const ContextPtr& context, std::int64_t most) {
  return std::make_unique<DeviceBatches<T>>(context, most);
}
template std::unique_ptr<Batches<float>> make_device_batches<float>(const ContextPtr&, std::int64_t);
template std::unique_ptr<Batches<double>> make_device_batches<double>(const ContextPtr&, std::int64_t);

}  // namespace protean::detail
