// The diagonals engine: formats whose values lie in lines. A line is a piece of a diagonal: it has at most one value a
// row, for neighbouring rows, and the column follows from the row. No column index is stored.
//
//   hacks (dia, hdi)          bands (bdia, crsd)            segments (ddd)          blocks (cds), b = 2
//   off = -1 0 2              first offset, diagonals       off, first row, values  off = 0 1 of blocks, lines 0, 1 of
//                                                                                  each
//   . 2 4 | 1 3 5 | 6 7 .     -1, 2 | 2, 1                  -1 1 2 | 0 0 3 | 2 0 2  rows 0, 1: columns 0, 1 | 2, 3
//   (. is fill)               the same values               2 4 | 1 3 5 | 6 7       (the lanes of two rows share x)
//
// Rows lie in hacks of `height` rows; all rows of a hack have the same lines. One hack of all rows is allowed. A view
// gives the lines of a hack in ascending columns, by a cursor that host and device share:
//   for (auto l = view.lines(h); l.more(); l.next())
//     l.col(r)             the column of the line in row r
//     values[l.at + r]     its value; fill is 0
//     l.begin(), l.end()   the rows of the hack whose column exists and whose value is stored
//     l.stores(r)          whether there is a place for row r; always, except in segments
//     entries[l.byte(i)]   its bit i % 8 distinguishes entries from fill; i = r - h height
// Entries may also lie apart from the lines (crsd). From this come the row view (row_view.hpp), the conversion from
// CSR, and the products. Products multiply fill, so that a NaN or infinity in x also reaches rows whose line has fill
// there; in deterministic mode they do not.
//
// Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// What all views have. Derived has lines(h).
template <class T, class Derived>
struct LineView {
  static constexpr bool in_blocks = false;  // whether neighbouring rows have the same column
  const T* values;
  const std::uint8_t* entries;
  std::int64_t rows, cols, height, hacks;

  PROTEAN_HOST_DEVICE std::int64_t hack(std::int64_t r) const {
    return hacks == 1 ? 0 : static_cast<std::uint32_t>(r) / static_cast<std::uint32_t>(height);
  }
  // Entries of hack h lie apart from its lines.
  PROTEAN_HOST_DEVICE bool apart(std::int64_t) const { return false; }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    self().for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t h = hack(p), i = p - h * height;
    for (auto l = self().lines(h); l.more(); l.next())
      if (l.stores(p) && (entries[l.byte(i)] >> (i % 8) & 1))
        f(static_cast<std::int32_t>(l.col(p)), l.at + p);
  }

 private:
  PROTEAN_HOST_DEVICE const Derived& self() const { return static_cast<const Derived&>(*this); }
};

// dia, hdi: line d of hack h is off[ptr[h] + d]; its values are the `height` ones from (ptr[h] + d) height on.
template <class T>
struct HackView : LineView<T, HackView<T>> {
  std::int64_t bit_bytes;
  const std::int64_t* ptr;
  const std::int32_t* off;

  struct Lines {
    const std::int32_t *now, *last;
    std::int64_t at, height, bits, bit_bytes, top, bottom, cols;
    PROTEAN_HOST_DEVICE bool more() const { return now < last; }
    PROTEAN_HOST_DEVICE void next() { ++now, at += height, bits += bit_bytes; }
    PROTEAN_HOST_DEVICE std::int64_t shift() const { return *now; }
    PROTEAN_HOST_DEVICE std::int64_t col(std::int64_t r) const { return r + *now; }
    PROTEAN_HOST_DEVICE std::int64_t begin() const { return -std::int64_t{*now} > top ? -*now : top; }
    PROTEAN_HOST_DEVICE std::int64_t end() const { return cols - *now < bottom ? cols - *now : bottom; }
    PROTEAN_HOST_DEVICE bool stores(std::int64_t) const { return true; }
    PROTEAN_HOST_DEVICE bool stores_some(std::int64_t, std::int64_t) const { return true; }
    PROTEAN_HOST_DEVICE std::int64_t byte(std::int64_t i) const { return bits + i / 8; }
  };
  PROTEAN_HOST_DEVICE Lines lines(std::int64_t h) const {
    const std::int64_t top = h * this->height, bottom = top + this->height;
    return {off + ptr[h],
            off + ptr[h + 1],
            ptr[h] * this->height - top,
            this->height,
            ptr[h] * bit_bytes,
            bit_bytes,
            top,
            bottom < this->rows ? bottom : this->rows,
            this->cols};
  }
  // All lines of hack h have all rows of [begin, end).
  bool inside(std::int64_t h, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = ptr[h], last = ptr[h + 1];
    return first == last || (begin + off[first] >= 0 && end + off[last - 1] <= this->cols);
  }
};

