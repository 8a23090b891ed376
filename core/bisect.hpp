// Bisection, on the host and in kernels. Private.
#pragma once
#include "core/host_device.hpp"

namespace protean {

// The first index from `low` to `high` - 1 for which found(index) is true; `high` if there is none. If found() is true
// for an index, it is true for all later indices.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Index, class Found>
PROTEAN_HOST_DEVICE inline Index first_where(Index low, Index high, Found found) {
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (found(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace protean
