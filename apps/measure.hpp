// Timing for `compare` and `tune`: repeated until the spread is known.
#pragma once
#include <functional>
#include <vector>

#include "core/context.hpp"

namespace protean::apps {

// Seconds of one run: the median of `runs` runs and the middle half of them.
struct Timing {
  double median = 0, lower = 0, upper = 0;  // lower and upper quartile
  int runs = 0;
  double spread() const noexcept { return median > 0 ? (upper - lower) / median : 0; }
};

struct TimingLimits {
  int fewest = 3, most = 31;
  double seconds = 1;    // stop after this long, but not before `fewest` runs
  double spread = 0.02;  // or when the middle half is this narrow
  double batch = 2e-3;   // work is repeated in batches of at least this long
};

// How long `work` takes, one call of it; it is called once first to warm up. Waits for the context at the end
// of each batch.
Timing measure(const Context& context, const std::function<void()>& work, const TimingLimits& limits = {});

Timing timing_of(std::vector<double> seconds);

// Bytes a second of a copy of one vector to another, 16 n bytes counted for n numbers of 8: vectors of
// 128 MiB each on the host, 1 GiB on a device, less where memory is short.
double copy_bandwidth(const ContextPtr& context);

}  // namespace protean::apps
