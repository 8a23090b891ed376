// Copies of bytes and patterns between the spaces of a device context, by name. Private.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/context.hpp"
#include "core/csr.hpp"

namespace protean::detail {

// Copies from memory of one space to memory of another; either may be the memory of the context's device. The host
// memory may be used again when it returns. Throws NotAvailable when the context has no device, and
// WrongSpace for a simulated device when an address does not lie in the given space.
void copy_bytes(const Context& context, void* to, Space to_space, const void* from, Space from_space,
                std::size_t bytes);

// download() of a pattern alone: 4 bytes an entry and 4 (or 8) a row of host memory.
SparsityPattern download_pattern(const ContextPtr& host, const Context& device,
                                 const SparsityPattern& pattern);

// The row that has entry k of a pattern in memory of the context, as row_of_entry() of core/csr.hpp. On a device it
// reads O(log rows) numbers one after another.
std::int64_t row_of_entry(const Context& context, const SparsityPattern& pattern, std::int64_t k);

// The columns of some rows of a pattern in memory of the context. Row i of `rows` has columns[begin[i]] up to
// columns[begin[i + 1]]. On a device they are gathered there, and the host waits for the device at least twice.
struct RowsRead {
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> columns;
};
void read_rows(const Context& context, const SparsityPattern& pattern, std::span<const std::int32_t> rows,
               RowsRead& to);

}  // namespace protean::detail
