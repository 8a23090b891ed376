// The tiles engine: a matrix in square tiles of 16 x 16, each stored in the one of seven ways that suits its entries.
// This is what host and device share; tiles_host.hpp has the matrix on the host, tiles.cuh the one on the device.
//
//        x x . . | . . . .      Tile row i has the rows 16 i to 16 i + 15; of the tiles of a tile row only tiles with
//        . x . . | . . x .      entries are stored, by ascending columns: tile_ptr[i] up to tile_ptr[i + 1] - 1.
//        . . x . | . . . .
//        . . . x | . . . .      tile_ptr = 0 2 3       tiles (col, kind) = (0, csr) (1, coo) | (1, dns)
//        --------+--------
//        . . . . | x x x x
//        . . . . | x x x x      (Tiles of 4 x 4 are drawn.)
//        . . . . | x x x x
//        . . . . | x x . x
//
// A tile has h rows and w columns: 16, or what is left of the matrix at its edges. It has some values, from place
// value_ptr[i] + tile.value on, and some bytes in `index`, from index_ptr[i] + tile.index on. n is the number of its
// entries.
//
//   kind      values                                    bytes of `index`
//   csr       n, row by row                             16 row pointers (a 17th would be n, up to 256);
//                                                       then n columns of 4 bits
//   coo       n, row by row                             n, each 16 row + column
//   ell       16 slots, slot k of row r at 16 k + r     2: bit r is 1 if row r has entries; then 16 slots columns
//                                                       of 4 bits. Padding has the value 0 and the row's last column,
//                                                       0 in an empty row
//   hyb       the first `slots` entries of each row as in ell, then all others as in coo
//   dns       h w, column by column; 0 if there is   ceil(h w / 8): bit c h + r is 1 if the tile has an entry
//             no entry
//   dns_row   w slots, row by row                       slots: the rows that have entries. They have all w
//   dns_col   h slots, column by column                 slots: the columns that have entries. They have all h
//
// Two columns of 4 bits lie in a byte, the first one in its high half. A tile has at most 256 entries, so `count` keeps
// n - 1 of csr and coo in 8 bits, and of hyb the entries after the slots.
//
// Deferred: what would be stored as in coo, in tiles of kind coo and hyb, is left to CSR arrays of the whole matrix. A
// hyb tile becomes an ell tile; a tile without other entries is not stored. Their values follow the values of the
// tiles. An entry lies in its tile or in these arrays, by a rule that knows the tile's pattern only.
//
// Private to formats/.
#pragma once
#include <cstdint>
#include <string>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"
#if !defined(__CUDA_ARCH__)
#include <bit>
#endif

namespace protean::formats {

constexpr int tile_edge = 16;

enum class TileKind : std::uint8_t { csr, coo, ell, hyb, dns, dns_row, dns_col };

// How the kind of a tile is found; see choose_tile().
enum class TileSelection : std::uint8_t { paper, code, csr };
struct TileRule {
  TileSelection selection;
  bool deferred;
  int te, th;       // percent: limits of the variation of row lengths
  int value_bytes;  // for the width of hyb
  bool csr5;        // deferred entries are multiplied by a matrix in csr5 made of their CSR arrays
};
// coo = auto defers coordinates in matrices of more entries than this, as section IV.B of the paper does.
constexpr std::int64_t deferred_from = 1'800'000;
TileRule tile_rule(const FormatParams& params, std::int64_t nonzeros, std::size_t value_bytes);

// A stored tile.
struct alignas(16) Tile {
  std::int32_t col;            // of tiles: its first column is 16 col
  std::uint32_t value, index;  // counted from the first ones of the tile row
  TileKind kind;
  std::uint8_t slots;  // ell, hyb: of a row; dns_row, dns_col: dense rows or columns
  std::uint8_t count;  // csr, coo: n - 1; hyb: entries as in coo
  std::uint8_t unused;
  PROTEAN_HOST_DEVICE int entries() const { return count + 1; }  // csr, coo
};
static_assert(sizeof(Tile) == 16);

PROTEAN_HOST_DEVICE inline int count_bits(unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return std::popcount(bits);
#endif
}

// Which places of a tile have entries: bit c of row[r].
struct TileBits {
  std::uint16_t row[tile_edge];
  int height, width;
  PROTEAN_HOST_DEVICE int length(int r) const { return count_bits(row[r]); }
};

// How a tile is stored.
struct TileForm {
  TileKind kind;
  int entries;   // n
  int slots;     // as in Tile
  int tail;      // entries as in coo: n of coo, those after the slots of hyb
  bool present;  // false for a tile that is deferred as a whole
  int height, width;

