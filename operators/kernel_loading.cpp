#include "operators/kernel_loading.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace protean::detail {
namespace {

bool loads_kernels(const Context& context) noexcept {
  if (context.space() == Space::host || context.simulated()) return false;
  // Then all kernels were loaded at the beginning. So the CUDA driver reads this variable.
  static const bool at_once = [] {
    const char* const mode = std::getenv("CUDA_MODULE_LOADING");
    return mode && std::string_view(mode) == "EAGER";
  }();
  return !at_once;
}

// The formats of which the process has made a matrix, more than there are. Of fixed size, since a failed solve must not
// leave memory behind.
using Formats = std::array<std::atomic<const FormatEntry*>, 512>;
Formats& formats_of(std::size_t value_bytes) noexcept {
  static Formats of_single, of_double;
  return value_bytes == 4 ? of_single : of_double;
}

// Of all solves on devices, and of the formats that were chosen.
std::atomic<double> seconds_paid{0}, seconds_spent{0};
std::atomic<bool> surveyed{false};

// The part of these seconds that the solves have not paid for.
double unpaid(double seconds) noexcept {
  const double left =
      seconds_paid.load(std::memory_order_relaxed) - seconds_spent.load(std::memory_order_relaxed);
  return std::clamp(seconds - left, 0.0, seconds);
}

}  // namespace

bool needs_loading(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept {
  if (!loads_kernels(context)) return false;
  for (const std::atomic<const FormatEntry*>& seen : formats_of(value_bytes)) {
    const FormatEntry* const there = seen.load(std::memory_order_relaxed);
    if (there == &entry) return false;
    if (!there) break;
  }
  return true;
}

double loading_seconds(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept {
  return needs_loading(context, entry, value_bytes) ? unpaid(kernel_loading_seconds) : 0;
}

double first_survey_seconds(const Context& context) noexcept {
  return loads_kernels(context) && !surveyed.load(std::memory_order_relaxed) ? unpaid(survey_loading_seconds)
                                                                             : 0;
}

void count_survey(const Context& context) noexcept {
  if (loads_kernels(context) && !surveyed.exchange(true, std::memory_order_relaxed))
    seconds_spent.fetch_add(survey_loading_seconds, std::memory_order_relaxed);
}

void kernels_are_loaded(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept {
  if (!loads_kernels(context)) return;
  for (std::atomic<const FormatEntry*>& seen : formats_of(value_bytes)) {
    const FormatEntry* there = nullptr;
    if (seen.compare_exchange_strong(there, &entry) || there == &entry) return;
  }
}

void count_solve(const Context& context, double seconds) noexcept {
  if (loads_kernels(context)) seconds_paid.fetch_add(loading_share * seconds, std::memory_order_relaxed);
}
void count_loading() noexcept { seconds_spent.fetch_add(kernel_loading_seconds, std::memory_order_relaxed); }

}  // namespace protean::detail
