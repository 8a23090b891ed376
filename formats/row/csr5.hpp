// CSR5: what host and device share. The head of csr5.cpp describes the arrays. Private to formats/.
#pragma once
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int csr5_most_lanes = 32, csr5_most_depth = 32;
constexpr std::uint32_t csr5_row_bits = 0x7fffffffu, csr5_dirty = 0x80000000u;

// What the descriptor of a lane says.
struct Csr5Lane {
  int y_offset;          // row starts of the tile in the lanes before
  int seg_offset;        // lanes without a row start that follow this one
  std::uint32_t starts;  // the top bit is the first entry of the lane: 1 if a row starts there
  PROTEAN_HOST_DEVICE bool start(int s) const { return (starts << s & 0x80000000u) != 0; }
};

// Tiles of omega lanes with sigma entries each, and the fields of a descriptor.
struct Csr5Shape {
  int omega = 4, sigma = 16, y_bits = 0, seg_bits = 0;

  Csr5Shape() = default;
  Csr5Shape(int lanes, int depth) : omega(lanes), sigma(depth) {
    while (1 << y_bits < omega * sigma) ++y_bits;
    while (1 << seg_bits < omega) ++seg_bits;
  }
  PROTEAN_HOST_DEVICE std::int64_t entries() const { return std::int64_t{omega} * sigma; }
  PROTEAN_HOST_DEVICE int packets() const { return (y_bits + seg_bits + sigma + 31) / 32; }
  // Where entry k of a matrix with `full` full tiles lies.
  PROTEAN_HOST_DEVICE std::int64_t place(std::int64_t full, std::int64_t k) const {
    const std::int64_t tile = k / entries(), i = k - tile * entries();
    return tile < full ? k - i + i % sigma * omega + i / sigma : k;
  }
  // The entry that lies there.
  PROTEAN_HOST_DEVICE std::int64_t entry(std::int64_t full, std::int64_t place) const {
    const std::int64_t tile = place / entries(), i = place - tile * entries();
    return tile < full ? place - i + i % omega * sigma + i / omega : place;
  }
  // The descriptor of a lane has packets() words, omega apart.
  PROTEAN_HOST_DEVICE void encode(const Csr5Lane& lane, std::uint32_t* words) const {
    const std::uint64_t stream = std::uint64_t(lane.y_offset) << (64 - y_bits) |
                                 std::uint64_t(lane.seg_offset) << (64 - y_bits - seg_bits) |
                                 std::uint64_t{lane.starts} << 32 >> (y_bits + seg_bits);
    words[0] = static_cast<std::uint32_t>(stream >> 32);
    if (packets() > 1) words[omega] = static_cast<std::uint32_t>(stream);
  }
  PROTEAN_HOST_DEVICE Csr5Lane decode(const std::uint32_t* words) const {
    std::uint64_t stream = std::uint64_t{words[0]} << 32;
    if (packets() > 1) stream |= words[omega];
    return {static_cast<int>(stream >> (64 - y_bits)), static_cast<int>(stream << y_bits >> (64 - seg_bits)),
            static_cast<std::uint32_t>(stream << (y_bits + seg_bits) >> 32)};
  }
};

// lanes: omega if the parameter is 0; sigma: the same.
inline Csr5Shape csr5_shape(const FormatParams& params, int lanes, int depth) {
  if (const std::int64_t omega = params.integer("omega"); omega > 0) lanes = static_cast<int>(omega);
  if (const std::int64_t sigma = params.integer("sigma"); sigma > 0) depth = static_cast<int>(sigma);
  return {lanes, depth};
}

// The matrix as kernels see it, and the view of row_view.hpp.
template <class T>
struct Csr5View {
  const T* values;
  const std::int32_t* col;
  const std::int32_t* row_ptr32;
  const std::int64_t* row_ptr64;
  const std::uint32_t* tile_ptr;
  const std::uint32_t* tile_desc;
  const std::int64_t* empty_ptr;
  const std::int32_t* empty_off;
  std::int64_t rows, full;  // full: the number of full tiles
  Csr5Shape shape;

