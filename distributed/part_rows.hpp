// The rows of one part of a matrix that no part has as a whole. Columns are places of a partition (Partition): of the
// partition of the rows, or of another one if the matrix is rectangular. begins: the first place of each part, and the
// number of all. Private.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/communicator.hpp"
#include "core/csr.hpp"
#include "distributed/halo.hpp"

namespace protean::detail {

template <class T>
struct PartRows {
  std::vector<std::int64_t> row_ptr = {0};
  std::vector<std::int32_t> col;  // ascending in each row
  std::vector<T> values;
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(row_ptr.size()) - 1; }
  std::span<const std::int32_t> row(std::int64_t r) const noexcept {
    const auto begin = static_cast<std::size_t>(row_ptr[static_cast<std::size_t>(r)]);
    return {col.data() + begin, static_cast<std::size_t>(row_ptr[static_cast<std::size_t>(r) + 1]) - begin};
  }
};

// The part that has a place.
int part_of_place(std::span<const std::int64_t> begins, std::int64_t place) noexcept;

// The ghosts, the boundary rows and the numbers of entries of these rows. Own columns are begin .. end - 1.
template <class T>
PartHalo halo_without_neighbours(const PartRows<T>& rows, std::int64_t begin, std::int64_t end);
// Adds the neighbours. Collective.
void find_neighbours(Communicator& all, std::span<const std::int64_t> begins, PartHalo& halo);

template <class T>
struct TwoBlocks {
  CsrMatrix<T> interior, boundary;
};
// In host memory, numbered as in PartBlocks.
template <class T>
TwoBlocks<T> blocks_of_rows(const ContextPtr& host, const PartRows<T>& rows, const PartHalo& halo,
                            std::int64_t begin, std::int64_t end);
// The rows of which these are the blocks; begin: the place of column 0 of the interior block.
template <class T>
PartRows<T> rows_of_blocks(const CsrMatrix<T>& interior, const CsrMatrix<T>& boundary, const PartHalo& halo,
                           std::int64_t begin);

}  // namespace protean::detail
