// The slots engine for slices whose rows know their lengths: HLL, ELLPACK-R, ELLR-T and their relatives. Rows lie in
// slices of C positions; every slice is as wide as its longest row. (formats/ell/slots.hpp is the part of the engine for
// padded rows without lengths.)
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
  int threads = 1;  // T: widths are multiples of it
  LaneOrder order = LaneOrder::columns;
  LaneLengths kind = LaneLengths::entries;
  bool sort_all = false, diagonal_apart = false;
  bool diagonal_index = false;  // one int32 a row: which entry of the row is the diagonal one, -1: none

  std::int64_t height(std::int64_t rows) const {
    return C > 0 ? C : std::max<std::int64_t>(align, (rows + align - 1) / align * align);
  }
  std::int64_t slices(std::int64_t rows) const { return (rows + height(rows) - 1) / height(rows); }
};

// The arrays of a matrix in slices; a view of its rows in the sense of row_view.hpp. Padding has the value 0 and repeats the
// row's last column; the first slot of a row without entries has its own column where the diagonal is apart, else 0.
template <class T>
struct SliceView {
  const T* values;  // [slots], then [rows] the diagonal where it is apart
  const std::int32_t* col;
  const std::int64_t* slice_ptr;  // null: one slice, of one_width slots a row
  const std::int32_t* lengths;    // of positions; null with LaneLengths::none
  const std::int32_t* perm;       // position -> row; null when they are the same
  const std::int32_t* without;    // rows without a diagonal entry, ascending, where the diagonal is apart
  std::int64_t without_count;
  std::int64_t rows, places, C, one_width, slots;
  int shift;    // C = 2^shift, or -1
  int threads;  // T of the order
  LaneOrder order;
  LaneLengths kind;
  bool diagonal_apart;

  // For slices of C positions, or one of all `rows` when slice_ptr is null.
  void set_shape(const SliceRule& rule, std::int64_t matrix_rows, std::int64_t all_slots);

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return places; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p >= rows ? -1 : perm ? perm[p] : p; }
  PROTEAN_HOST_DEVICE LaneSlots at(std::int64_t p) const {
    const std::int64_t lane = order == LaneOrder::columns ? 1 : threads;
    if (!slice_ptr) return {p * lane, C, one_width, threads, order};
    const std::int64_t s = shift >= 0 ? p >> shift : p / C, first = slice_ptr[s];
    return {first + (p - s * C) * lane, C, (slice_ptr[s + 1] - first) / C, threads, order};
  }
  // The entries that lie in slots: all but the diagonal one where that is apart.
  PROTEAN_HOST_DEVICE std::int64_t stored(std::int64_t p, const LaneSlots& at) const {
    if (kind == LaneLengths::entries) return lengths[p];
    std::int64_t k = 1, end = at.width;
    if (kind == LaneLengths::steps) {
      end = std::int64_t{lengths[p]} * threads;
      k = end > threads ? end - threads + 1 : 1;
    } else if (diagonal_apart && end > 0 && col[at.slot(0)] == row(p)) {
      return 0;  // no entry in a slot has this column
    }
    if (end == 0) return 0;
    while (k < end && col[at.slot(k)] > col[at.slot(k - 1)]) ++k;
    return k;
  }
  PROTEAN_HOST_DEVICE bool has_diagonal(std::int64_t r) const {
    std::int64_t low = 0, high = without_count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (without[middle] < r)
        low = middle + 1;
      else
        high = middle;
    }
    return low == without_count || without[low] != r;
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    return stored(p, at(p)) + (diagonal_apart && has_diagonal(row(p)));
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const LaneSlots slots_of_row = at(p);
    const std::int64_t count = stored(p, slots_of_row), r = row(p);
    bool wanted = diagonal_apart && has_diagonal(r);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t slot = slots_of_row.slot(k);
      if (wanted && col[slot] > r) f(static_cast<std::int32_t>(r), slots + r), wanted = false;
      f(col[slot], slot);
    }
    if (wanted) f(static_cast<std::int32_t>(r), slots + r);
  }
  // Writes all slots of the row at position p: its entries, then padding.
  template <class RowPtr>
  PROTEAN_HOST_DEVICE void fill(std::int64_t p, const RowPtr& row_ptr, const std::int32_t* from_col,
                                const T* from_values, std::int32_t* to_col, T* to_values) const {
    const LaneSlots slots_of_row = at(p);
    const std::int64_t r = row(p);
    std::int32_t last = diagonal_apart && r >= 0 ? static_cast<std::int32_t>(r) : 0;
    std::int64_t k = 0;
    if (diagonal_apart && r >= 0) to_values[slots + r] = T(0);
    if (r >= 0)
      for (std::int64_t from = row_ptr[r], end = row_ptr[r + 1]; from < end; ++from) {
        if (diagonal_apart && from_col[from] == r) {
          to_values[slots + r] = from_values[from];
          continue;
        }
        const std::int64_t slot = slots_of_row.slot(k++);
        last = from_col[from];
        to_col[slot] = last, to_values[slot] = from_values[from];
      }
    for (; k < slots_of_row.width; ++k) {
      const std::int64_t slot = slots_of_row.slot(k);
      to_col[slot] = last, to_values[slot] = T(0);
    }
  }
};

template <class T>
void SliceView<T>::set_shape(const SliceRule& rule, std::int64_t matrix_rows, std::int64_t all_slots) {
  rows = matrix_rows, slots = all_slots, C = rule.height(rows);
  places = rule.slices(rows) * C, one_width = all_slots / C;
  shift = std::has_single_bit(static_cast<std::uint64_t>(C)) ? std::countr_zero(static_cast<std::uint64_t>(C))
                                                             : -1;
  threads = rule.threads, order = rule.order, kind = rule.kind, diagonal_apart = rule.diagonal_apart;
}

// What admit() finds on either side. Where there is one slice, slice_ptr is {0, slots}.
struct SliceCounts {
  std::int64_t slots = 0, without_diagonal = 0;
};

// The bytes of all arrays.
inline std::size_t slice_bytes(const SliceRule& rule, const SliceCounts& counts, std::int64_t rows,
                               std::size_t value_bytes) {
  std::size_t bytes = static_cast<std::size_t>(counts.slots) * (value_bytes + 4);
  if (rule.C > 0) bytes += 8 * static_cast<std::size_t>(rule.slices(rows) + 1);
  std::size_t a_row = 0;
  if (rule.kind != LaneLengths::none) a_row += 4;
  if (rule.sort_all) a_row += 4;
  if (rule.diagonal_index) a_row += 4;
  if (rule.diagonal_apart) a_row += value_bytes;
  return bytes + a_row * static_cast<std::size_t>(rows) +
         4 * static_cast<std::size_t>(counts.without_diagonal);
}

// Why this rule does not suit the matrix, before anything is counted; empty when it does.
std::string refusal_of(const SliceRule& rule, const SparsityPattern& pattern);

// Refuses when more than max_fill (of the parameters) values an entry would be stored.
Admission admit_slots(const SliceRule& rule, const SliceCounts& counts, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes);

constexpr ParamDoc slice_fill_param = {.name = "max_fill",
                                       .doc = "stored values an entry above which the format refuses",
                                       .default_value = "4",
                                       .smallest = 1,
                                       .largest = 1'000'000};

// The rules that formats make of their parameters, for host and device.
SliceRule hll_rule(const SparsityPattern& pattern, const FormatParams& params);
SliceRule sliced_ellr_t_rule(const SparsityPattern& pattern, const FormatParams& params);
SliceRule bin_csr_rule(const SparsityPattern& pattern, const FormatParams& params);

}  // namespace protean::formats
