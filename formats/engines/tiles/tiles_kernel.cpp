// Tiles of 16 x 16 times x: the 16 sums of a tile row stay in registers if a tile is computed down its rows.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/tiles/tiles_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/tiles/tiles_host.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Column {  // 16 rows of a tile
  using D = hn::CappedTag<T, tile_edge>;
  static constexpr int lanes = static_cast<int>(lanes_of<D>), vectors = tile_edge / lanes;
};

template <class T>
HWY_INLINE void add_coordinates(const std::uint8_t* entry, const T* values, int count, const T* x, T* sums) {
  for (int e = 0; e < count; ++e) sums[entry[e] / tile_edge] += values[e] * x[entry[e] % tile_edge];
}

template <class T>
HWY_INLINE void add_csr(const std::uint8_t* bytes, const T* values, int n, const T* x, T* sums) {
  const std::uint8_t* const packed = bytes + tile_edge;
  int e = 0;
  for (int r = 0; r < tile_edge; ++r) {
    const int end = r + 1 < tile_edge ? bytes[r + 1] : n;
    T sum = 0;
    for (; e < end; ++e) sum += values[e] * x[column_of(packed, e)];
    sums[r] += sum;
  }
}

// Slots of 16 rows. Rows without entries must not read x: their sums are dropped.
template <class T>
HWY_INLINE void add_slots(const std::uint8_t* bytes, const T* values, int slots, const T* x, T* sums) {
  using C = Column<T>;
  const typename C::D d;
  hn::Vec<typename C::D> sum[C::vectors];
  for (int v = 0; v < C::vectors; ++v) sum[v] = hn::Zero(d);
  for (int k = 0; k < slots; ++k) {
    std::int32_t col[tile_edge];
    for (int b = 0; b < tile_edge / 2; ++b) {
      const int pair = bytes[2 + k * (tile_edge / 2) + b];
      col[2 * b] = pair >> 4, col[2 * b + 1] = pair & 15;
    }
    for (int v = 0; v < C::vectors; ++v)
      sum[v] = hn::MulAdd(hn::LoadU(d, values + k * tile_edge + v * C::lanes), take(d, x, col + v * C::lanes),
                          sum[v]);
  }
  alignas(64) T flat[tile_edge];
  for (int v = 0; v < C::vectors; ++v) hn::Store(sum[v], d, flat + v * C::lanes);
  const unsigned rows = bytes[0] | static_cast<unsigned>(bytes[1]) << 8;
  for (int r = 0; r < tile_edge; ++r) sums[r] += rows >> r & 1 ? flat[r] : T(0);
}

// Columns of h values; column i is column_at(i) of the tile.
template <class T, class ColumnAt>
HWY_INLINE void add_columns(const T* values, int columns, int h, const T* x, T* sums, ColumnAt column_at) {
  if (h < tile_edge) {
    for (int i = 0; i < columns; ++i)
      for (int r = 0; r < h; ++r) sums[r] += values[i * h + r] * x[column_at(i)];
    return;
  }
  using C = Column<T>;
  const typename C::D d;
  hn::Vec<typename C::D> sum[C::vectors];
  for (int v = 0; v < C::vectors; ++v) sum[v] = hn::Load(d, sums + v * C::lanes);
  for (int i = 0; i < columns; ++i) {
    const auto by = hn::Set(d, x[column_at(i)]);
    for (int v = 0; v < C::vectors; ++v)
      sum[v] = hn::MulAdd(hn::LoadU(d, values + i * tile_edge + v * C::lanes), by, sum[v]);
  }
  for (int v = 0; v < C::vectors; ++v) hn::Store(sum[v], d, sums + v * C::lanes);
}

template <class T>
HWY_INLINE void add_rows(const std::uint8_t* row, const T* values, int rows, int w, const T* x, T* sums) {
  for (int i = 0; i < rows; ++i) {
    T sum = 0;
    for (int c = 0; c < w; ++c) sum += values[i * w + c] * x[c];
    sums[row[i]] += sum;
  }
}

template <class T>
HWY_INLINE void product(const TileProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const TileView<T>& a = job.tiles;
  for (std::int64_t i = begin; i < end; ++i) {
    alignas(64) T sums[tile_edge] = {};
    const int h = a.height(i);
    const T* const row_values = a.values + a.value_ptr[i];
    const std::uint8_t* const row_index = a.index + a.index_ptr[i];
    for (std::int64_t t = a.tile_ptr[i]; t < a.tile_ptr[i + 1]; ++t) {
      const Tile& tile = a.tiles[t];
      const T* const values = row_values + tile.value;
      const std::uint8_t* const bytes = row_index + tile.index;
      const T* const x = job.x + std::int64_t{tile.col} * tile_edge;
      switch (tile.kind) {
        case TileKind::csr:
          add_csr(bytes, values, tile.entries(), x, sums);
          break;
        case TileKind::coo:
          add_coordinates(bytes, values, tile.entries(), x, sums);
          break;
        case TileKind::ell:
          add_slots(bytes, values, tile.slots, x, sums);
          break;
        case TileKind::hyb:
          add_slots(bytes, values, tile.slots, x, sums);
          add_coordinates(bytes + 2 + tile_edge / 2 * tile.slots, values + tile_edge * tile.slots, tile.count,
                          x, sums);
          break;
        case TileKind::dns:
          add_columns(values, a.width(tile), h, x, sums, [](int c) { return c; });
          break;
        case TileKind::dns_row:
          add_rows(bytes, values, tile.slots, a.width(tile), x, sums);
          break;
        case TileKind::dns_col:
          add_columns(values, tile.slots, h, x, sums, [&](int c) { return int{bytes[c]}; });
          break;
      }
    }
    T* const y = job.y + i * tile_edge;
    for (int r = 0; r < h; ++r) store(job.alpha, sums[r], job.beta, y[r]);
  }
}

void tile_product_f64(const TileProduct<double>& job, std::int64_t begin, std::int64_t end) {
  product(job, begin, end);
}
void tile_product_f32(const TileProduct<float>& job, std::int64_t begin, std::int64_t end) {
  product(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(tile_product_f64);
HWY_EXPORT(tile_product_f32);

void tile_product(const TileProduct<double>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(tile_product_f64)(product, begin, end);
}
void tile_product(const TileProduct<float>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(tile_product_f32)(product, begin, end);
}

}  // namespace protean::formats
#endif
