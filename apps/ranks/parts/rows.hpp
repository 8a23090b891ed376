// The blocks of a rank's rows, and what a product sends: as halos_of() and PartBlocks, but no rank has the pattern of
// other ranks.
#pragma once
#include <petscmat.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/ranks/agree.hpp"
#include "core/communicator.hpp"
#include "core/csr.hpp"
#include "distributed/halo.hpp"
#include "distributed/part_rows.hpp"

namespace protean::apps::ranks {

// Rows with the columns of the whole matrix.
using RowArrays = detail::PartRows<double>;

// The rows of A that this rank has. Not collective; throws OutOfMemory, NotAvailable for too many entries.
RowArrays rows_of(Mat A);

struct RankBlocks {
  detail::PartHalo halo;
  CsrMatrix<double> interior, boundary;
};

// The halo and the blocks. ranges: the first row of each rank, and the number of all rows. Collective; throws what
// Ranks::each() does.
std::unique_ptr<RankBlocks> blocks_of(const Ranks& ranks, detail::Communicator& link, const ContextPtr& host,
                                      const RowArrays& own, std::span<const PetscInt> ranges);

}  // namespace protean::apps::ranks