// bdia, crsd: band b has band_ptr[b + 1] - band_ptr[b] diagonals, from band_off[b] on. bdia is one hack with all bands.
// crsd: hacks pattern_hack[p] .. pattern_hack[p + 1] - 1 have the bands pattern_band[p] .. pattern_band[p + 1] - 1;
// before them lie the values of pattern_line[p] lines. The entries scatter_ptr[h] .. scatter_ptr[h + 1] - 1 of hack h,
// by rows and then columns, lie apart; their values stand after all lines.
template <class T>
struct BandView : LineView<T, BandView<T>> {
  std::int64_t bit_bytes;
  const std::int32_t* band_off;
  const std::int64_t *band_ptr, *pattern_hack, *pattern_band, *pattern_line;  // of patterns: null with bdia
  std::int64_t bands, patterns;
  const std::int64_t* scatter_ptr;  // null with bdia
  const std::int32_t *scatter_row, *scatter_col;
  std::int64_t scatter_values;  // number of the first such value

  struct Lines {
    const std::int32_t* band_off;
    const std::int64_t* band_ptr;
    std::int64_t band, last_band, left, off, at, height, bits, bit_bytes, top, bottom, cols;
    PROTEAN_HOST_DEVICE bool more() const { return band < last_band; }
    PROTEAN_HOST_DEVICE void open() {
      if (band < last_band) off = band_off[band], left = band_ptr[band + 1] - band_ptr[band];
    }
    PROTEAN_HOST_DEVICE void next() {
      ++off, at += height, bits += bit_bytes;
      if (--left == 0) ++band, open();
    }
    PROTEAN_HOST_DEVICE std::int64_t shift() const { return off; }
    PROTEAN_HOST_DEVICE std::int64_t col(std::int64_t r) const { return r + off; }
    PROTEAN_HOST_DEVICE std::int64_t begin() const { return -off > top ? -off : top; }
    PROTEAN_HOST_DEVICE std::int64_t end() const { return cols - off < bottom ? cols - off : bottom; }
    PROTEAN_HOST_DEVICE bool stores(std::int64_t) const { return true; }
    PROTEAN_HOST_DEVICE bool stores_some(std::int64_t, std::int64_t) const { return true; }
    PROTEAN_HOST_DEVICE std::int64_t byte(std::int64_t i) const { return bits + i / 8; }
  };
  // The last p with pattern_hack[p] <= h.
  PROTEAN_HOST_DEVICE std::int64_t pattern(std::int64_t h) const {
    return first_where<std::int64_t>(1, patterns, [&](std::int64_t p) { return pattern_hack[p] > h; }) - 1;
  }
  PROTEAN_HOST_DEVICE Lines lines(std::int64_t h) const {
    std::int64_t first = 0, last = bands, line = 0;
    if (pattern_hack) {
      const std::int64_t p = pattern(h);
      first = pattern_band[p], last = pattern_band[p + 1];
      line = pattern_line[p] + (h - pattern_hack[p]) * (band_ptr[last] - band_ptr[first]);
    }
    const std::int64_t top = h * this->height, bottom = top + this->height;
    Lines l{band_off,
            band_ptr,
            first,
            last,
            0,
            0,
            line * this->height - top,
            this->height,
            line * bit_bytes,
            bit_bytes,
            top,
            bottom < this->rows ? bottom : this->rows,
            this->cols};
    l.open();
    return l;
  }
  PROTEAN_HOST_DEVICE bool apart(std::int64_t h) const {
    return scatter_ptr && scatter_ptr[h] < scatter_ptr[h + 1];
  }
  // The first entry apart of row r or later in hack h.
  PROTEAN_HOST_DEVICE std::int64_t first_apart(std::int64_t h, std::int64_t r) const {
    return first_where<std::int64_t>(scatter_ptr[h], scatter_ptr[h + 1],
                                     [&](std::int64_t i) { return scatter_row[i] >= r; });
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t h = this->hack(p);
    if (!apart(h)) {
      LineView<T, BandView<T>>::for_entries(p, f);
      return;
    }
    std::int64_t k = first_apart(h, p);
    const std::int64_t last = scatter_ptr[h + 1];
    const auto until = [&](std::int64_t col) {
      for (; k < last && scatter_row[k] == p && scatter_col[k] < col; ++k)
        f(scatter_col[k], scatter_values + k);
    };
    LineView<T, BandView<T>>::for_entries(p, [&](std::int32_t col, std::int64_t place) {
      until(col);
      f(col, place);
    });
    until(this->cols);
  }
};

