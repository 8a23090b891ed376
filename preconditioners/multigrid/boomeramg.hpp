// What amg asks of a matrix before hypre sees it. Private to preconditioners/.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "core/error.hpp"

namespace protean::detail {

// Throws BadMatrix if hypre cannot count that many rows or entries in its integers Int.
template <class Int>
void require_countable(std::int64_t rows, std::int64_t entries) {
  constexpr auto most = static_cast<std::int64_t>(std::numeric_limits<Int>::max());
  if (rows <= most && entries <= most) return;
  throw BadMatrix(fmt::format(
      "amg: the matrix has {} rows and {} entries with its diagonal, and this hypre counts up to {}; use "
      "another preconditioner, or a hypre that counts in 64 bits (HYPRE_ROOT)",
      rows, entries, most));
}

}  // namespace protean::detail
