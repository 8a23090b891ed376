#include "preconditioners/factors/device/device_colours.hpp"

#include <algorithm>

#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::detail {
namespace {

// On a simulated device, whose memory is open: row after row. False as find_colours().
template <class Rule, class Pointer>
bool colour_rows(const ColouringRows<Pointer>& rows, std::int32_t most, std::int32_t* colour,
                 std::int32_t& count) {
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    if (!rows.is_mirrored(i, 0, 1)) return false;
    Rule rule;
    for (std::int64_t e = rows.ptr[i]; e < rows.ptr[i + 1] && rows.columns[e] < i; ++e)
      rule.see(colour[rows.columns[e]]);
    colour[i] = rule.own();
    if (colour[i] < 0 || colour[i] >= most) return false;
    count = std::max(count, colour[i] + 1);
  }
  return true;
}

template <class Pointer>
void order_rows(ColouringRows<Pointer> rows, const ContextPtr& device, std::int32_t count,
                ColouredRows& made) {
  const std::int64_t n = rows.rows;
  std::vector<std::int64_t> next(static_cast<std::size_t>(count) + 1, 0);
  for (std::int64_t i = 0; i < n; ++i) ++next[rows.colour[i] + 1];
  for (std::int32_t c = 0; c < count; ++c) next[c + 1] += next[c];
  made.first = next;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<std::int32_t>(next[rows.colour[i]]++);
    made.place.data()[i] = k, made.row.data()[k] = static_cast<std::int32_t>(i);
  }
  rows.row = made.row.data(), rows.place = made.place.data();
  std::int64_t *const lower = made.lower.data(), *const upper = made.upper.data();
  lower[0] = 0;
  for (std::int64_t k = 0; k < n; ++k)
    rows.count(k, lower[k + 1], upper[k + 1], 0, 1), lower[k + 1] += lower[k];
  upper[0] = lower[n];
  for (std::int64_t k = 0; k < n; ++k) upper[k + 1] += upper[k];
  for (const std::int64_t k : made.first)
    made.lower_first.push_back(lower[k]), made.upper_first.push_back(upper[k] - upper[0]);
  made.col = Buffer<std::int32_t>(device, upper[n]), made.key = Buffer<std::int32_t>(device, upper[n]);
  made.mirror = Buffer<std::int32_t>(device, lower[n]);
  for (std::int64_t k = 0; k < n; ++k) rows.fill(k, lower, upper, made.col.data(), made.key.data(), 0, 1);
  for (std::int64_t k = 0; k < n; ++k)
    for (std::int64_t p = lower[k]; p < lower[k + 1]; ++p)
      made.mirror.data()[p] = mirror_of(made.key.data(), upper, k, p);
}

std::optional<ColouredRows> ordered_rows(const ContextPtr& device, const SparsityPattern& pattern,
                                         bool levels, bool with_upper, std::int32_t most) {
  const std::int64_t n = pattern.rows;
  ColouredRows made;
  made.rows = n;
  made.row = Buffer<std::int32_t>(device, n), made.place = Buffer<std::int32_t>(device, n);
  made.lower = Buffer<std::int64_t>(device, n + 1), made.upper = Buffer<std::int64_t>(device, n + 1);
  Buffer<std::int32_t> colour(device, n);
  std::int32_t count = 0;
  if (device->simulated()) {
    const DeviceWork open(*device);
    const bool found = pattern.row_ptr.visit([&](const auto* ptr) {
      ColouringRows<std::remove_cvref_t<decltype(*ptr)>> rows;
      rows.rows = n, rows.ptr = ptr, rows.columns = pattern.col;
      rows.colour = colour.data(), rows.with_upper = with_upper;
      const bool all = levels ? colour_rows<NextLevel>(rows, most, colour.data(), count)
                              : colour_rows<FreeColour>(rows, most, colour.data(), count);
      if (!all) return false;
      order_rows(rows, device, count, made);
      return true;
    });
    if (!found) return std::nullopt;
    return made;
  }
#if defined(PROTEAN_HAVE_CUDA)
  if (!device::find_colours(device, pattern, levels, most, colour.data(), count)) return std::nullopt;
  device::order_by_colours(device, pattern, colour.data(), count, with_upper, made);
  return made;
#else
  return std::nullopt;
#endif
}

}  // namespace

std::optional<ColouredRows> colour_on_device(const ContextPtr& device, const SparsityPattern& pattern,
                                             bool with_upper, int most) {
  return ordered_rows(device, pattern, false, with_upper, std::min(most, most_colours_on_device));
}
std::optional<ColouredRows> levels_on_device(const ContextPtr& device, const SparsityPattern& pattern) {
  return ordered_rows(device, pattern, true, true, static_cast<std::int32_t>(pattern.rows));
}

}  // namespace protean::detail
