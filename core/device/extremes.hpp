// The device side of extremes() (core/extremes.hpp). Private; CUDA builds only.
#pragma once
#include "core/extremes.hpp"

namespace protean::device {

template <class T>
detail::Extremes<T> extremes(const Context& context, VectorView<const T> v);

}  // namespace protean::device
