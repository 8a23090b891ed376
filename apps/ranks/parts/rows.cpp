#include "apps/ranks/parts/rows.hpp"

#include <utility>

#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {

RowArrays rows_of(Mat A) {
  using protean_types::must;
  PetscInt first = 0, end = 0;
  must(MatGetOwnershipRange(A, &first, &end));
  RowArrays own;
  own.row_ptr.reserve(static_cast<std::size_t>(end - first) + 1);
  for (PetscInt r = first; r < end; ++r) {
    PetscInt count = 0;
    const PetscInt* col = nullptr;
    const double* values = nullptr;
    must(MatGetRow(A, r, &count, &col, &values));
    own.col.insert(own.col.end(), col, col + count);
    own.values.insert(own.values.end(), values, values + count);
    own.row_ptr.push_back(static_cast<std::int64_t>(own.col.size()));
    must(MatRestoreRow(A, r, &count, &col, &values));
  }
  return own;
}

std::unique_ptr<RankBlocks> blocks_of(const Ranks& ranks, detail::Communicator& link, const ContextPtr& host,
                                      const RowArrays& own, std::span<const PetscInt> ranges) {
  const std::vector<std::int64_t> begins(ranges.begin(), ranges.end());
  const auto self = static_cast<std::size_t>(ranks.rank());
  const std::int64_t first = begins[self], end = begins[self + 1];
  auto blocks = std::make_unique<RankBlocks>();
  ranks.each([&] { blocks->halo = detail::halo_without_neighbours(own, first, end); });
  ranks.all([&] { detail::find_neighbours(link, begins, blocks->halo); });
  ranks.each([&] {
    auto [interior, boundary] = detail::blocks_of_rows(host, own, blocks->halo, first, end);
    blocks->interior = std::move(interior), blocks->boundary = std::move(boundary);
  });
  return blocks;
}

}  // namespace protean::apps::ranks
