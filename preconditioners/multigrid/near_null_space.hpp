// Vectors near the null space of a matrix, as amg takes them. Private to preconditioners/ and the command.
#pragma once
#include <cstdint>
#include <vector>

#include "core/multi_vector.hpp"

namespace protean::detail {

// The vectors of a matrix with this many rows: vector k of row i at i vectors + k, each scaled so that the squares of
// its entries neither overflow nor vanish. Throws ShapeMismatch for another number of rows, WrongSpace, and BadArgument
// unless there are 1 to 64 of them, all entries are finite and the vectors are linearly independent.
std::vector<double> near_null_space_of(std::int64_t rows, MultiVectorView<const double> given);

}  // namespace protean::detail
