// The slots engine: ELLPACK and all its relatives. Rows lie in slices of C positions; every slice is as wide as its
// longest row. ELLPACK is one slice of all rows. slices.hpp is the host side, slices.cuh the device side,
// slot_product.hpp the product of the host.
//
//   order columns: slot k of lane i        order threads, T = 2: slot k of lane i
//   at first + k C + i                     at first + (k / T) C T + i T + k % T
//
//     lane  0 1 2 3                          lane   0     1     2     3
//     k = 0 a d g h                          k 0,1  a b   d e   g .   h i
//     k = 1 b e . i                          k 2,3  c .   . .   . .   j .
//     k = 2 c . . j
//
// A GPU gives a row one thread or `split` threads (columns: thread t takes the slots k = t, t + split, ...; threads: T
// neighbouring threads take neighbouring slots). A host gives a row a SIMD lane (columns) or a vector (threads).
//
// Private to formats/.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

enum class LaneOrder : unsigned char { columns, threads };
// What the array of lengths holds: entries of a row; steps of T slots (rounded up); or there is no such array.
enum class LaneLengths : unsigned char { entries, steps, none };

// The slots of the row at one position.
struct LaneSlots {
  std::int64_t base, C, width;  // width of its slice
  int T;
  LaneOrder order;
  PROTEAN_HOST_DEVICE std::int64_t slot(std::int64_t k) const {
    return order == LaneOrder::columns ? base + k * C : base + k / T * C * T + k % T;
  }
};

// A shape before the widths are known. C = 0: one slice of all rows, rounded up to a multiple of `align`.
struct SliceRule {
  std::int64_t C = 32, align = 8;
  std::int64_t window = 0;  // rows are sorted by length in windows of that many; 0: they keep their order
  bool sort_if_it_pays = false;  // the same, but only if sorting saves slots and there is much padding
  int padding = -1;  // -1: all slices have C rows; else C at most, and at most this percentage of padding
  int threads = 1;   // T of order threads
  int round = 1;     // widths are multiples of it
  LaneOrder order = LaneOrder::columns;
  LaneLengths kind = LaneLengths::entries;
  bool diagonal_apart = false;
  bool diagonal_index = false;  // one int32 a row: which entry of the row is the diagonal one, -1: none

  bool variable() const { return padding >= 0; }
  // If no array has the lengths, a list has the rows that padding would be mistaken for entries of.
  bool lists_absent() const { return kind == LaneLengths::none; }
  std::int64_t height(std::int64_t rows) const {
    return C > 0 ? C : std::max<std::int64_t>(align, (rows + align - 1) / align * align);
  }
  // Blocks of C rows: the slices, unless their heights vary.
  std::int64_t blocks(std::int64_t rows) const { return (rows + height(rows) - 1) / height(rows); }
};

// What admit() finds on either side. If there is one slice, slice_ptr is {0, slots}.
struct SliceCounts {
  std::int64_t slots = 0, slices = 0, absent = 0;
};

// Cuts a block of `count` rows into slices: a slice takes the next row as long as at most `percent` of its slots are
// padding. length(i) is the length of row i of the block. Calls slice(first row, rows, width) for each.
template <class Length, class Slice>
PROTEAN_HOST_DEVICE void cut_block(std::int64_t count, int percent, Length length, Slice slice) {
  std::int64_t first = 0, width = 0, entries = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t mine = length(i), wider = mine > width ? mine : width;
    const std::int64_t slots = (i + 1 - first) * wider;
    if (i > first && (slots - entries - mine) * 100 > slots * percent) {
      slice(first, i - first, width);
      first = i, width = mine, entries = mine;
    } else {
      width = wider, entries += mine;
    }
  }
  if (count > 0) slice(first, count - first, width);
}

