// Where incomplete factors have entries. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <memory>

#include "core/csr.hpp"
#include "preconditioners/colours.hpp"
#include "preconditioners/sweeps.hpp"

namespace protean::detail {

// The columns of the factors off the diagonal, in the order of the rows: L has those below, U those above. An entry is
// kept where its level of fill is at most `fill`: 0 for entries of A, else the smallest lev(i,k) + lev(k,j) + 1 over
// the pivots k that make it (Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, algorithm 10.5).
// The stages are still to be found.
std::shared_ptr<SweepPattern> pattern_of_factors(const ContextPtr& host, const SparsityPattern& A,
                                                 std::int64_t fill);
// Those of factors without fill where rows are eliminated colour after colour: L has the entries of earlier colours.
// Each colour is a stage.
std::shared_ptr<SweepPattern> pattern_by_colours(const ContextPtr& host, const SparsityPattern& A,
                                                 const Colours& colours);

// For each entry (i, k) of L of a symmetric pattern, how many entries of row k of U lie before (k, i).
Buffer<std::int32_t> mirrors_of(const ContextPtr& host, const SweepPattern& pattern);

}  // namespace protean::detail
