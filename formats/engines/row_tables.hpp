// What the host and the device side of formats on csr's arrays have in common: limits, parameters and bytes. Private to
// formats/.
#pragma once
#include <cstdint>
#include <string>

#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// The bytes of csr, which formats with tables beside the caller's arrays predict first.
inline std::size_t csr_bytes(const SparsityPattern& pattern, std::size_t value_bytes) {
  return pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes;
}

// Limits of a row block, see row_blocks() in rows.hpp.
constexpr std::int64_t block_rows_most = 256, block_section = 4096, block_entries_most = 2048;
// Why csr-stream refuses.
std::string stream_refusal(std::int64_t longest, std::int64_t most_entries);
constexpr ParamDoc block_entries_param{.name = "S",
                                       .doc = "most entries of a block of several rows",
                                       .default_value = "1024",
                                       .smallest = 1,
                                       .largest = block_entries_most};

constexpr int most_ranges = 256;  // partial sums of a product lie on the stack
constexpr ParamDoc ranges_param{
    .name = "parts",
    .doc = "ranges of rows; 0: one for each thread, on a device eight for each processor",
    .default_value = "0",
    .smallest = 0,
    .largest = most_ranges};

}  // namespace protean::formats
