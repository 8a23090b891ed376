// Private: indices of callers that count from 1.
#pragma once
#include <limits>

namespace protean::detail {

// Counted from 0. The least number, which has none below it, stays: it is out of range before and after.
template <class Index>
constexpr Index less_one(Index from_one) noexcept {
  return from_one == std::numeric_limits<Index>::min() ? from_one : static_cast<Index>(from_one - 1);
}

}  // namespace protean::detail
