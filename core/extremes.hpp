// The smallest and the largest entry of a vector. Private.
#pragma once
#include "core/vector.hpp"

namespace protean::detail {

template <class T>
struct Extremes {
  T least, most;
};
// NaN is left out. Of a vector without such entries: least is infinite, and most is -infinite. One pass in the space of
// v, for which the caller waits. Throws OutOfMemory on a device.
template <class T>
Extremes<T> extremes(const Context& context, VectorView<const T> v);

}  // namespace protean::detail
