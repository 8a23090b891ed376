// What float holds of a double, on host and device. Private.
#pragma once
#include <cfloat>
#include <cmath>

#include "core/host_device.hpp"

namespace protean::detail {

constexpr double least_normal_float = 0x1p-126;

// Whether float holds the value as it is. Values that are not finite, and values below float's smallest normal number,
// do not count: a program may have the processor take these for zero.
PROTEAN_HOST_DEVICE inline bool is_exact_in_float(double value) {
  const double size = fabs(value);
  return static_cast<double>(static_cast<float>(value)) == value &&
         (value == 0 || (size >= least_normal_float && size <= DBL_MAX));
}

// Whether float cannot hold the value even rounded: it overflows, or it becomes zero or loses digits below float's
// smallest normal number. False for what is not finite.
PROTEAN_HOST_DEVICE inline bool is_beyond_float(double value) {
  if (value == 0 || !(fabs(value) <= DBL_MAX)) return false;
  const double rounded = fabs(static_cast<double>(static_cast<float>(value)));
  return rounded < least_normal_float || rounded > FLT_MAX;
}

}  // namespace protean::detail