// The arrays of a matrix in slices; a view of its rows in the sense of row_view.hpp. Padding has the value 0 and
// repeats the row's last column. A row without entries in slots has its own column if the diagonal is apart, else 0.
template <class T>
struct SliceView {
  const T* values;  // [slots], then [rows] the diagonal if it is apart
  const std::int32_t* col;
  const std::int64_t* slice_ptr;  // null: one slice, of one_width slots a row
  const std::int32_t*
      row_start;                // first position of each slice if their heights vary, then `rows`; else null
  const std::int32_t* lengths;  // of positions; null with LaneLengths::none
  const std::int32_t* perm;     // position -> row; null when they are the same
  const std::int32_t*
      absent;  // ascending: rows without a diagonal entry if the diagonal is apart; else positions of
               // rows without entries if there are no lengths
  std::int64_t absent_count;
  std::int64_t rows, places, C, one_width, slots, slices;
  int shift;    // C = 2^shift, or -1
  int threads;  // T of the order
  LaneOrder order;
  LaneLengths kind;
  bool diagonal_apart;

  void set_shape(const SliceRule& rule, std::int64_t matrix_rows, const SliceCounts& counts);

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return places; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p >= rows ? -1 : perm ? perm[p] : p; }
  // If the heights vary: the slice of a position.
  PROTEAN_HOST_DEVICE std::int64_t slice_of_position(std::int64_t p) const {
    return first_where<std::int64_t>(1, slices, [&](std::int64_t s) { return row_start[s] > p; }) - 1;
  }
  PROTEAN_HOST_DEVICE LaneSlots at(std::int64_t p) const {
    const std::int64_t lane = order == LaneOrder::columns ? 1 : threads;
    if (!slice_ptr) return {p * lane, C, one_width, threads, order};
    if (row_start) {
      const std::int64_t s = slice_of_position(p), height = row_start[s + 1] - row_start[s];
      return {slice_ptr[s] + p - row_start[s], height, (slice_ptr[s + 1] - slice_ptr[s]) / height, 1, order};
    }
    const std::int64_t s = shift >= 0 ? p >> shift : p / C, first = slice_ptr[s],
                       all = slice_ptr[s + 1] - first;
    return {first + (p - s * C) * lane, C, shift >= 0 ? all >> shift : all / C, threads, order};
  }
  PROTEAN_HOST_DEVICE bool is_absent(std::int64_t i) const {
    const std::int64_t low =
        first_where<std::int64_t>(0, absent_count, [&](std::int64_t j) { return absent[j] >= i; });
    return low < absent_count && absent[low] == i;
  }
  PROTEAN_HOST_DEVICE bool has_diagonal(std::int64_t r) const { return diagonal_apart && !is_absent(r); }
  // Calls f(column, slot) for the entries in slots, all except the diagonal one if that is apart, until it returns
  // false. Columns ascend, and padding repeats one.
  template <class F>
  PROTEAN_HOST_DEVICE void walk(std::int64_t p, F&& f) const {
    const LaneSlots to = at(p);
    std::int64_t end = to.width;
    if (kind == LaneLengths::entries) end = lengths[p];
    if (kind == LaneLengths::steps) end = std::int64_t{lengths[p]} * threads;
    if (kind == LaneLengths::none && end > 0 && !diagonal_apart && absent_count > 0 && is_absent(p)) end = 0;
    // Without entries a row's padding has its own column there, which no entry in a slot has.
    std::int32_t last = -1;
    const std::int64_t own = diagonal_apart ? row(p) : -1;
    for (std::int64_t k = 0; k < end; ++k) {
      const std::int64_t slot = to.slot(k);
      const std::int32_t column = col[slot];
      if (column <= last || column == own || !f(column, slot)) return;
      last = column;
    }
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = has_diagonal(row(p));
    if (kind == LaneLengths::entries) return count + lengths[p];
    walk(p, [&](std::int32_t, std::int64_t) { return ++count, true; });
    return count;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t r = row(p);
    bool wanted = has_diagonal(r);
    walk(p, [&](std::int32_t column, std::int64_t slot) {
      if (wanted && column > r) f(static_cast<std::int32_t>(r), slots + r), wanted = false;
      f(column, slot);
      return true;
    });
    if (wanted) f(static_cast<std::int32_t>(r), slots + r);
  }
  // The diagonal entry of the row at position p; 0 if it has none. index: of positions, which entry it is (-1:
  // none), or null.
  PROTEAN_HOST_DEVICE T diagonal(std::int64_t p, const std::int32_t* index) const {
    const std::int64_t r = row(p);
    if (diagonal_apart) return values[slots + r];
    if (index) return index[p] < 0 ? T(0) : values[at(p).slot(index[p])];
    T found = 0;
    walk(p, [&](std::int32_t column, std::int64_t slot) {
      if (column == r) found = values[slot];
      return column < r;
    });
    return found;
  }
};

