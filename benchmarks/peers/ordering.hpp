// Reverse Cuthill-McKee of the Boost Graph Library, which a user can call before a solve today.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"

namespace protean::bench {

// Whether the library is in this build.
bool have_boost_rcm();

// The new order of the rows of a square host matrix with a symmetric pattern: entry i is the old row at position i. The
// pattern is copied into a graph of the library first. One thread, as the library is. Each part begins at a node that
// the library finds to be peripheral.
std::vector<std::int32_t> boost_rcm(const SparsityPattern& pattern);

}  // namespace protean::bench
