// The tests that end the run of a lane while steps of several columns are queued: the tests of Judge
// (core/device/judge.cuh) for each lane. The same function judges on a GPU (multi_device_steps.cu) and on a simulated
// device (below). Private to solvers/.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "core/host_device.hpp"
#include "core/simulated_device.hpp"
#include "solvers/multi_method.hpp"

namespace protean::detail {

// The most steps of a batch.
constexpr int most_batch = 8;

// One for each lane.
struct LaneJudgement {
  double goal, too_large;
  long long left;
  int steps;                       // done in this batch
  double last[most_lane_scalars];  // the scalars of the last step
  double residual_squared[most_batch];
};

// Where the scalars of all lanes lie, and the guards of the method, as an argument of kernels.
template <class T>
struct LaneTests {
  struct Test {
    int value, scale_a, scale_b;
    bool positive;
    double factor;
  };
  const T* scalars[most_lane_scalars];
  Test tests[most_lane_guards];
  int scalar_count = 0, test_count = 0;
  const int residual;  // which scalar is its square

  explicit LaneTests(MultiMethod<T>& method) : residual(method.residual_scalar()) {
    for (; scalar_count < method.scalar_count(); ++scalar_count)
      scalars[scalar_count] = method.scalars(scalar_count);
    for (const LaneGuard& guard : method.traits().guards)
      tests[test_count++] = {guard.value, guard.scale_a, guard.scale_b,
                             guard.test == protean::detail::Test::positive,
                             guard.factor(static_cast<double>(std::numeric_limits<T>::epsilon()))};
  }

  // After step number `step` of a batch: running[lane] := 0 if the lane has ended.
  PROTEAN_HOST_DEVICE void judge(int lane, int step, LaneJudgement& mine, T* running) const {
    if (step == 0) mine.steps = 0;
    if (running[lane] == T(0)) return;
    for (int s = 0; s < scalar_count; ++s) mine.last[s] = static_cast<double>(scalars[s][lane]);
    const double squared = mine.last[residual], norm = std::sqrt(squared);
    mine.residual_squared[step] = squared, mine.steps = step + 1, --mine.left;
    bool end = !std::isfinite(squared) || squared < 0 || norm <= mine.goal || norm > mine.too_large ||
               mine.left <= 0;
    for (int t = 0; t < test_count; ++t) {
      const Test& test = tests[t];
      const double value = mine.last[test.value];
      const double scale = test.scale_a < 0 ? 0
                                            : test.factor * std::sqrt(mine.last[test.scale_a]) *
                                                  std::sqrt(mine.last[test.scale_b]);
      end = end || !std::isfinite(value) || !(test.positive ? value > 0 : std::abs(value) > scale);
    }
    if (end) running[lane] = T(0);
  }
};

// Adds what a batch has left to `done`.
template <class T>
void add_batch(std::span<const LaneJudgement> lanes, typename MultiDeviceSteps<T>::Done& done) {
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const LaneJudgement& lane = lanes[l];
    for (int s = 0; s < lane.steps; ++s) done.residual_squared[l].push_back(lane.residual_squared[s]);
    if (lane.steps > 0)
      for (int s = 0; s < most_lane_scalars; ++s)
        done.last[l][static_cast<std::size_t>(s)] = static_cast<T>(lane.last[s]);
  }
}

// Steps on a simulated device that runs ahead, in batches as on a GPU: two of them are done before the host reads the
// first.
template <class T>
class SimulatedMultiSteps final : public MultiDeviceSteps<T> {
 public:
  using typename MultiDeviceSteps<T>::Limits;
  using typename MultiDeviceSteps<T>::Done;

  explicit SimulatedMultiSteps(const Context& context)
      : context_(context),
        batch_(static_cast<int>(std::min<std::int64_t>(most_batch, 1 + context.simulated()->steps_ahead()))) {
  }
  void start(const std::vector<Limits>& limits) override {
    in_flight_.clear(), judgement_.assign(limits.size(), {}), ahead_ = 0;
    for (std::size_t l = 0; l < limits.size(); ++l)
      judgement_[l].goal = limits[l].goal, judgement_[l].too_large = limits[l].too_large,
      judgement_[l].left = limits[l].left;
  }
  void next(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
            std::int64_t room, Done& done) override {
    done.reset(judgement_.size());
    while (in_flight_.size() < 2 && method.phase() < method.period() && ahead_ < room)
      queue(system, method, lanes, room - ahead_);
    take(done);
  }
  void settle(Done& done) override {
    done.reset(judgement_.size());
    while (!in_flight_.empty()) take(done);
  }

 private:
  struct Batch {
    std::vector<LaneJudgement> lanes;
    std::int64_t steps;
  };

  void queue(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
             std::int64_t room) {
    int step = 0;
    for (; step < batch_ && step < room && method.phase() < method.period(); ++step) {
      method.step(system, lanes);
      const DeviceWork work(context_, {method.running()});
      const LaneTests<T> tests(method);
      for (std::size_t l = 0; l < judgement_.size(); ++l)
        tests.judge(static_cast<int>(l), step, judgement_[l], method.running());
    }
    in_flight_.push_back({judgement_, step}), ahead_ += step;
  }
  void take(Done& done) {
    add_batch<T>(in_flight_.front().lanes, done);
    ahead_ -= in_flight_.front().steps;
    in_flight_.pop_front();
  }

  const Context& context_;
  const int batch_;
  std::vector<LaneJudgement> judgement_;
  std::deque<Batch> in_flight_;
  std::int64_t ahead_ = 0;  // steps in flight
};

}  // namespace protean::detail