// ddd-naive, ddd-split: segment s has the values ptr[s] .. ptr[s + 1] - 1, of the rows from first[s] on. Hack h has the
// segments hack_ptr[h] .. hack_ptr[h + 1] - 1, by offset and then row. Without hack_ptr there is one hack with all
// segments; without `first` each segment begins in the first row that has its column. A segment has bytes of bits of
// its own.
template <class T>
struct SegmentView : LineView<T, SegmentView<T>> {
  std::int64_t segments;
  const std::int64_t* hack_ptr;
  const std::int32_t *off, *first_row;
  const std::int64_t* ptr;

  struct Lines {
    const std::int32_t *its_off, *first_row;
    const std::int64_t* ptr;
    std::int64_t s, last_s, top, off, first, last, at;
    PROTEAN_HOST_DEVICE bool more() const { return s < last_s; }
    PROTEAN_HOST_DEVICE void open() {
      if (s == last_s) return;
      off = its_off[s];
      first = first_row ? first_row[s] : off < 0 ? -off : 0;
      at = ptr[s] - first, last = first + ptr[s + 1] - ptr[s];
    }
    PROTEAN_HOST_DEVICE void next() { ++s, open(); }
    PROTEAN_HOST_DEVICE std::int64_t shift() const { return off; }
    PROTEAN_HOST_DEVICE std::int64_t col(std::int64_t r) const { return r + off; }
    PROTEAN_HOST_DEVICE std::int64_t begin() const { return first; }
    PROTEAN_HOST_DEVICE std::int64_t end() const { return last; }
    PROTEAN_HOST_DEVICE bool stores(std::int64_t r) const { return r >= first && r < last; }
    PROTEAN_HOST_DEVICE bool stores_some(std::int64_t r, std::int64_t stop) const {
      return r < last && stop > first;
    }
    // n values from any row on touch at most n / 8 + 2 bytes.
    PROTEAN_HOST_DEVICE std::int64_t byte(std::int64_t i) const {
      return ptr[s] / 8 + 2 * s + i / 8 - (first - top) / 8;
    }
  };
  PROTEAN_HOST_DEVICE static std::int64_t bytes_of_bits(std::int64_t values, std::int64_t segments) {
    return values / 8 + 2 * segments;
  }
  PROTEAN_HOST_DEVICE Lines lines(std::int64_t h) const {
    Lines l{off,
            first_row,
            ptr,
            hack_ptr ? hack_ptr[h] : 0,
            hack_ptr ? hack_ptr[h + 1] : segments,
            h * this->height,
            0,
            0,
            0,
            0};
    l.open();
    return l;
  }
};

// cds: rows and columns lie in blocks of b. Line d b + c has the values of column c of the blocks that are off[d]
// blocks right of the diagonal one. One hack.
template <class T>
struct BlockLineView : LineView<T, BlockLineView<T>> {
  static constexpr bool in_blocks = true;
  std::int64_t b, bit_bytes, diagonals;
  const std::int32_t* off;

