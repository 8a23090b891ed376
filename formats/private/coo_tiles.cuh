// Entries as coordinates for the products of row_tiles.cuh.
#pragma once
#include "formats/private/expand.cuh"
#include "formats/private/row_tiles.cuh"

namespace protean::formats {

template <class T>
struct CooSource {
  const std::int32_t* row;
  const std::int32_t* col;
  const T* values;
  // Entry i is the first of all rows after that of entry i - 1 up to its own row. All of these but the last
  // are empty.
  __device__ void find_rows(const RowTile& tile, std::uint16_t* start) const {
    for (int i = threadIdx.x; i <= tile.entries; i += tile_threads) {
      int r = i > 0 ? row[tile.entry + i - 1] - tile.row + 1 : 0;
      const int end = i < tile.entries ? row[tile.entry + i] - tile.row : tile.rows;
      for (; r <= end; ++r) start[r] = static_cast<std::uint16_t>(i);
    }
  }
  __device__ T more(std::int64_t, int, int, const T*) const { return T(0); }
};

}  // namespace protean::formats
