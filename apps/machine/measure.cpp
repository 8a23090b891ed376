#include "apps/machine/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/blas1.hpp"
#include "core/vector.hpp"
#include "operators/assembled_matrix.hpp"

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

double copy_bandwidth(const ContextPtr& context) {
  const bool device = context->space() == Space::device;
  const auto wanted = std::size_t{device ? 1u << 30 : 1u << 27};
  const auto n = static_cast<std::int64_t>(std::min(wanted, available_bytes(*context) / 8) / sizeof(double));
  if (n < 1) return 0;
  Vector<double> from(context, n), to(context, n);
  fill<double>(*context, 1, from);
  const Timing timing =
      measure(*context, [&] { copy<double>(*context, from, to); }, {.fewest = 5, .most = 11, .seconds = 0.5});
  return 2 * static_cast<double>(n) * sizeof(double) / timing.median;
}

}  // namespace protean::apps
