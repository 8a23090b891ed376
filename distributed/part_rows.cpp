#include "distributed/part_rows.hpp"

#include <algorithm>
#include <utility>

#include "distributed/messages.hpp"

namespace protean::detail {

int part_of_place(std::span<const std::int64_t> begins, std::int64_t place) noexcept {
  return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), place) - begins.begin()) - 1;
}

template <class T>
PartHalo halo_without_neighbours(const PartRows<T>& rows, std::int64_t begin, std::int64_t end) {
  PartHalo halo;
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    std::int64_t outside = 0;
    const auto row = rows.row(r);
    for (const std::int32_t column : row)
      if (column < begin || column >= end) halo.ghosts.push_back(column), ++outside;
    if (outside > 0) halo.boundary_rows.push_back(static_cast<std::int32_t>(r));
    halo.boundary_entries += outside;
    halo.interior_entries += std::ssize(row) - outside;
  }
  std::sort(halo.ghosts.begin(), halo.ghosts.end());
  halo.ghosts.erase(std::unique(halo.ghosts.begin(), halo.ghosts.end()), halo.ghosts.end());
  return halo;
}

void find_neighbours(Communicator& all, std::span<const std::int64_t> begins, PartHalo& halo) {
  const auto parts = static_cast<std::size_t>(all.parts());
  std::vector<std::vector<std::int32_t>> needed(parts);
  for (const std::int32_t ghost : halo.ghosts)
    needed[static_cast<std::size_t>(part_of_place(begins, ghost))].push_back(ghost);
  std::vector<PartMessage> to(parts);
  for (std::size_t p = 0; p < parts; ++p)
    if (!needed[p].empty()) write(to[p], std::span<const std::int32_t>(needed[p]));
  const std::vector<PartMessage> from = all.exchanged(std::move(to));
  const std::int64_t begin = begins[static_cast<std::size_t>(all.part())];
  std::int64_t next = 0;
  for (std::size_t p = 0; p < parts; ++p) {
    if (needed[p].empty() && from[p].empty()) continue;
    HaloNeighbour& other = halo.neighbours.emplace_back();
    other.part = static_cast<int>(p);
    other.first_ghost = next, other.ghosts = std::ssize(needed[p]);
    next += other.ghosts;
    if (from[p].empty()) continue;
    MessageReader reader(from[p]);
    for (const std::int32_t place : reader.read<std::int32_t>())
      other.send.push_back(static_cast<std::int32_t>(place - begin));
  }
}

template <class T>
TwoBlocks<T> blocks_of_rows(const ContextPtr& host, const PartRows<T>& rows, const PartHalo& halo,
                            std::int64_t begin, std::int64_t end) {
  CsrBuilder<T> interior(host, rows.rows(), end - begin, halo.interior_entries);
  CsrBuilder<T> boundary(host, std::ssize(halo.boundary_rows), std::ssize(halo.ghosts),
                         halo.boundary_entries);
  std::int64_t inside = 0, outside = 0, boundary_row = 0;
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    const std::int64_t before = outside;
    for (auto k = static_cast<std::size_t>(rows.row_ptr[static_cast<std::size_t>(r)]);
         k < static_cast<std::size_t>(rows.row_ptr[static_cast<std::size_t>(r) + 1]); ++k) {
      const std::int32_t column = rows.col[k];
      if (column >= begin && column < end) {
        interior.col()[inside] = static_cast<std::int32_t>(column - begin);
        interior.values()[inside++] = rows.values[k];
      } else {
        const auto ghost = std::lower_bound(halo.ghosts.begin(), halo.ghosts.end(), column);
        boundary.col()[outside] = static_cast<std::int32_t>(ghost - halo.ghosts.begin());
        boundary.values()[outside++] = rows.values[k];
      }
    }
    interior.set_row_ptr(r + 1, inside);
    if (outside > before) boundary.set_row_ptr(++boundary_row, outside);
  }
  return {interior.freeze(), boundary.freeze()};
}

template <class T>
PartRows<T> rows_of_blocks(const CsrMatrix<T>& interior, const CsrMatrix<T>& boundary, const PartHalo& halo,
                           std::int64_t begin) {
  PartRows<T> made;
  const auto entries = static_cast<std::size_t>(interior.nonzeros() + boundary.nonzeros());
  made.col.reserve(entries), made.values.reserve(entries);
  std::size_t next = 0;  // boundary row
  for (std::int64_t r = 0; r < interior.rows(); ++r) {
    const SparsityPattern &own = interior.pattern, &other = boundary.pattern;
    std::int64_t k = 0, last = 0;
    if (next < halo.boundary_rows.size() && halo.boundary_rows[next] == r)
      k = other.row_ptr[static_cast<std::int64_t>(next)],
      last = other.row_ptr[static_cast<std::int64_t>(next) + 1], ++next;
    const auto place = [&] { return halo.ghosts[static_cast<std::size_t>(other.col[k])]; };
    const auto add = [&](std::int32_t column, T value) {
      made.col.push_back(column), made.values.push_back(value);
    };
    for (; k < last && place() < begin; ++k) add(place(), boundary.values[k]);
    for (std::int64_t i = own.row_ptr[r]; i < own.row_ptr[r + 1]; ++i)
      add(static_cast<std::int32_t>(begin + own.col[i]), interior.values[i]);
    for (; k < last; ++k) add(place(), boundary.values[k]);
    made.row_ptr.push_back(std::ssize(made.col));
  }
  return made;
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template PartHalo halo_without_neighbours<T>(const PartRows<T>&, std::int64_t, std::int64_t);     \
  template TwoBlocks<T> blocks_of_rows<T>(const ContextPtr&, const PartRows<T>&, const PartHalo&,   \
                                          std::int64_t, std::int64_t);                              \
  template PartRows<T> rows_of_blocks<T>(const CsrMatrix<T>&, const CsrMatrix<T>&, const PartHalo&, \
                                         std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
