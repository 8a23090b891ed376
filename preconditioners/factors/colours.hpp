// Colours of the rows of a matrix: rows of one colour are not coupled, so that a solve or a factorization can do all of
// them at the same time (Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 3.3.3). Private
// to preconditioners/.
#pragma once
#include <cstdint>

#include "core/buffer.hpp"
#include "core/csr.hpp"

namespace protean::detail {

struct Colours {
  Buffer<std::int32_t> of;  // of each row
  std::int32_t count = 0;

  // Whether row i comes before row j: colour after colour, the rows of a colour as they are numbered.
  bool before(std::int64_t i, std::int64_t j) const noexcept {
    return of[i] != of[j] ? of[i] < of[j] : i < j;
  }
};

// Greedily, row after row: the smallest colour that no coupled row has. Rows i and j are coupled if a_ij or a_ji is
// stored. Sorted rows in host memory. O(entries), one thread.
template <class T>
Colours colour(const ContextPtr& host, const CsrMatrix<T>& csr);

}  // namespace protean::detail