  // Values and bytes of `index` in the tile itself.
  PROTEAN_HOST_DEVICE int values() const {
    switch (kind) {
      case TileKind::ell:
        return tile_edge * slots;
      case TileKind::hyb:
        return tile_edge * slots + tail;
      case TileKind::dns:
        return height * width;
      default:
        return entries;
    }
  }
  PROTEAN_HOST_DEVICE int index_bytes() const {
    switch (kind) {
      case TileKind::csr:
        return tile_edge + (entries + 1) / 2;
      case TileKind::coo:
        return entries;
      case TileKind::ell:
        return 2 + tile_edge / 2 * slots;
      case TileKind::hyb:
        return 2 + tile_edge / 2 * slots + tail;
      case TileKind::dns:
        return (height * width + 7) / 8;
      default:
        return slots;
    }
  }
};

// Entries beyond the first `slots` of each row.
PROTEAN_HOST_DEVICE inline int entries_beyond(const TileBits& bits, int slots) {
  int beyond = 0;
  for (int r = 0; r < tile_edge; ++r) {
    const int more = bits.length(r) - slots;
    beyond += more > 0 ? more : 0;
  }
  return beyond;
}

// The selection of Niu et al. For n entries in h rows (empty ones as well) the variation is the standard deviation of
// the row lengths over their mean.
//   paper  coo when n < 12 and the variation is above te; dns when n >= 128; dns_row or dns_col when all rows (columns)
//          with entries are full; ell when the variation is at most te, hyb when it is above th, else csr.
//   code   as their program does: dns when n >= 0.75 h w; coo when n <= 12; dns_row, dns_col only when 16 divides n;
//          ell when the variation is at most te; else csr.
//   csr    csr.
// The width of hyb is the one that takes the fewest bytes, the greatest of equals.
PROTEAN_HOST_DEVICE inline TileForm choose_tile(const TileBits& bits, const TileRule& rule) {
  TileForm form{TileKind::csr, 0, 0, 0, true, bits.height, bits.width};
  int squares = 0, longest = 0, filled = 0;
  unsigned any = 0, all = 0xffffu;
  bool full_rows = true;
  for (int r = 0; r < bits.height; ++r) {
    const int length = bits.length(r);
    form.entries += length, squares += length * length;
    longest = length > longest ? length : longest;
    filled += length > 0;
    any |= bits.row[r], all &= bits.row[r];
    full_rows = full_rows && (length == 0 || length == bits.width);
  }
  const int n = form.entries, h = bits.height;
  // The square of the variation is deviation / n^2.
  const long long deviation = static_cast<long long>(h) * squares - static_cast<long long>(n) * n;
  const auto above = [&](int percent) {
    return deviation * 10000 > static_cast<long long>(percent) * percent * n * n;
  };
  const auto as_coo = [&] { form.kind = TileKind::coo, form.tail = n, form.present = !rule.deferred; };
  if (rule.selection == TileSelection::csr) return form;
  const bool paper = rule.selection == TileSelection::paper;
  if (paper) {
    if (n < 12 && above(rule.te)) return as_coo(), form;
    if (n >= 128) return form.kind = TileKind::dns, form;
  } else {
    if (4 * n >= 3 * h * bits.width) return form.kind = TileKind::dns, form;
    if (n <= 12) return as_coo(), form;
  }
  if (paper || n % tile_edge == 0) {
    if (full_rows) return form.kind = TileKind::dns_row, form.slots = filled, form;
    if (any == all) return form.kind = TileKind::dns_col, form.slots = count_bits(any), form;
  }
  if (!above(rule.te)) return form.kind = TileKind::ell, form.slots = longest, form;
  if (!paper || !above(rule.th)) return form;
  form.kind = TileKind::hyb;
  int fewest = 0;
  for (int slots = longest; slots >= 0; --slots) {
    const int beyond = entries_beyond(bits, slots);
    const int bytes = slots * tile_edge / 2 * (2 * rule.value_bytes + 1) + beyond * (rule.value_bytes + 1);
    if (slots == longest || bytes < fewest) fewest = bytes, form.slots = slots, form.tail = beyond;
  }
  if (rule.deferred) form.kind = TileKind::ell, form.present = form.slots > 0;
  return form;
}

// Where the entries of one row of a tile lie.
struct TileRow {
  TileKind kind;
  int row, height, slots;
  int first;  // csr, coo: its first value; ell, hyb: the first one of the tail; dns_row: the value of column 0
  unsigned any;  // dns_col: columns with entries

