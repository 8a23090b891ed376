// The rules of crsd that host and device share. Private to this folder.
#pragma once
#include "formats/engines/diagonals/diagonal_view.hpp"

namespace protean::formats {

struct CrsdCounts {
  std::int64_t segments, patterns, bands, diagonals, scattered;
  std::int64_t stored(std::int64_t height) const { return height * diagonals + scattered; }
};

inline Admission admit_crsd(const CrsdCounts& n, const SparsityPattern& pattern, const FormatParams& params,
                            std::size_t value_bytes) {
  const std::int64_t height = params.integer("rows"), stored = n.stored(height);
  const std::int64_t tables = (height + 7) / 8 * n.diagonals + 8 * n.scattered + 24 * (n.patterns + 1) +
                              4 * n.bands + 8 * (n.bands + 1) + 8 * (n.segments + 1);
  return admit_stored(stored,
                      static_cast<std::size_t>(stored) * value_bytes + static_cast<std::size_t>(tables),
                      pattern, params);
}

// Whether a diagonal with `count` entries in `rows` rows is stored as such.
PROTEAN_HOST_DEVICE inline bool well_filled(std::int64_t count, std::int64_t rows, std::int64_t percent) {
  return 100 * count >= percent * rows;
}

PROTEAN_HOST_DEVICE inline std::int64_t count_bits(const std::uint8_t* bits, std::int64_t bytes) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < bytes; ++i)
    for (unsigned byte = bits[i]; byte; byte &= byte - 1) ++count;
  return count;
}

}  // namespace protean::formats
