// What the first matrix of a format in a process costs on a device. Private to the library.
#pragma once
#include <cstddef>

#include "core/context.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::detail {

// The driver loads each kernel when it is used first, those of a conversion and of products in 4 to 12 ms (an H200,
// docs/results/default-gpu.md), as long as 20 to 50 conversions.
inline constexpr double kernel_loading_seconds = 8e-3;

// Seconds that a matrix of this format, with values of so many bytes, takes longer in this context than a later one: 0
// on a host, and where the process has made one before.
double loading_seconds(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept;
// A matrix of this format was made in the context.
void kernels_are_loaded(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept;

}  // namespace protean::detail
