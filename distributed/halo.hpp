// What the parts of a distributed matrix send each other in a product, as a plan without memory or devices.
//
// Part p has the rows and the entries of x at its places of the partition. An entry a_ij of its rows is interior if it
// has x_j, too; otherwise it needs x_j from the part that has it, its neighbour, and keeps a copy, a ghost:
//
//     y_p = A_p x_p + B_p g_p       A_p: interior block, rows x rows of the part
//                                   B_p: boundary block, rows with such entries x ghosts
//
// Ghosts are numbered by the place of their value, so the ghosts of a neighbour follow each other. In the matrix below
// part 1 has rows 2 and 3:
//
//     | 1 . | 2 . |       part 1:   A = | 5 6 |   boundary rows = 0 (which is row 2)   ghosts = 1 (x_1, of part 0)
//     | . 3 | . . |                     | . 7 |   B = | 4 |
//     | . 4 | 5 6 |
//     | . . | . 7 |       part 0 sends x_1 to part 1, and part 1 sends x_2 to part 0
//
// If p needs values of q, then p is a neighbour of q, too, even if q needs none of p: each product sends a message to
// each neighbour, if need be an empty one. Then no part can be two products ahead of a neighbour, so that two places
// for what arrives are enough (halo_exchange.hpp). Private.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "distributed/partition.hpp"

namespace protean::detail {

struct HaloNeighbour {
  int part = 0;
  std::vector<std::int32_t> send;  // rows of this part whose entries of x it needs, ascending
  std::int64_t first_ghost = 0, ghosts = 0;
};

struct PartHalo {
  std::vector<std::int32_t> ghosts;         // places, ascending
  std::vector<std::int32_t> boundary_rows;  // of the part, ascending
  std::vector<HaloNeighbour> neighbours;    // by part
  std::int64_t interior_entries = 0, boundary_entries = 0;

  std::int64_t sent() const noexcept;  // entries of x in one product
};

// Of all parts. The pattern is square, sorted, and lies in host memory. Throws ShapeMismatch if the partition has
// another number of rows.
std::vector<PartHalo> halos_of(const SparsityPattern& pattern, const Partition& partition);

// The blocks of a part, in host memory. Rows and columns are numbered within the part; columns of the boundary block
// are ghosts, its rows are boundary rows.
template <class T>
class PartBlocks {
 public:
  PartBlocks(const ContextPtr& host, const CsrMatrix<T>& csr, const Partition& partition,
             const PartHalo& halo, int part);
  const CsrMatrix<T>& interior() const noexcept { return interior_; }
  const CsrMatrix<T>& boundary() const noexcept { return boundary_; }
  // The same blocks with new values of the same pattern.
  void update_values(const ContextPtr& host, const T* values);

 private:
  CsrMatrix<T> interior_, boundary_;
  std::vector<std::int64_t> from_interior_, from_boundary_;  // the place of each entry in csr
};

}  // namespace protean::detail
