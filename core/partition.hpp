// Parts of the rows of a matrix. Private.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/csr.hpp"

namespace protean::detail {

// Why this build has no METIS, and what to do; empty if it has it.
std::string_view no_metis() noexcept;

// The part of each row, 0 .. parts - 1, by METIS' k-way partition (Karypis and Kumar, "A Fast and High Quality
// Multilevel Scheme for Partitioning Irregular Graphs", SIAM J. Sci. Comput. 20, 1998) of the pattern of A + A^T
// without its diagonal, which lies in host memory: parts of about equal size, few entries between them. A part may be
// empty. One thread; a fixed seed. Throws NotAvailable in a build without METIS, ShapeMismatch, OutOfMemory, and
// BadMatrix for a pattern with more entries than METIS can count. `instead`: what to do then, for the message.
std::vector<std::int32_t> metis_parts(const Context& context, const SparsityPattern& pattern,
                                      std::int64_t parts, std::string_view instead);

}  // namespace protean::detail
