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
// vectors have 128 MiB each on the host and 1 GiB on a device, or less if memory is short.
double copy_bandwidth(const ContextPtr& context);

// What bounds a product in a space, as S. Williams et al. have it (Roofline, CACM 52(4), 2009): bytes per second when
// one vector is copied to another; a copy of n numbers of 8 bytes counts 16 n bytes.
struct MeasuredRoof {
  Space space = Space::host;
  double memory = 0;  // vectors that fit into no cache
  double cache = 0;   // vectors in the last-level cache, beyond the caches before it; 0: not measured
  std::size_t cache_bytes = 0;  // both of the latter vectors
};

// The roofs of the memory and of the last-level cache (L2 on a device), for the threads of the context. The vectors in
// memory have four times the bytes of that cache together, 256 MiB at least and an eighth of the free memory at most.
// Those in the cache have four times the bytes of the second-level caches of the threads together, and a half of the
// last-level cache at most; a half of L2 on a device. If the system does not report its caches, `cache` stays 0.
MeasuredRoof measure_roof(const ContextPtr& context);

}  // namespace protean::apps
