// How long a GPU works, by its own clock.
#pragma once
#include <functional>
#include <optional>

#include "core/context.hpp"

namespace protean::detail {

// Whether device_seconds() measures in this context: it is one of a GPU.
bool has_device_clock(const Context& context) noexcept;

// Calls `queue`, which queues work on the context's stream, and returns the seconds between its begin and its end on
// the GPU. The host waits for them. The GPU is not idle between work that was queued before and this, so a few products
// are enough. Nothing if there is no such clock; then `queue` is not called. Throws DeviceError, and what `queue`
// throws.
std::optional<double> device_seconds(const Context& context, const std::function<void()>& queue);

}  // namespace protean::detail
