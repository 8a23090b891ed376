// Time measurement for `compare` and `tune`. Runs are repeated until their spread is small.
#pragma once
#include <functional>
#include <vector>

#include "core/context.hpp"

namespace protean::apps {

// Seconds of one run: median and quartiles of `runs` runs.
struct Timing {
  double median = 0, lower = 0, upper = 0;  // lower and upper quartile
  int runs = 0;
  double spread() const noexcept { return median > 0 ? (upper - lower) / median : 0; }
};

struct TimingLimits {
  int fewest = 3, most = 31;
  double seconds = 1;    // stop after this time, but not before `fewest` runs
  double spread = 0.02;  // or when the distance of the quartiles is below this part of the median
  double batch = 2e-3;   // work is repeated in batches of at least this long
};

// The seconds of one call of `work`. It is called once before, to warm up. Each batch ends by waiting for the
// context.
Timing measure(const Context& context, const std::function<void()>& work, const TimingLimits& limits = {});

Timing timing_of(std::vector<double> seconds);

// Bytes a second when one vector is copied to another; a copy of n numbers of 8 bytes counts 16 n bytes. The
// vectors have 128 MiB each on the host and 1 GiB on a device, or less where memory is short.
double copy_bandwidth(const ContextPtr& context);

}  // namespace protean::apps