  PROTEAN_HOST_DEVICE std::int64_t row_ptr(std::int64_t r) const {
    return row_ptr32 ? row_ptr32[r] : row_ptr64[r];
  }
  PROTEAN_HOST_DEVICE std::int64_t first_row(std::int64_t tile) const {
    return tile_ptr[tile] & csr5_row_bits;
  }
  PROTEAN_HOST_DEVICE bool dirty(std::int64_t tile) const { return (tile_ptr[tile] & csr5_dirty) != 0; }
  // The first row of the tile began in an earlier one.
  PROTEAN_HOST_DEVICE bool continued(std::int64_t tile) const {
    return row_ptr(first_row(tile)) < tile * shape.entries();
  }
  // The row of a row start of the tile, counted from 0.
  PROTEAN_HOST_DEVICE std::int64_t row_of_start(std::int64_t tile, int start) const {
    return first_row(tile) + (dirty(tile) ? empty_off[empty_ptr[tile] + start] : start);
  }
  PROTEAN_HOST_DEVICE Csr5Lane lane(std::int64_t tile, int lane) const {
    return shape.decode(tile_desc + tile * shape.packets() * shape.omega + lane);
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const { return row_ptr(p + 1) - row_ptr(p); }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    for (std::int64_t k = row_ptr(p), end = row_ptr(p + 1); k < end; ++k) {
      const std::int64_t place = shape.place(full, k);
      f(col[place], place);
    }
  }
};

// On the host: the sums of the lanes of a full tile. before[l] is the sum of the entries of lane l before its first row
// start, of_start[j] the sum of the entries from row start j of the tile on, up to the next one or the end of the lane.
template <class T>
struct Csr5LaneSums {
  T before[csr5_most_lanes];
  T of_start[csr5_most_lanes * csr5_most_depth];
};
void csr5_tile(const Csr5View<double>& a, std::int64_t tile, const double* x, Csr5LaneSums<double>& sums);
void csr5_tile(const Csr5View<float>& a, std::int64_t tile, const float* x, Csr5LaneSums<float>& sums);

// Everything except the values and the columns. copy(to, from, bytes) copies an array.
struct Csr5Tables {
  Buffer<std::int32_t> row_ptr32;
  Buffer<std::int64_t> row_ptr64;
  Buffer<std::uint32_t> tile_ptr, tile_desc;
  Buffer<std::int64_t> empty_ptr;
  Buffer<std::int32_t> empty_off;

  template <class Copy>
  Csr5Tables(const ContextPtr& context, const SparsityPattern& pattern, const Csr5Shape& shape,
             std::int64_t empty_offsets, Copy copy)
      : row_ptr32(context, pattern.row_ptr.p32 ? pattern.rows + 1 : 0),
        row_ptr64(context, pattern.row_ptr.p32 ? 0 : pattern.rows + 1),
        tile_ptr(context, (pattern.nonzeros + shape.entries() - 1) / shape.entries() + 1),
        tile_desc(context, pattern.nonzeros / shape.entries() * shape.omega * shape.packets()),
        empty_ptr(context, pattern.nonzeros / shape.entries() + 1),
        empty_off(context, empty_offsets) {
    if (pattern.row_ptr.p32)
      copy(row_ptr32.data(), pattern.row_ptr.p32, row_ptr32.bytes());
    else
      copy(row_ptr64.data(), pattern.row_ptr.p64, row_ptr64.bytes());
  }
  RowPointers row_ptr() const { return {row_ptr32.data(), row_ptr64.data()}; }
  std::int64_t tiles() const { return tile_ptr.size() - 1; }
  std::int64_t full_tiles() const { return empty_ptr.size() - 1; }
  std::size_t bytes() const noexcept {
    return row_ptr32.bytes() + row_ptr64.bytes() + tile_ptr.bytes() + tile_desc.bytes() + empty_ptr.bytes() +
           empty_off.bytes();
  }
  template <class T>
  Csr5View<T> view(const T* values, const std::int32_t* col, std::int64_t rows,
                   const Csr5Shape& shape) const {
    return {values,
            col,
            row_ptr32.data(),
            row_ptr64.data(),
            tile_ptr.data(),
            tile_desc.data(),
            empty_ptr.data(),
            empty_off.data(),
            rows,
            full_tiles(),
            shape};
  }
};

inline std::size_t csr5_bytes(const SparsityPattern& pattern, const Csr5Shape& shape,
                              std::int64_t empty_offsets, std::size_t value_bytes) {
  const std::int64_t full = pattern.nonzeros / shape.entries();
  const std::int64_t tiles = (pattern.nonzeros + shape.entries() - 1) / shape.entries();
  return pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes +
         static_cast<std::size_t>(4 * (tiles + 1) + 4 * full * shape.omega * shape.packets() +
                                  8 * (full + 1) + 4 * empty_offsets);
}

}  // namespace protean::formats
