// The tests that end the run of a lane while steps of several columns are queued: the tests of Judge
// (core/device/judge.cuh) for each lane. The same function judges on a GPU (batches_device.cu) and on a simulated
// device (batches.cpp). Private to solvers/.
#pragma once
#include <cmath>
#include <limits>

#include "core/host_device.hpp"
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

}  // namespace protean::detail
