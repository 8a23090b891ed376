// Pieces of rows: the entries that a row has in one tile. A format cuts the columns into tiles, stores the pieces tile
// by tile in its own order, and keeps for each row the positions of its pieces. This is what host and device share;
// tile_pieces.cuh is the device side.
//
//        | a b . c |     tiles of 2 columns: pieces  ab  d | c  e f     by rows   r0: ab c   r1: d e   r3: f
//    A = | . d e . |     stored in each tile longest first, by position p = 0 1 2 3 4:  ab d | c e f
//        | . . . . |     piece_ptr = 0 2 4 4 5     the pieces of each row, in `piece`, by ascending columns
//        | . . f . |     piece     = 0 2 1 3 4     their positions
//                        row       = 0 1 0 1 3     the row at each position
//
// A product computes the sum of each piece first, then the sum of the pieces of each row in their order: rows that lie
// in several tiles need neither atomic operations nor an order of the tiles. `Place` knows where a piece lies:
// place.span(p) are `count` slots from `begin` on, `stride` apart. Padding follows the entries, has the value 0, and
// repeats the last column of the piece; a piece has at least one entry. Private to formats/.
#pragma once
#include <cstdint>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

struct PieceSpan {
  std::int64_t begin, stride, count;
};

// A view of the rows in the sense of row_view.hpp. Position p of that view is row p.
template <class T, class Place>
struct PieceView {
  const T* values;
  const std::int32_t* col;
  const std::int64_t* piece_ptr;  // [rows + 1]
  const std::int32_t *piece, *piece_row;
  std::int64_t rows;
  Place place;
  // If the columns were sorted before they were cut: order[c] is the number in the matrix of column c. Else null. The
  // entries of a piece lie by ascending columns of the matrix in both cases.
  const std::int32_t* order;

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (order) return for_sorted_entries(p, f);
    for (std::int64_t s = piece_ptr[p]; s < piece_ptr[p + 1]; ++s) {
      const PieceSpan span = place.span(piece[s]);
      std::int32_t last = -1;
      for (std::int64_t k = 0, at = span.begin; k < span.count && col[at] > last; ++k, at += span.stride)
        f(last = col[at], at);
    }
  }

 private:
  // Columns of the pieces of a row interleave: the next one of all pieces each time.
  template <class F>
  PROTEAN_HOST_DEVICE void for_sorted_entries(std::int64_t p, F& f) const {
    for (std::int32_t last = -1;;) {
      std::int32_t next = -1;
      std::int64_t place_of_next = 0;
      for (std::int64_t s = piece_ptr[p]; s < piece_ptr[p + 1]; ++s) {
        const PieceSpan span = place.span(piece[s]);
        const auto place_of = [&](std::int64_t k) { return span.begin + k * span.stride; };
        const std::int64_t k = first_where(std::int64_t{0}, span.count,
                                           [&](std::int64_t i) { return order[col[place_of(i)]] > last; });
        if (k == span.count) continue;
        const std::int32_t found = order[col[place_of(k)]];
        if (next < 0 || found < next) next = found, place_of_next = place_of(k);
      }
      if (next < 0) return;
      f(last = next, place_of_next);
    }
  }
};

// tile-composite: the pieces of a tile, longest first, are cut into workloads. A workload of h pieces, the longest of
// which has w entries, is a CSR matrix if w >= h, else ELLPACK: slot k of its piece i at k h + i.
struct CompositePlace {
  const std::int64_t* work_slot;   // [workloads + 1]
  const std::int32_t* work_piece;  // [workloads + 1] the first position
  const std::int32_t*
      extent;  // csr: the end of the piece, from the workload's first slot; ELLPACK: its entries
  std::int64_t workloads;

  // In both kinds the extent of the first piece is w.
  PROTEAN_HOST_DEVICE static bool is_csr(std::int64_t w, std::int64_t h) { return w >= h; }
  PROTEAN_HOST_DEVICE PieceSpan span_in(std::int64_t work, std::int64_t p) const {
    const std::int64_t first = work_piece[work], h = work_piece[work + 1] - first;
    if (!is_csr(extent[first], h)) return {work_slot[work] + p - first, h, extent[p]};
    const std::int64_t before = p > first ? extent[p - 1] : 0;
    return {work_slot[work] + before, 1, extent[p] - before};
  }
  PROTEAN_HOST_DEVICE std::int64_t work_of(std::int64_t p) const {
    return first_where(std::int64_t{1}, workloads, [&](std::int64_t w) { return work_piece[w] > p; }) - 1;
  }
  PROTEAN_HOST_DEVICE PieceSpan span(std::int64_t p) const { return span_in(work_of(p), p); }
  // With its padding.
  PROTEAN_HOST_DEVICE PieceSpan padded(std::int64_t p) const {
    const std::int64_t work = work_of(p), first = work_piece[work], h = work_piece[work + 1] - first;
    PieceSpan all = span_in(work, p);
    if (!is_csr(extent[first], h)) all.count = extent[first];
    return all;
  }
};

