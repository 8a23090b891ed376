// Parameters of vsl, for host and device. Private to formats/.
#pragma once
#include "formats/engines/pieces/tile_pieces.hpp"

namespace protean::formats {

inline VslRule vsl_rule(const FormatParams& params) {
  return {params.integer("rows"), params.integer("columns"), params.integer("channels"),
          params.integer("pad")};
}
inline std::int64_t vsl_blocks(const VslRule& rule, std::int64_t rows) {
  return (rows + rule.rows - 1) / rule.rows;
}
// Bytes of the arrays that say where pieces lie.
inline std::size_t vsl_bytes(const VslRule& rule, std::int64_t rows, std::int64_t pieces) {
  return static_cast<std::size_t>(8 * (pieces + 1) + 8 * (rule.channels * vsl_blocks(rule, rows) + 1));
}

}  // namespace protean::formats
