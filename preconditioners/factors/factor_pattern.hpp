// Where incomplete factors have entries. Private to preconditioners/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/csr.hpp"
#include "preconditioners/factors/colours.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {

// The columns of the factors off the diagonal, in the order of the rows: L has the columns below, U the columns above.
// An entry is kept if its level of fill is at most `fill`: 0 for entries of A, else the smallest lev(i,k) + lev(k,j) +
// 1 over the pivots k that make it (Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, algorithm
// 10.5). The stages are still to be found. Throws BadMatrix of preconditioner `name` if the entries, or the steps in
// which they are found, are too many to be worth it.
std::shared_ptr<SweepPattern> pattern_of_factors(const ContextPtr& host, const SparsityPattern& A,
                                                 std::int64_t fill, std::string_view name);
// The most steps (sums of products, at most) of factors with fill for a matrix of that many entries, and the most
// entries off the diagonal.
constexpr std::int64_t most_steps_of_fill(std::int64_t entries) {
  return std::max(std::int64_t{1} << 29, entries << 13);
}
// The most steps of a power of the pattern of factors with that many entries: it has that many entries at most.
constexpr std::int64_t most_steps_of_power(std::int64_t entries) {
  return std::max(std::int64_t{1} << 27, entries << 9);
}
constexpr std::int64_t most_entries_of_fill(std::int64_t entries) {
  return std::max(std::int64_t{1} << 26, entries << 6);
}
// The pattern of factors without fill if rows are eliminated colour after colour: L has the entries of earlier colours.
// Each colour is a stage.
std::shared_ptr<SweepPattern> pattern_by_colours(const ContextPtr& host, const SparsityPattern& A,
                                                 const Colours& colours);

// For each entry (i, k) of L of a symmetric pattern, how many entries of row k of U lie before (k, i).
Buffer<std::int32_t> mirrors_of(const ContextPtr& host, const SweepPattern& pattern);

// What a factorization on a host keeps of its pattern in addition to the columns.
struct FactorPlan {
  Buffer<std::int32_t> mirror;  // mirrors_of() the pattern of a symmetric matrix, else empty
  // 1 if row k of U has the columns of row k + 1 and k + 1 itself: unknowns of one node. Such rows are subtracted from
  // a later row together. Empty if no row is like that, or rows are eliminated colour after colour.
  Buffer<std::uint8_t> like_next;
  std::size_t bytes() const noexcept { return mirror.bytes() + like_next.bytes(); }
};
FactorPlan plan_factors(const ContextPtr& host, const SweepPattern& pattern, bool symmetric);

}  // namespace protean::detail
