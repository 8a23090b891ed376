#include "core/device_timer.hpp"

#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/streams.hpp"
#endif

namespace protean::detail {

bool has_device_clock([[maybe_unused]] const Context& context) noexcept {
#if defined(PROTEAN_HAVE_CUDA)
  return context.space() == Space::device && !context.simulated();
#else
  return false;
#endif
}

std::optional<double> device_seconds([[maybe_unused]] const Context& context,
                                     [[maybe_unused]] const std::function<void()>& queue) {
#if defined(PROTEAN_HAVE_CUDA)
  if (has_device_clock(context)) return device::seconds_between(context, queue);
#endif
  return {};
}

}  // namespace protean::detail
