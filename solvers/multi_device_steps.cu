// Steps with several columns on a GPU. A batch of steps is queued, kernel by kernel, and a small kernel after each step judges
// every lane on its own: one that has ended is marked as not running, and later steps leave its vectors and scalars as they
// are. The host queues the next batch before it reads the results of the last one, so it never waits between two steps.
#include <cmath>
#include <cstring>
#include <limits>

#include "core/allocation_hook.hpp"
#include "core/buffer.hpp"
#include "core/device/kernel_tools.cuh"
#include "solvers/multi_method.hpp"

namespace protean::detail {
namespace {

// Steps of a batch.
constexpr int batch = 8;

// In device memory, one for each lane; copied to the host after each batch.
struct LaneJudgement {
  double goal, too_large;
  long long left;
  int steps;                       // done in this batch
  double last[most_lane_scalars];  // the scalars of the last step
  double residual_squared[batch];
};

// Where the scalars of all lanes lie, and the guards of the method, as an argument of kernels.
constexpr int most_guards = 3;
template <class T>
struct LaneTests {
  struct Test {
    int value, scale_a, scale_b;
    bool positive;
    double factor;
  };
  const T* scalars[most_lane_scalars];
  Test tests[most_guards];
  int scalar_count = 0, test_count = 0;

  explicit LaneTests(MultiMethod<T>& method) {
    const MultiMethodTraits& traits = method.traits();
    for (; scalar_count < traits.scalars; ++scalar_count)
      scalars[scalar_count] = method.scalars(scalar_count);
    for (const LaneGuard& guard : traits.guards)
      tests[test_count++] = {guard.value, guard.scale_a, guard.scale_b,
                             guard.test == protean::detail::Test::positive,
                             guard.factor(static_cast<double>(std::numeric_limits<T>::epsilon()))};
  }
};

// The tests of Judge (core/device/judge.cuh) for each lane.
template <class T>
__global__ void judge_lanes(LaneJudgement* judgement, int lanes, int step, LaneTests<T> of, T* running,
                            const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= lanes) return;
  LaneJudgement& mine = judgement[lane];
  if (step == 0) mine.steps = 0;
  if (running[lane] == T(0)) return;
  for (int s = 0; s < of.scalar_count; ++s) mine.last[s] = static_cast<double>(of.scalars[s][lane]);
  const double squared = mine.last[0], residual = sqrt(squared);
  mine.residual_squared[step] = squared, mine.steps = step + 1, --mine.left;
  bool end = !isfinite(squared) || squared < 0 || residual <= mine.goal || residual > mine.too_large ||
             mine.left <= 0;
  for (int t = 0; t < of.test_count; ++t) {
    const auto& test = of.tests[t];
    const double value = mine.last[test.value];
    const double scale =
        test.scale_a < 0 ? 0 : test.factor * sqrt(mine.last[test.scale_a]) * sqrt(mine.last[test.scale_b]);
    end = end || !isfinite(value) || !(test.positive ? value > 0 : fabs(value) > scale);
  }
  if (end) running[lane] = T(0);
}

template <class T>
class QueuedSteps final : public MultiDeviceSteps<T> {
 public:
  using typename MultiDeviceSteps<T>::Limits;
  using typename MultiDeviceSteps<T>::Done;

  QueuedSteps(const ContextPtr& context, std::int64_t most)
      : context_(context), most_(most), judgement_(context, most) {
    const std::size_t bytes = static_cast<std::size_t>(most) * sizeof(LaneJudgement);
    about_to_allocate(Space::host, 2 * bytes);
    void* pinned = nullptr;
    PROTEAN_CUDA_CHECK(cudaMallocHost(&pinned, 2 * bytes));
    copies_.data = static_cast<LaneJudgement*>(pinned);
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
    in_flight_ = 0, lanes_ = limits.size();
    LaneJudgement* const header = copies_.data;
    std::memset(header, 0, lanes_ * sizeof(LaneJudgement));
    for (std::size_t l = 0; l < lanes_; ++l)
      header[l].goal = limits[l].goal, header[l].too_large = limits[l].too_large,
      header[l].left = limits[l].left;
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(judgement_.data(), header, lanes_ * sizeof(LaneJudgement),
                                       cudaMemcpyHostToDevice, stream()));
    // The first copy back goes to the other slot only after this one has been read by the device: the stream is in order.
  }

  void next(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
            Done& done) override {
    done.reset(lanes_);
    while (in_flight_ < 2 && method.phase() < method.period()) queue(system, method, lanes);
    take(done);
  }

  void settle(Done& done) override {
    done.reset(lanes_);
    while (in_flight_ > 0) take(done);
  }

 private:
  struct Slot {
    cudaEvent_t done = nullptr;
    Slot() = default;
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
      if (done) (void)cudaEventDestroy(done);
    }
  };
  struct Pinned {
    LaneJudgement* data = nullptr;
    Pinned() = default;
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    ~Pinned() {
      if (data) (void)cudaFreeHost(data);
    }
  };

  cudaStream_t stream() const { return context_->device_state().stream; }

  void queue(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes) {
    const DeviceState& state = context_->device_state();
    // A cycle ends with a shorter batch: what follows is the driver's.
    for (int step = 0; step < batch && method.phase() < method.period(); ++step) {
      method.step(system, lanes);
      device::launch(state, judge_lanes<T>, 1, 256, judgement_.data(), static_cast<int>(lanes_), step,
                     LaneTests<T>(method), method.running(), state.stop);
    }
    const int slot = (first_ + in_flight_) % 2;
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(copies_.data + slot * most_, judgement_.data(),
                                       lanes_ * sizeof(LaneJudgement), cudaMemcpyDeviceToHost, stream()));
    PROTEAN_CUDA_CHECK(cudaEventRecord(slots_[slot].done, stream()));
    ++in_flight_;
  }

  // Waits for the oldest batch and adds it.
  void take(Done& done) {
    const LaneJudgement* const copy = copies_.data + first_ * most_;
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(slots_[first_].done));
    for (std::size_t l = 0; l < lanes_; ++l) {
      const LaneJudgement& lane = copy[l];
      for (int s = 0; s < lane.steps; ++s) done.residual_squared[l].push_back(lane.residual_squared[s]);
      if (lane.steps > 0)
        for (int s = 0; s < most_lane_scalars; ++s)
          done.last[l][static_cast<std::size_t>(s)] = static_cast<T>(lane.last[s]);
    }
    first_ ^= 1, --in_flight_;
  }

  const ContextPtr context_;
  const std::int64_t most_;
  Buffer<LaneJudgement> judgement_;
  Pinned copies_;
  Slot slots_[2];
  int first_ = 0, in_flight_ = 0;
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