  PROTEAN_HOST_DEVICE TileRow(const TileBits& bits, const TileForm& form, int r)
      : kind(form.kind), row(r), height(form.height), slots(form.slots), first(0), any(0) {
    const bool in_slots = kind == TileKind::ell || kind == TileKind::hyb;
    if (in_slots) first = tile_edge * slots;
    for (int i = 0; i < r; ++i) {
      const int length = bits.length(i);
      first += !in_slots ? length : length > slots ? length - slots : 0;
    }
    for (int i = 0; i < form.height; ++i) any |= bits.row[i];
  }
  // Entry j of the row, in column c of the tile; -1 if it is deferred. Only entries of tiles that are present.
  PROTEAN_HOST_DEVICE int place(int j, int c, bool deferred) const {
    switch (kind) {
      case TileKind::ell:
      case TileKind::hyb:
        if (j < slots) return tile_edge * j + row;
        return deferred ? -1 : first + j - slots;
      case TileKind::dns:
        return c * height + row;
      case TileKind::dns_col:
        return count_bits(any & ((1u << c) - 1)) * height + row;
      default:
        return first + j;  // only full rows come before a full row
    }
  }
};

PROTEAN_HOST_DEVICE inline int column_of(const std::uint8_t* packed, int e) {
  return e % 2 == 0 ? packed[e / 2] >> 4 : packed[e / 2] & 15;
}

// The bytes of `index` of a tile that is present. One caller writes a whole byte.
PROTEAN_HOST_DEVICE inline std::uint8_t tile_index_byte(const TileBits& bits, const TileForm& form, int at) {
  // The e-th entry of the row-by-row order of all entries after the first `skip` ones of each row: 16 row + column, or
  // 0.
  const auto entry = [&](int e, int skip) {
    for (int r = 0; r < form.height; ++r) {
      const int length = bits.length(r) - skip;
      if (length <= 0) continue;
      if (e >= length) {
        e -= length;
        continue;
      }
      unsigned left = bits.row[r];
      for (int drop = e + skip; drop > 0; --drop) left &= left - 1;
      return r * tile_edge + count_bits((left & (0u - left)) - 1);
    }
    return 0;
  };
  const auto slot = [&](int e) {
    const int k = e / tile_edge;
    unsigned left = bits.row[e % tile_edge];
    for (int drop = 0; drop < k && (left & (left - 1)) != 0; ++drop) left &= left - 1;
    return left == 0 ? 0 : count_bits((left & (0u - left)) - 1);
  };
  const auto pair = [](int high, int low) {
    return static_cast<std::uint8_t>((high & 15) * 16 + (low & 15));
  };
  switch (form.kind) {
    case TileKind::csr: {
      if (at >= tile_edge) return pair(entry(2 * (at - tile_edge), 0), entry(2 * (at - tile_edge) + 1, 0));
      int before = 0;
      for (int r = 0; r < at; ++r) before += bits.length(r);
      return static_cast<std::uint8_t>(before);
    }
    case TileKind::coo:
      return static_cast<std::uint8_t>(entry(at, 0));
    case TileKind::ell:
    case TileKind::hyb: {
      if (at < 2) {
        unsigned rows = 0;
        for (int r = 0; r < 8; ++r) rows |= static_cast<unsigned>(bits.row[8 * at + r] != 0) << r;
        return static_cast<std::uint8_t>(rows);
      }
      if (at < 2 + tile_edge / 2 * form.slots) return pair(slot(2 * (at - 2)), slot(2 * (at - 2) + 1));
      return static_cast<std::uint8_t>(entry(at - 2 - tile_edge / 2 * form.slots, form.slots));
    }
    case TileKind::dns: {
      unsigned byte = 0;
      for (int b = 0; b < 8; ++b) {
        const int place = 8 * at + b, c = place / form.height, r = place % form.height;
        if (c < form.width) byte |= static_cast<unsigned>(bits.row[r] >> c & 1) << b;
      }
      return static_cast<std::uint8_t>(byte);
    }
    case TileKind::dns_row:
      for (int r = 0; r < form.height; ++r)
        if (bits.row[r] != 0 && at-- == 0) return static_cast<std::uint8_t>(r);
      return 0;
    default: {
      unsigned any = 0;
      for (int r = 0; r < form.height; ++r) any |= bits.row[r];
      for (; at > 0; --at) any &= any - 1;
      return static_cast<std::uint8_t>(count_bits((any & (0u - any)) - 1));
    }
  }
}

// The arrays; a view of the rows in the sense of row_view.hpp. Position p is row p.
template <class T>
struct TileView {
  const T* values;
  const std::int64_t *tile_ptr, *value_ptr, *index_ptr;  // [tile rows + 1]
  const Tile* tiles;
  const std::uint8_t* index;
  std::int64_t rows, cols;
  // The deferred entries: one of these row pointers, or none. Value k is values[deferred + k].
  const std::int32_t* rest_ptr32;
  const std::int64_t* rest_ptr64;
  const std::int32_t* rest_col;
  std::int64_t deferred;