  // The first row of the block that row r lies in.
  PROTEAN_HOST_DEVICE std::int64_t block_row(std::int64_t r) const {
    return r - static_cast<std::uint32_t>(r) % static_cast<std::uint32_t>(b);
  }
  struct Lines {
    const std::int32_t *now, *last;
    std::int64_t c, b, base, at, bits, rows, bit_bytes, cols;
    PROTEAN_HOST_DEVICE bool more() const { return now < last; }
    PROTEAN_HOST_DEVICE void open() {
      if (now < last) base = *now * b;
    }
    PROTEAN_HOST_DEVICE void next() {
      at += rows, bits += bit_bytes;
      if (++c == b) c = 0, ++now, open();
    }
    // The column of a row in block row 0.
    PROTEAN_HOST_DEVICE std::int64_t shift() const { return base + c; }
    PROTEAN_HOST_DEVICE std::int64_t col(std::int64_t r) const {
      return r - static_cast<std::uint32_t>(r) % static_cast<std::uint32_t>(b) + base + c;
    }
    PROTEAN_HOST_DEVICE std::int64_t begin() const { return base < 0 ? -base : 0; }
    PROTEAN_HOST_DEVICE std::int64_t end() const {
      const std::int64_t right = cols - base - c;  // of a block's first row, columns up to the edge
      const std::int64_t past = right > 0 ? (right + b - 1) / b * b : 0;
      return past < rows ? past : rows;
    }
    PROTEAN_HOST_DEVICE bool stores(std::int64_t) const { return true; }
    PROTEAN_HOST_DEVICE bool stores_some(std::int64_t, std::int64_t) const { return true; }
    PROTEAN_HOST_DEVICE std::int64_t byte(std::int64_t i) const { return bits + i / 8; }
  };
  PROTEAN_HOST_DEVICE Lines lines(std::int64_t) const {
    Lines l{off, off + diagonals, 0, b, 0, 0, 0, this->rows, bit_bytes, this->cols};
    l.open();
    return l;
  }
};

// Calls f(first, end) for the runs of set bits below `size`. Fewer than `gap` zeros do not end a run.
template <class F>
PROTEAN_HOST_DEVICE void for_runs(const std::uint8_t* bits, std::int64_t size, std::int64_t gap, F&& f) {
  std::int64_t first = -1, last = -1;  // of the run that is open
  for (std::int64_t i = 0; i < size; ++i) {
    if (!(bits[i / 8] >> (i % 8) & 1)) continue;
    if (first >= 0 && i - last > gap) {
      f(first, last + 1);
      first = i;
    }
    if (first < 0) first = i;
    last = i;
  }
  if (first >= 0) f(first, last + 1);
}

// The rows of a matrix in which diagonal `off` has a column.
PROTEAN_HOST_DEVICE inline std::int64_t true_length(std::int64_t off, std::int64_t rows, std::int64_t cols) {
  const std::int64_t begin = off < 0 ? -off : 0, end = cols - off < rows ? cols - off : rows;
  return end > begin ? end - begin : 0;
}

// Bytes of values, offsets and entry bits of `diagonals` diagonals of `height` rows.
inline std::size_t diagonal_bytes(std::int64_t diagonals, std::int64_t height, std::size_t value_bytes) {
  return static_cast<std::size_t>(diagonals) *
         (static_cast<std::size_t>(height) * value_bytes + 4 + static_cast<std::size_t>((height + 7) / 8));
}

// Admission of `stored` values and `bytes` bytes in all. Refuses more than max_fill values an entry.
Admission admit_stored(std::int64_t stored, std::size_t bytes, const SparsityPattern& pattern,
                       const FormatParams& params);

// Admission of dia and hdi: `diagonals` diagonals of `height` rows, and `other` bytes.
constexpr std::size_t dia_ptr_bytes = 16;  // of one hack
inline Admission admit_diagonals(std::int64_t diagonals, std::int64_t height, std::size_t other,
                                 const SparsityPattern& pattern, const FormatParams& params,
                                 std::size_t value_bytes) {
  return admit_stored(height * diagonals, diagonal_bytes(diagonals, height, value_bytes) + other, pattern,
                      params);
}

// Admission of bdia.
inline Admission admit_bands(std::int64_t diagonals, std::int64_t bands, const SparsityPattern& pattern,
                             const FormatParams& params, std::size_t value_bytes) {
  const std::int64_t other = diagonals * ((pattern.rows + 7) / 8) + 4 * bands + 8 * (bands + 1);
  return admit_stored(
      pattern.rows * diagonals,
      static_cast<std::size_t>(pattern.rows * diagonals) * value_bytes + static_cast<std::size_t>(other),
      pattern, params);
}

// The bytes of ddd-naive and ddd-split: per segment its pointer and index_bytes, and `other` bytes.
inline Admission admit_segments(std::int64_t values, std::int64_t segments, std::int64_t index_bytes,
                                std::size_t other, const SparsityPattern& pattern, const FormatParams& params,
                                std::size_t value_bytes) {
  const std::int64_t tables =
      index_bytes * segments + 8 * (segments + 1) + SegmentView<float>::bytes_of_bits(values, segments);
  return admit_stored(
      values, static_cast<std::size_t>(values) * value_bytes + static_cast<std::size_t>(tables) + other,
      pattern, params);
}

}  // namespace protean::formats
