// Parameters of tile-composite, for host and device. Private to formats/.
#pragma once
#include <algorithm>

#include "formats/engines/pieces/tile_pieces.hpp"
#include "formats/engines/tuning/text_integer.hpp"

namespace protean::formats {

inline CompositeRule composite_rule(const FormatParams& params) {
  const bool all = params.word("tiles") == "all";
  return {integer_within(params, "tile", 1, 1 << 30), integer_within(params, "work", 1, 1 << 30),
          all ? 1 << 30 : integer_within(params, "tiles", 1, 1 << 30), params.word("columns") == "degree"};
}
inline std::int64_t composite_tiles(const CompositeRule& rule, std::int64_t cols) {
  return std::min((cols + rule.tile - 1) / rule.tile, rule.tiles);
}
// The columns of the widest tile.
inline std::int64_t composite_width(const CompositeRule& rule, std::int64_t cols) {
  const std::int64_t before = (composite_tiles(rule, cols) - 1) * rule.tile;
  return cols == 0 ? 0 : std::max(std::min(rule.tile, cols), cols - before);
}
// Bytes of the arrays that say where pieces lie, and of the order of the columns with the x in that order.
inline std::size_t composite_bytes(const CompositeRule& rule, std::int64_t cols, std::int64_t pieces,
                                   std::int64_t workloads, std::size_t value_bytes) {
  const auto sorted = rule.by_degree ? (4 + value_bytes) * static_cast<std::size_t>(cols) : 0;
  return static_cast<std::size_t>(4 * (composite_tiles(rule, cols) + 1) + 4 * pieces + 12 * (workloads + 1)) +
         sorted;
}

}  // namespace protean::formats
