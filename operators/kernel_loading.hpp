// What the first matrix of a format, and the first look at a matrix, in a process cost on a device. Private to the
// library.
#pragma once
#include <cstddef>

#include "core/context.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::detail {

// The driver loads each kernel when it is used first: the kernels of a conversion and of products in 4 to 12 ms (an
// H200, docs/results/switching.md), as long as 20 to 50 conversions.
inline constexpr double kernel_loading_seconds = 8e-3;

// The first survey of a matrix on a device reads the built-in table and loads the kernels that take its sample. Next to
// a solve that holds it up for 5 to 6 ms (an H200, docs/results/switching.md).
inline constexpr double survey_loading_seconds = 6e-3;

// A process that has solved for long is expected to go on: this part of what its solves on devices took pays for
// loading, as the policy's account pays for a change within a solve.
inline constexpr double loading_share = 0.05;

// Whether a matrix of this format, with values of that many bytes, takes longer in this context than a later one: not
// on a host, and not if the process has made one before.
bool needs_loading(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept;
// Seconds of that which the solves of the process have not paid for; 0 if nothing needs loading.
double loading_seconds(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept;
// A matrix of this format was made in the context.
void kernels_are_loaded(const Context& context, const FormatEntry& entry, std::size_t value_bytes) noexcept;
// Seconds of the first survey in this context which the solves of the process have not paid for; 0 on a host, and after
// one was made.
double first_survey_seconds(const Context& context) noexcept;
// A matrix was surveyed in the context. The first time spends what the solves have paid.
void count_survey(const Context& context) noexcept;
// A solve took so long.
void count_solve(const Context& context, double seconds) noexcept;
// A format that needed loading was chosen: what the solves have paid is spent.
void count_loading() noexcept;

}  // namespace protean::detail