// Where a workload begins: at a tile, where the entries before pass a multiple of `work`, and where the pieces become
// shorter than a power of two, so that ELLPACK never doubles them.
struct CompositeRule {
  std::int64_t tile, work;
  std::int64_t tiles;  // at most; the last one has all columns that are left
  bool by_degree;      // columns are sorted by their entries before they are cut
  PROTEAN_HOST_DEVICE std::int64_t tile_of(std::int64_t column) const {
    const std::int64_t number = column / tile;
    return number < tiles ? number : tiles - 1;
  }
  PROTEAN_HOST_DEVICE static int length_class(std::int64_t length) {
    int bits = 0;
    for (; length > 0; length /= 2) ++bits;
    return bits;
  }
  PROTEAN_HOST_DEVICE bool begins(std::int64_t entries_before, std::int64_t length_before,
                                  std::int64_t length) const {
    return entries_before / work != (entries_before - length_before) / work ||
           length_class(length_before) != length_class(length);
  }
  static std::int64_t slots(std::int64_t w, std::int64_t h, std::int64_t entries) {
    return CompositePlace::is_csr(w, h) ? entries : w * h;
  }
};

// vsl: a piece is padded to whole groups of `pad` slots.
struct VslPlace {
  const std::int64_t* group_ptr;  // [pieces + 1]
  std::int64_t pad;
  PROTEAN_HOST_DEVICE PieceSpan span(std::int64_t p) const {
    return {group_ptr[p] * pad, 1, (group_ptr[p + 1] - group_ptr[p]) * pad};
  }
  PROTEAN_HOST_DEVICE PieceSpan padded(std::int64_t p) const { return span(p); }
};

// Blocks of rows, cut into parts of columns. The entries of a part, row by row, are divided evenly among the channels.
struct VslRule {
  std::int64_t rows, columns, channels, pad;
  // The channel of entry i of a part with n entries.
  PROTEAN_HOST_DEVICE std::int64_t channel(std::int64_t i, std::int64_t n) const {
    return ((i + 1) * channels - 1) / n;
  }
  // The entries of channel c begin here.
  PROTEAN_HOST_DEVICE std::int64_t first_entry(std::int64_t c, std::int64_t n) const {
    return n * c / channels;
  }
  // The pieces of a row that has the entries i to i + count - 1 of the part: none for a channel without entries.
  PROTEAN_HOST_DEVICE std::int64_t pieces(std::int64_t i, std::int64_t count, std::int64_t n) const {
    const std::int64_t most = channel(i + count - 1, n) - channel(i, n) + 1;
    return count < most ? count : most;
  }
  PROTEAN_HOST_DEVICE std::int64_t groups(std::int64_t count) const { return (count + pad - 1) / pad; }
};

// What admit() says of this many pieces and slots, with other bytes of the format.
Admission admit_pieces(const SparsityPattern& pattern, std::int64_t pieces, std::int64_t slots,
                       std::size_t other_bytes, const FormatParams& params, std::size_t value_bytes);

// Products on the host.
template <class T, class Place>
struct PieceProduct {
  PieceView<T, Place> a;
  T alpha;
  const T* x;
  T beta;
  T* y;
};
// y += alpha A x for the workloads [begin, end), whose rows are distinct.
void add_workloads(const PieceProduct<double, CompositePlace>& product, std::int64_t begin, std::int64_t end);
void add_workloads(const PieceProduct<float, CompositePlace>& product, std::int64_t begin, std::int64_t end);
// sums[row - first_row] += A x for the pieces [begin, end).
void add_groups(const PieceProduct<double, VslPlace>& product, std::int64_t begin, std::int64_t end,
                std::int64_t first_row, double* sums);
void add_groups(const PieceProduct<float, VslPlace>& product, std::int64_t begin, std::int64_t end,
                std::int64_t first_row, float* sums);

}  // namespace protean::formats
