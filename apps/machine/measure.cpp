#include "apps/machine/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/blas1.hpp"
#include "core/vector.hpp"
#include "operators/assembled_matrix.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/cache.hpp"
#endif

namespace protean::apps {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Timing timing_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double part) {
    const double where = part * static_cast<double>(seconds.size() - 1);
    const auto below = static_cast<std::size_t>(where);
    const std::size_t above = std::min(below + 1, seconds.size() - 1);
    return seconds[below] + (where - static_cast<double>(below)) * (seconds[above] - seconds[below]);
  };
  return {at(0.5), at(0.25), at(0.75), static_cast<int>(seconds.size())};
}

Timing measure(const Context& context, const std::function<void()>& work, const TimingLimits& limits) {
  const double begun = now();
  work();
  context.synchronize();
  // The number of calls in a batch, from the time of a second call.
  double last = now();
  work();
  context.synchronize();
  const double one = std::max(now() - last, 1e-9);
  const int calls = static_cast<int>(std::clamp(std::ceil(limits.batch / one), 1.0, 1e5));
  std::vector<double> seconds;
  Timing timing;
  while (timing.runs < limits.most) {
    last = now();
    for (int k = 0; k < calls; ++k) work();
    context.synchronize();
    seconds.push_back((now() - last) / calls);
    timing = timing_of(seconds);
    if (timing.runs < limits.fewest) continue;
    if (now() - begun > limits.seconds || (timing.runs >= 7 && timing.spread() <= limits.spread)) break;
  }
  return timing;
}

namespace {

// The bandwidth of a copy between two vectors of that many bytes together; 0 if they are empty.
double copy_bandwidth(const ContextPtr& context, std::size_t bytes) {
  const auto n = static_cast<std::int64_t>(bytes / 2 / sizeof(double));
  if (n < 1) return 0;
  Vector<double> from(context, n), to(context, n);
  fill<double>(*context, 1, from);
  const Timing timing =
      measure(*context, [&] { copy<double>(*context, from, to); }, {.fewest = 5, .most = 11, .seconds = 0.5});
  return 2 * static_cast<double>(n) * sizeof(double) / timing.median;
}

struct Caches {
  std::size_t second = 0,
              last = 0;  // bytes of the second-level cache of one processor, and of the last level
};
Caches caches_of([[maybe_unused]] const Context& context) {
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device) return {0, context.simulated() ? 0 : device::cache_bytes(context)};
#endif
  Caches caches;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long second = sysconf(_SC_LEVEL2_CACHE_SIZE), third = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (second > 0 && third > 0) caches = {static_cast<std::size_t>(second), static_cast<std::size_t>(third)};
#endif
  return caches;
}

}  // namespace

double copy_bandwidth(const ContextPtr& context) {
  const bool device = context->space() == Space::device;
  const auto wanted = std::size_t{device ? 1u << 31 : 1u << 28};
  return copy_bandwidth(context, std::min(wanted, available_bytes(*context) / 4));
}

MeasuredRoof measure_roof(const ContextPtr& context) {
  const Caches caches = caches_of(*context);
  const bool device = context->space() == Space::device;
  MeasuredRoof roof{.space = context->space()};
  const std::size_t large = std::max(4 * caches.last, std::size_t{1} << 28);
  roof.memory = copy_bandwidth(context, std::min(large, available_bytes(*context) / 8));
  roof.cache_bytes =
      device ? caches.last / 2
             : std::min(4 * caches.second * static_cast<std::size_t>(context->threads()), caches.last / 2);
  roof.cache = copy_bandwidth(context, roof.cache_bytes);
  return roof;
}

}  // namespace protean::apps
