// Parameters of tile-composite, for host and device. Private to formats/.
#pragma once
#include "formats/engines/tile_pieces.hpp"
#include "formats/private/text_integer.hpp"

namespace protean::formats {

inline CompositeRule composite_rule(const FormatParams& params) {
  return {integer_within(params, "tile", 1, 1 << 30), integer_within(params, "work", 1, 1 << 30)};
}
inline std::int64_t composite_tiles(const CompositeRule& rule, std::int64_t cols) {
  return (cols + rule.tile - 1) / rule.tile;
}
// Bytes of the arrays that say where pieces lie.
inline std::size_t composite_bytes(std::int64_t tiles, std::int64_t pieces, std::int64_t workloads) {
  return static_cast<std::size_t>(4 * (tiles + 1) + 4 * pieces + 12 * (workloads + 1));
}

}  // namespace protean::formats
