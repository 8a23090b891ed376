// What the tests of tiled formats share.
#pragma once
#include <cstdint>
#include <string_view>

#include "formats/engines/tiles/tiles.hpp"
#include "operators/assembled_matrix.hpp"
#include "operators/layout.hpp"

namespace protean::test {

using formats::TileBits, formats::TileForm, formats::TileKind, formats::TileRule, formats::TileSelection;

using Matrix = AssembledMatrix<double>;

inline bool has(const Matrix& matrix, std::string_view name) {
  const auto* shown = dynamic_cast<const HasLayout*>(&matrix);
  if (!shown) return false;
  for (const LayoutArray& array : shown->layout())
    if (array.name == name) return true;
  return false;
}

// A tile with entries at the places for which at(row, column) is true.
template <class At>
TileBits tile(int height, int width, At at) {
  TileBits bits{};
  bits.height = height, bits.width = width;
  for (int r = 0; r < height; ++r)
    for (int c = 0; c < width; ++c)
      if (at(r, c)) bits.row[r] = static_cast<std::uint16_t>(bits.row[r] | 1u << c);
  return bits;
}

}  // namespace protean::test
