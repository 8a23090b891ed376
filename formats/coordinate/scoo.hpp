// The slices of scoo, which host and device cut alike. Private to formats/.
#pragma once
#include <bit>
#include <cstdint>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// Rows of a slice at most. Numbers of rows within a slice fit a byte.
constexpr std::int64_t scoo_highest = 256;

// How slices are cut: from each group of `height` rows, slices of height, height / 2, height / 4, ... rows, the
// highest whose mean is at most `entries` entries. height is a power of two.
struct ScooRule {
  std::int64_t height, entries;
  PROTEAN_HOST_DEVICE std::int64_t slice_height(std::int64_t group_entries) const {
    std::int64_t h = height;
    while (h > 1 && group_entries / (height / h) > entries) h /= 2;
    return h;
  }
};

// The power of two below stands for any other height.
inline ScooRule scoo_rule(const FormatParams& params) {
  return {static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(params.integer("height")))),
          params.integer("entries")};
}

}  // namespace protean::formats