  PROTEAN_HOST_DEVICE static std::int64_t tile_rows_of(std::int64_t of_rows) {
    return (of_rows + tile_edge - 1) / tile_edge;
  }
  PROTEAN_HOST_DEVICE std::int64_t tile_rows() const { return tile_rows_of(rows); }
  PROTEAN_HOST_DEVICE int height(std::int64_t i) const {
    return static_cast<int>(rows - i * tile_edge < tile_edge ? rows - i * tile_edge : tile_edge);
  }
  PROTEAN_HOST_DEVICE int width(const Tile& tile) const {
    const std::int64_t left = cols - std::int64_t{tile.col} * tile_edge;
    return static_cast<int>(left < tile_edge ? left : tile_edge);
  }
  PROTEAN_HOST_DEVICE bool has_rest() const { return rest_ptr32 || rest_ptr64; }
  PROTEAN_HOST_DEVICE std::int64_t rest_ptr(std::int64_t r) const {
    return rest_ptr32 ? rest_ptr32[r] : rest_ptr64[r];
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  // f(column in the tile, value in the tile) for row r of a tile.
  template <class F>
  PROTEAN_HOST_DEVICE void for_tile(const Tile& tile, const std::uint8_t* bytes, int r, int h, F&& f) const {
    const auto coordinates = [&](const std::uint8_t* entry, int count, int first) {
      for (int e = 0; e < count && entry[e] / tile_edge <= r; ++e)
        if (entry[e] / tile_edge == r) f(entry[e] % tile_edge, first + e);
    };
    switch (tile.kind) {
      case TileKind::csr: {
        const int end = r + 1 < tile_edge ? bytes[r + 1] : tile.entries();
        for (int e = bytes[r]; e < end; ++e) f(column_of(bytes + tile_edge, e), e);
        return;
      }
      case TileKind::coo:
        return coordinates(bytes, tile.entries(), 0);
      case TileKind::ell:
      case TileKind::hyb: {
        if (bytes[r / 8] >> (r % 8) & 1) {
          int last = -1;
          for (int k = 0; k < tile.slots; ++k) {
            const int c = column_of(bytes + 2, k * tile_edge + r);
            if (c <= last) break;  // padding
            f(c, k * tile_edge + r);
            last = c;
          }
        }
        if (tile.kind == TileKind::hyb)
          coordinates(bytes + 2 + tile_edge / 2 * tile.slots, tile.count, tile_edge * tile.slots);
        return;
      }
      case TileKind::dns:
        for (int c = 0, w = width(tile); c < w; ++c)
          if (bytes[(c * h + r) / 8] >> ((c * h + r) % 8) & 1) f(c, c * h + r);
        return;
      case TileKind::dns_row:
        for (int i = 0, w = width(tile); i < tile.slots; ++i)
          if (bytes[i] == r)
            for (int c = 0; c < w; ++c) f(c, i * w + c);
        return;
      default:
        for (int i = 0; i < tile.slots; ++i) f(bytes[i], i * h + r);
    }
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t i = p / tile_edge;
    const int r = static_cast<int>(p % tile_edge), h = height(i);
    std::int64_t k = has_rest() ? rest_ptr(p) : 0;
    const std::int64_t end = has_rest() ? rest_ptr(p + 1) : 0;
    for (std::int64_t t = tile_ptr[i]; t < tile_ptr[i + 1]; ++t) {
      const Tile tile = tiles[t];
      for_tile(tile, index + index_ptr[i] + tile.index, r, h, [&](int c, int place) {
        const std::int32_t col = tile.col * tile_edge + c;
        for (; k < end && rest_col[k] < col; ++k) f(rest_col[k], deferred + k);
        f(col, value_ptr[i] + tile.value + place);
      });
    }
    for (; k < end; ++k) f(rest_col[k], deferred + k);
  }
};

// What the tiles of a matrix need.
struct TileSizes {
  std::int64_t tiles = 0, values = 0, index_bytes = 0;
  std::int64_t rest = 0;  // deferred entries
};
// Bytes of all arrays.
inline std::size_t tile_bytes(const TileSizes& sizes, const TileRule& rule, std::int64_t rows,
                              std::size_t pointer_bytes) {
  const auto v = static_cast<std::size_t>(rule.value_bytes);
  return 24 * static_cast<std::size_t>(TileView<double>::tile_rows_of(rows) + 1) +
         sizeof(Tile) * static_cast<std::size_t>(sizes.tiles) + static_cast<std::size_t>(sizes.index_bytes) +
         v * static_cast<std::size_t>(sizes.values + sizes.rest) +
         (rule.deferred ? pointer_bytes * static_cast<std::size_t>(rows + 1) : 0) +
         4 * static_cast<std::size_t>(sizes.rest);
}
// Bytes of the csr5 matrix of the deferred entries, 0 if there is no such matrix. The row pointers lie in the space of
// the context.
std::size_t rest_csr5_bytes(const Context& context, const SparsityPattern& rest, const TileRule& rule);
// Offsets within a tile row have 32 bits. `most`: the greatest number of values or bytes of a tile row.
std::string tile_refusal(std::int64_t most);

}  // namespace protean::formats
