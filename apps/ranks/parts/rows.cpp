#include "apps/ranks/parts/rows.hpp"

#include <algorithm>
#include <utility>

#include "interfaces/petsc/guard.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::must;

int owner_of(PetscInt column, std::span<const PetscInt> ranges) noexcept {
  return static_cast<int>(std::upper_bound(ranges.begin(), ranges.end(), column) - ranges.begin()) - 1;
}

// Ghosts, boundary rows and numbers of entries.
void find_ghosts(const RowArrays& own, PetscInt first, PetscInt end, detail::PartHalo& halo) {
  for (std::int64_t r = 0; r < own.rows(); ++r) {
    std::int64_t outside = 0;
    const auto begin = static_cast<std::size_t>(own.row_ptr[static_cast<std::size_t>(r)]),
               stop = static_cast<std::size_t>(own.row_ptr[static_cast<std::size_t>(r) + 1]);
    for (std::size_t k = begin; k < stop; ++k)
      if (own.col[k] < first || own.col[k] >= end) halo.ghosts.push_back(own.col[k]), ++outside;
    if (outside > 0) halo.boundary_rows.push_back(static_cast<std::int32_t>(r));
    halo.boundary_entries += outside;
    halo.interior_entries += static_cast<std::int64_t>(stop - begin) - outside;
  }
  std::sort(halo.ghosts.begin(), halo.ghosts.end());
  halo.ghosts.erase(std::unique(halo.ghosts.begin(), halo.ghosts.end()), halo.ghosts.end());
}

// For each rank: how many ghosts are its, or how many entries it needs; and where they begin in a list of all.
struct Lists {
  explicit Lists(int ranks) : counts(static_cast<std::size_t>(ranks), 0), begins(counts.size(), 0) {}
  int total() noexcept {
    int all = 0;
    for (std::size_t p = 0; p < counts.size(); ++p) begins[p] = all, all += counts[p];
    return all;
  }
  std::vector<int> counts, begins;
};

void make_blocks(const ContextPtr& host, const RowArrays& own, PetscInt first, PetscInt end, RankBlocks& to) {
  const detail::PartHalo& halo = to.halo;
  CsrBuilder<double> interior(host, own.rows(), own.rows(), halo.interior_entries);
  CsrBuilder<double> boundary(host, std::ssize(halo.boundary_rows), std::ssize(halo.ghosts),
                              halo.boundary_entries);
  std::int64_t inside = 0, outside = 0, boundary_row = 0;
  for (std::int64_t r = 0; r < own.rows(); ++r) {
    const std::int64_t before = outside;
    for (std::int64_t k = own.row_ptr[static_cast<std::size_t>(r)];
         k < own.row_ptr[static_cast<std::size_t>(r) + 1]; ++k) {
      const PetscInt column = own.col[static_cast<std::size_t>(k)];
      const double value = own.values[static_cast<std::size_t>(k)];
      if (column >= first && column < end) {
        interior.col()[inside] = column - first, interior.values()[inside++] = value;
      } else {
        const auto ghost = std::lower_bound(halo.ghosts.begin(), halo.ghosts.end(), column);
        boundary.col()[outside] = static_cast<std::int32_t>(ghost - halo.ghosts.begin());
        boundary.values()[outside++] = value;
      }
    }
    interior.set_row_ptr(r + 1, inside);
    if (outside > before) boundary.set_row_ptr(++boundary_row, outside);
  }
  to.interior = interior.freeze(), to.boundary = boundary.freeze();
}

}  // namespace

RowArrays rows_of(Mat A) {
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

std::unique_ptr<RankBlocks> blocks_of(const Ranks& ranks, const ContextPtr& host, const RowArrays& own,
                                      std::span<const PetscInt> ranges) {
  const auto self = static_cast<std::size_t>(ranks.rank());
  const PetscInt first = ranges[self], end = ranges[self + 1];
  auto blocks = std::make_unique<RankBlocks>();
  detail::PartHalo& halo = blocks->halo;
  Lists need(ranks.count()), send(ranks.count());
  std::vector<std::int32_t> sent;
  ranks.each([&] {
    find_ghosts(own, first, end, halo);
    for (const std::int32_t ghost : halo.ghosts)
      ++need.counts[static_cast<std::size_t>(owner_of(ghost, ranges))];
    (void)need.total();
  });
  MPI_Alltoall(need.counts.data(), 1, MPI_INT, send.counts.data(), 1, MPI_INT, ranks.comm());
  ranks.each([&] { sent.resize(static_cast<std::size_t>(send.total())); });
  MPI_Alltoallv(halo.ghosts.data(), need.counts.data(), need.begins.data(), MPI_INT32_T, sent.data(),
                send.counts.data(), send.begins.data(), MPI_INT32_T, ranks.comm());
  ranks.each([&] {
    for (std::size_t p = 0; p < need.counts.size(); ++p) {
      if (need.counts[p] == 0 && send.counts[p] == 0) continue;
      detail::HaloNeighbour& other = halo.neighbours.emplace_back();
      other.part = static_cast<int>(p);
      other.first_ghost = need.begins[p], other.ghosts = need.counts[p];
      for (int k = 0; k < send.counts[p]; ++k)
        other.send.push_back(sent[static_cast<std::size_t>(send.begins[p] + k)] - first);
    }
    make_blocks(host, own, first, end, *blocks);
  });
  return blocks;
}

}  // namespace protean::apps::ranks
