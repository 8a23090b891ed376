// The rules of cds that host and device share. Private to this folder.
#pragma once
#include "formats/engines/diagonals/diagonal_view.hpp"

namespace protean::formats {

constexpr int most_of_block = 8;

// The rows from which the block size is chosen: all, or 16 pieces of 256 neighbouring rows.
struct RowSample {
  std::int64_t rows;
  PROTEAN_HOST_DEVICE std::int64_t count() const { return rows < 4096 ? rows : 4096; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t i) const {
    return rows <= 4096 ? i : rows / 16 * (i / 256) + i % 256;
  }
};

// The block size b with the fewest lines in the sample, of equals the largest. diagonals[b] is the number of block
// diagonals.
inline int best_block(const std::int64_t (&diagonals)[most_of_block + 1]) {
  int best = 1;
  for (int b = 2; b <= most_of_block; ++b)
    if (b * diagonals[b] <= best * diagonals[best]) best = b;
  return best;
}

inline Admission admit_cds(std::int64_t b, std::int64_t diagonals, const SparsityPattern& pattern,
                           const FormatParams& params, std::size_t value_bytes) {
  const std::int64_t lines = b * diagonals;
  return admit_stored(lines * pattern.rows,
                      diagonal_bytes(lines, pattern.rows, value_bytes) - 4 * static_cast<std::size_t>(lines) +
                          4 * static_cast<std::size_t>(diagonals),
                      pattern, params);
}

}  // namespace protean::formats
