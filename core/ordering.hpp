// Orders of the rows of a matrix.
#pragma once
#include <cstdint>
#include <vector>

#include <protean/core/csr.hpp>

namespace protean {

// Reverse Cuthill-McKee: order[k] is the row at place k. For square host patterns; for an unsymmetric one the
// pattern of A + A^T is ordered. Each connected part begins at a row far from its middle (George and Liu,
// Computer Solution of Large Sparse Positive Definite Systems, 1981, section 4.3). Neighbours are sorted by
// increasing degree, equal ones by number, so the result is unique. Time O(nonzeros log longest). Workspace
// 13 bytes a row and 4 an entry; 5 bytes a row when the caller knows that the pattern is symmetric and passes
// known_symmetric = true. *bandwidth, unless null, becomes bandwidth_of() the pattern in that order, at no
// cost. Throws ShapeMismatch.
std::vector<std::int32_t> reverse_cuthill_mckee(const SparsityPattern& pattern, bool known_symmetric = false,
                                                std::int64_t* bandwidth = nullptr);

// Largest |place of i - place of j| over the entries (i, j), when row order[k] and column order[k] are at
// place k.
std::int64_t bandwidth_of(const SparsityPattern& pattern, const std::vector<std::int32_t>& order);

}  // namespace protean
