#include "distributed/halo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.hpp"

namespace protean::detail {

std::int64_t PartHalo::sent() const noexcept {
  std::int64_t count = 0;
  for (const HaloNeighbour& one : neighbours) count += std::ssize(one.send);
  return count;
}

std::vector<PartHalo> halos_of(const SparsityPattern& pattern, const Partition& partition) {
  if (pattern.rows != partition.rows() || pattern.cols != partition.rows())
    throw ShapeMismatch(fmt::format("the partition has {} rows; the matrix is {} x {}", partition.rows(),
                                    pattern.rows, pattern.cols));
  const int parts = partition.parts();
  std::vector<PartHalo> halos(static_cast<std::size_t>(parts));
  for (int p = 0; p < parts; ++p) {
    PartHalo& halo = halos[static_cast<std::size_t>(p)];
    const std::int64_t begin = partition.begin(p), end = partition.begin(p + 1);
    std::int32_t row = 0;
    for (const std::int32_t r : partition.rows_of(p)) {
      std::int64_t outside = 0;
      for (const std::int32_t j : pattern.row(r)) {
        const std::int32_t place = partition.place(j);
        if (place >= begin && place < end) continue;
        halo.ghosts.push_back(place), ++outside;
      }
      if (outside > 0) halo.boundary_rows.push_back(row);
      halo.boundary_entries += outside, halo.interior_entries += pattern.row_length(r) - outside;
      ++row;
      // Dense rows would make the list as long as their entries.
      if (std::ssize(halo.ghosts) > 2 * partition.rows()) {
        std::sort(halo.ghosts.begin(), halo.ghosts.end());
        halo.ghosts.erase(std::unique(halo.ghosts.begin(), halo.ghosts.end()), halo.ghosts.end());
      }
    }
    std::sort(halo.ghosts.begin(), halo.ghosts.end());
    halo.ghosts.erase(std::unique(halo.ghosts.begin(), halo.ghosts.end()), halo.ghosts.end());
  }
  // needed[q][p]: the ghosts of p that q has.
  const auto neighbour = [&](int of, int other) -> HaloNeighbour& {
    std::vector<HaloNeighbour>& list = halos[static_cast<std::size_t>(of)].neighbours;
    const auto at = std::lower_bound(list.begin(), list.end(), other,
                                     [](const HaloNeighbour& one, int part) { return one.part < part; });
    if (at != list.end() && at->part == other) return *at;
    return *list.insert(at, HaloNeighbour{other, {}, 0, 0});
  };
  for (int p = 0; p < parts; ++p) {
    const std::vector<std::int32_t>& ghosts = halos[static_cast<std::size_t>(p)].ghosts;
    for (std::size_t first = 0; first < ghosts.size();) {
      const int q = partition.part_of_place(ghosts[first]);
      std::size_t end = first;
      while (end < ghosts.size() && ghosts[end] < partition.begin(q + 1)) ++end;
      HaloNeighbour& receives = neighbour(p, q);
      receives.first_ghost = static_cast<std::int64_t>(first),
      receives.ghosts = static_cast<std::int64_t>(end - first);
      HaloNeighbour& sends = neighbour(q, p);
      for (std::size_t i = first; i < end; ++i)
        sends.send.push_back(static_cast<std::int32_t>(ghosts[i] - partition.begin(q)));
      first = end;
    }
  }
  // A neighbour that only receives has no ghosts here; its place is where they would be.
  for (PartHalo& halo : halos) {
    std::int64_t next = 0;
    for (HaloNeighbour& one : halo.neighbours) {
      one.first_ghost = next;
      next += one.ghosts;
    }
  }
  return halos;
}

template <class T>
PartBlocks<T>::PartBlocks(const ContextPtr& host, const CsrMatrix<T>& csr, const Partition& partition,
                          const PartHalo& halo, int part) {
  const SparsityPattern& pattern = csr.pattern;
  const std::int64_t begin = partition.begin(part), end = partition.begin(part + 1),
                     rows = partition.size(part);
  CsrBuilder<T> interior(host, rows, rows, halo.interior_entries);
  CsrBuilder<T> boundary(host, std::ssize(halo.boundary_rows), std::ssize(halo.ghosts),
                         halo.boundary_entries);
  from_interior_.reserve(static_cast<std::size_t>(halo.interior_entries));
  from_boundary_.reserve(static_cast<std::size_t>(halo.boundary_entries));
  struct Ghost {
    std::int32_t number;
    std::int64_t entry;
  };
  std::vector<Ghost> of_row;
  std::int64_t row = 0, boundary_row = 0;
  for (const std::int32_t r : partition.rows_of(part)) {
    of_row.clear();
    for (std::int64_t k = pattern.row_ptr[r]; k < pattern.row_ptr[r + 1]; ++k) {
      const std::int32_t place = partition.place(pattern.col[k]);
      if (place >= begin && place < end) {
        // The rows of a part keep their order, so columns stay ascending.
        interior.col()[from_interior_.size()] = static_cast<std::int32_t>(place - begin);
        from_interior_.push_back(k);
      } else {
        const auto ghost = std::lower_bound(halo.ghosts.begin(), halo.ghosts.end(), place);
        of_row.push_back({static_cast<std::int32_t>(ghost - halo.ghosts.begin()), k});
      }
    }
    interior.set_row_ptr(++row, std::ssize(from_interior_));
    if (of_row.empty()) continue;
    std::sort(of_row.begin(), of_row.end(),
              [](const Ghost& a, const Ghost& b) { return a.number < b.number; });
    for (const Ghost& one : of_row) {
      boundary.col()[from_boundary_.size()] = one.number;
      from_boundary_.push_back(one.entry);
    }
    boundary.set_row_ptr(++boundary_row, std::ssize(from_boundary_));
  }
  const auto fill = [&](CsrBuilder<T>& builder, const std::vector<std::int64_t>& from) {
    for (std::size_t i = 0; i < from.size(); ++i) builder.values()[i] = csr.values[from[i]];
    return builder.freeze();
  };
  interior_ = fill(interior, from_interior_), boundary_ = fill(boundary, from_boundary_);
}

template <class T>
void PartBlocks<T>::update_values(const ContextPtr& host, const T* values) {
  const auto renewed = [&](const CsrMatrix<T>& block, const std::vector<std::int64_t>& from) {
    auto fresh = std::make_shared<Buffer<T>>(host, std::ssize(from));
    for (std::size_t i = 0; i < from.size(); ++i) fresh->data()[i] = values[from[i]];
    CsrMatrix<T> next = block;
    next.values = fresh->data(), next.values_owner = std::move(fresh);
    return next;
  };
  CsrMatrix<T> interior = renewed(interior_, from_interior_), boundary = renewed(boundary_, from_boundary_);
  interior_ = std::move(interior), boundary_ = std::move(boundary);
}

template class PartBlocks<float>;
template class PartBlocks<double>;

}  // namespace protean::detail
