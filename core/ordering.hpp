// Orders of the rows of a matrix.
#pragma once
#include <cstdint>
#include <vector>

#include <protean/core/csr.hpp>

namespace protean {

// Reverse Cuthill-McKee: order[k] is the row that comes at place k. Square host patterns; of an unsymmetric
// one the pattern of A + A^T is ordered. Each connected part begins at a row far from its middle (George and
// Liu, Computer Solution of Large Sparse Positive Definite Systems, 1981, section 4.3); neighbours come by
// growing degree, equal ones by number, so the result is unique. Time O(nonzeros log longest); 13 bytes a row
// and 4 an entry of workspace, 5 bytes a row where the caller knows the pattern to be symmetric and says so.
// *bandwidth, where wanted, becomes bandwidth_of() the pattern in that order, at no cost.
// Throws ShapeMismatch.
std::vector<std::int32_t> reverse_cuthill_mckee(const SparsityPattern& pattern, bool known_symmetric = false,
                                                std::int64_t* bandwidth = nullptr);

// Largest |place of i - place of j| over the entries (i, j) when row order[k] and column order[k] come at
// place k.
std::int64_t bandwidth_of(const SparsityPattern& pattern, const std::vector<std::int32_t>& order);

}  // namespace protean
