// How the rows of a matrix are shared out by their entries. No MPI here.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"

namespace protean::apps::ranks {

// The part of `parts` that has a row; `before` of the `entries` entries lie in earlier rows: parts get equal numbers of
// entries, to one row. Without entries (entries 0) it is part 0.
int part_of_row(std::int64_t before, std::int64_t entries, int parts) noexcept;
// The first row of each part, and the number of rows; parts + 1 numbers.
std::vector<std::int64_t> first_rows(const RowPointers& row_ptr, std::int64_t rows, int parts);

}  // namespace protean::apps::ranks
