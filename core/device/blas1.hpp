// The device side of core/blas1.hpp: the same operations on device memory, arguments already checked.
// Private; CUDA builds only.
#pragma once
#include "core/blas1.hpp"

namespace protean::device {
#include "core/blas1_operations.def"
}  // namespace protean::device