template <class T>
void SliceView<T>::set_shape(const SliceRule& rule, std::int64_t matrix_rows, const SliceCounts& counts) {
  rows = matrix_rows, slots = counts.slots, slices = counts.slices, C = rule.height(rows);
  places = rule.variable() ? rows : rule.blocks(rows) * C;
  one_width = slots / C;
  shift = std::has_single_bit(static_cast<std::uint64_t>(C)) ? std::countr_zero(static_cast<std::uint64_t>(C))
                                                             : -1;
  threads = rule.threads, order = rule.order, kind = rule.kind, diagonal_apart = rule.diagonal_apart;
}

// The entries of one row of csr that go into slots: entry k lies at from(k).
struct RowSource {
  std::int64_t begin, length;
  std::int64_t diagonal;  // the entry that is apart, counted from begin; -1: none
  PROTEAN_HOST_DEVICE std::int64_t count() const { return length - (diagonal >= 0); }
  PROTEAN_HOST_DEVICE std::int64_t from(std::int64_t k) const {
    return begin + k + (diagonal >= 0 && k >= diagonal);
  }
};

// True when rows in their own order store little enough padding.
inline bool pays_unsorted(std::int64_t slots, std::int64_t nonzeros) {
  return static_cast<double>(slots) <= 1.15 * static_cast<double>(nonzeros);
}

// The bytes of all arrays.
inline std::size_t slice_bytes(const SliceRule& rule, const SliceCounts& counts, std::int64_t rows,
                               std::size_t value_bytes) {
  std::size_t bytes = static_cast<std::size_t>(counts.slots) * (value_bytes + 4);
  if (rule.C > 0) bytes += (rule.variable() ? 12 : 8) * static_cast<std::size_t>(counts.slices + 1);
  std::size_t a_row = 0;
  if (rule.kind != LaneLengths::none) a_row += 4;
  if (rule.window > 0) a_row += 4;
  if (rule.diagonal_index) a_row += 4;
  if (rule.diagonal_apart) a_row += value_bytes;
  return bytes + a_row * static_cast<std::size_t>(rows) + 4 * static_cast<std::size_t>(counts.absent);
}

// Why this rule does not suit the matrix, before anything is counted; empty when it does.
std::string refusal_of(const SliceRule& rule, const SparsityPattern& pattern);

// Refuses when more than max_fill (of the parameters) values an entry would be stored.
Admission admit_slots(const SliceRule& rule, const SliceCounts& counts, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes);

constexpr ParamDoc slice_fill_param = {.name = "max_fill",
                                       .doc = "the format refuses more stored values per entry than this",
                                       .default_value = "4",
                                       .smallest = 1,
                                       .largest = 1'000'000};

// The rules that formats make of their parameters, for host and device.
using RuleOf = SliceRule(const SparsityPattern& pattern, const FormatParams& params);
RuleOf ell_rule, sell_c_sigma_rule_on_host, sell_c_sigma_rule_on_device, sell_variable_rule, hll_rule,
    sliced_ellr_t_rule, bin_csr_rule;

}  // namespace protean::formats
