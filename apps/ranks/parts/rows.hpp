// The blocks of a rank's rows, and what a product sends: as halos_of() and PartBlocks, but no rank has the pattern of
// other ranks.
#pragma once
#include <petscmat.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/ranks/agree.hpp"
#include "core/csr.hpp"
#include "distributed/halo.hpp"

namespace protean::apps::ranks {

// Rows in CSR with the columns of the whole matrix, ascending in each row.
struct RowArrays {
  std::vector<std::int64_t> row_ptr = {0};
  std::vector<PetscInt> col;
  std::vector<double> values;
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(row_ptr.size()) - 1; }
};

// The rows of A that this rank has. Not collective; throws OutOfMemory, NotAvailable for too many entries.
RowArrays rows_of(Mat A);

struct RankBlocks {
  detail::PartHalo halo;
  CsrMatrix<double> interior, boundary;
};

// The halo and the blocks. ranges: the first row of each rank, and the number of all rows. Collective; throws what
// Ranks::each() does.
std::unique_ptr<RankBlocks> blocks_of(const Ranks& ranks, const ContextPtr& host, const RowArrays& own,
                                      std::span<const PetscInt> ranges);

}  // namespace protean::apps::ranks
