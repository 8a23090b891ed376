// Vector operations by Kokkos: the same as in core/blas1.hpp, on the host or on a device, for contexts with
// VectorKernels::kokkos. Arguments are checked already. Private; builds with Kokkos only.
#pragma once
#include "core/blas1.hpp"

namespace protean::kokkos {

// Runs one kernel and one reduction in a device context that has just been made, so that neither Kokkos nor CUDA
// has to allocate while a solve is recorded.
void prepare(const Context&);

#include "core/blas1_operations.def"
}  // namespace protean::kokkos
