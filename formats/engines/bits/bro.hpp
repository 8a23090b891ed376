// Rows whose columns, and coordinates whose rows, are differences in few bits (bits.hpp): bro-ell, bro-csr, bro-coo,
// and sums of the first with one of the others. This is what host and device share; bro.cpp is the host side with the
// product in bro_kernel.cpp, bro.cu the device side. Private to formats/.
//
//             the first K entries     the others: the tail
//   row 0     a b                                          slices   slots of h rows side by side, as in sell
//   row 1     c d                     e f g                rows     the entries of a row side by side, as in csr
//   row 2     h                                            entries  side by side without regard to rows, as in coo
//
// slices   Position p is row p, or row perm[p]. Slice s has the positions s h, s h + 1, ..., which are its lanes; the
//          last slice may have fewer. It is as wide as its longest row (up to K). A lane's stream has a field for each
//          slot: the difference of the columns, or 0 in padding, which follows the entries. The width of a field is the
//          width of the greatest difference in its slot of the slice.
//            col_ptr    [slices + 1] slots of a lane before each slice
//            bit_alloc  [col_ptr[slices]] uint8, the width of each slot's field
//            symbol_ptr [slices + 1] symbols of a lane before each slice
//            symbols    slice s begins at h symbol_ptr[s]; interleaved over the lanes of the slice
//            values     slot k of lane l of slice s at h col_ptr[s] + k lanes + l; 0 in padding
// rows     The stream of a row is one lane: a symbol with its first column, then differences, all of one width.
//            row_ptr    [rows + 1] entries before each row
//            row_symbol [rows + 1] symbols before each row; both as wide as the row pointers of the source
//            width      [rows] uint8
// entries  Intervals of W q entries. Lane l of an interval has its entries l, l + W, l + 2 W, ... Their rows are
//          differences along the lane, the first one from the row of the interval's first entry. The streams of the
//          last interval are filled up with its last row. Columns and values are not coded, and have no padding.
//            base       [intervals] int32, the first row
//            width      [intervals] uint8
//            interval_symbol [intervals + 1] int64, symbols before each interval; interleaved over W lanes
//            col, values [entries]
//
// The values of the tail follow the values of the slices. A format gives a rule, which names K, the tail and the sizes.
// The engine finds the widths (admit), and makes the rest: exact bytes, conversion, new values, to_csr(), the diagonal,
// the products.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/behind.hpp"
#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "formats/engines/bits/bits.hpp"
#include "formats/engines/sum/sum.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

enum class BroTail : unsigned char { none, rows, entries };

// What a rule makes of the parameters and the counts of a matrix.
struct BroShape {
  bool slices = false;
  std::int64_t K = 0;  // entries of a row in the slices, at most
  int h = 1;           // lanes of a slice
  BroTail tail = BroTail::none;
  bool sorted = false;        // positions are rows by descending length
  int W = 1, q = 1;           // of entries: lanes of an interval, and entries of a lane
  std::int64_t max_fill = 0;  // the most values that may be stored for an entry; 0: any number
};
using BroRule = BroShape (*)(const SumCounter& counter, const FormatParams& params);

// Numbers of a matrix, from which its bytes follow.
struct BroSizes {
  BroShape shape;
  std::int64_t rows = 0, slots = 0, columns = 0, lane_symbols = 0, symbols = 0;  // of the slices
  std::int64_t tail_entries = 0, tail_symbols = 0;

  std::int64_t slices() const { return shape.slices ? (rows + shape.h - 1) / shape.h : 0; }
  std::int64_t interval() const { return std::int64_t{shape.W} * shape.q; }
  std::int64_t intervals() const {
    return shape.tail == BroTail::entries ? (tail_entries + interval() - 1) / interval() : 0;
  }
};
// Accepts, or refuses by max_fill. `carries`: workspace for the sums of the intervals' first rows.
Admission admission_of(const BroSizes& sizes, const SparsityPattern& pattern, std::size_t value_bytes,
                       bool carries);

// A view of the rows (row_view.hpp).
template <class T>
struct BroView {
  const T* values;
  std::int64_t rows;
  const std::int32_t* perm;
  bool slices;
  std::int64_t h;
  const std::int64_t *col_ptr, *symbol_ptr;
  const std::uint8_t* bit_alloc;
  const std::uint32_t* symbols;
  BroTail tail;
  std::int64_t tail_at, tail_entries;  // its first value; entries
  const std::uint32_t* tail_symbols;
  const std::uint8_t* width;
  SumPointers row_ptr, row_symbol;
  const std::int32_t *base, *col;
  const std::int64_t* interval_symbol;
  int W, q;

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return perm ? perm[p] : p; }
  PROTEAN_HOST_DEVICE std::int64_t lanes(std::int64_t s) const { return h < rows - s * h ? h : rows - s * h; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (slices) for_slots(p, f);
    if (tail == BroTail::rows) for_row(p, f);
    if (tail == BroTail::entries) {
      const std::int64_t k = first_entry(p);
      for (std::int64_t i = k, end = first_entry(p + 1); i < end; ++i) f(col[i], tail_at + i);
    }
  }

  template <class F>
  PROTEAN_HOST_DEVICE void for_slots(std::int64_t p, F&& f) const {
    const std::int64_t s = p / h, count = lanes(s);
    if (col_ptr[s] == col_ptr[s + 1]) return;  // there may be no symbols at all
    FieldReader reader(symbols + h * symbol_ptr[s] + p % h, count);
    std::int64_t place = h * col_ptr[s] + p % h;
    std::int32_t at = -1;
    for (std::int64_t k = col_ptr[s]; k < col_ptr[s + 1]; ++k, place += count) {
      const std::uint32_t step = reader.take(bit_alloc[k]);
      if (step == 0) return;
      at += static_cast<std::int32_t>(step);
      f(at, place);
    }
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_row(std::int64_t p, F&& f) const {
    const std::int64_t begin = row_ptr[p], end = row_ptr[p + 1];
    if (begin == end) return;
    const std::uint32_t* const stream = tail_symbols + row_symbol[p];
    FieldReader reader(stream + 1, 1);
    auto at = static_cast<std::int32_t>(*stream);
    f(at, tail_at + begin);
    for (std::int64_t k = begin + 1; k < end; ++k) {
      at += static_cast<std::int32_t>(reader.take(width[p]));
      f(at, tail_at + k);
    }
  }
  // The row of entry k of the tail.
  PROTEAN_HOST_DEVICE std::int64_t row_of_entry(std::int64_t k) const {
    const std::int64_t interval = std::int64_t{W} * q, i = k / interval, lane = k % interval % W;
    FieldReader reader(behind(tail_symbols, interval_symbol[i] + lane), W);
    std::int64_t at = base[i];
    for (std::int64_t step = k % interval / W; step >= 0; --step) at += reader.take(width[i]);
    return at;
  }
  // The first entry of the tail whose row is at least r.
  PROTEAN_HOST_DEVICE std::int64_t first_entry(std::int64_t r) const {
    const std::int64_t interval = std::int64_t{W} * q, count = (tail_entries + interval - 1) / interval;
    // Interval i is the first one that begins with such a row.
    const std::int64_t i = first_where(std::int64_t{0}, count, [&](std::int64_t j) { return base[j] >= r; });
    if (i == 0) return 0;
    const std::int64_t end = i * interval < tail_entries ? i * interval : tail_entries;
    return first_where((i - 1) * interval, end, [&](std::int64_t k) { return row_of_entry(k) >= r; });
  }
};

Admission admit_bro_on_host(BroRule rule, const Context& context, const SparsityPattern& pattern,
                            const FormatParams& params, std::size_t value_bytes);
Admission admit_bro_on_device(BroRule rule, const Context& context, const SparsityPattern& pattern,
                              const FormatParams& params, std::size_t value_bytes);
template <BroRule rule>
Admission admit_bro(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                    std::size_t value_bytes) {
  return admit_bro_on_host(rule, context, pattern, params, value_bytes);
}
template <BroRule rule>
Admission admit_device_bro(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes) {
  return admit_bro_on_device(rule, context, pattern, params, value_bytes);
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_bro(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_bro_on_device(const BuildRequest<T>& request);
constexpr Kernel bro_kernel{.name = "native",
                            .host = true,
                            .make_f64 = make_bro<double>,
                            .make_f32 = make_bro<float>,
                            .ordered = true};
constexpr Kernel bro_device_kernel{.name = "native",
                                   .device = true,
                                   .make_f64 = make_bro_on_device<double>,
                                   .make_f32 = make_bro_on_device<float>};

// A product on the host (bro_kernel.cpp): y := alpha A x + beta y.
template <class T>
struct BroProduct {
  BroView<T> view;
  T alpha;
  const T* x;
  T beta;
  T* y;
  bool adding;  // the tail adds to y, and leaves rows without entries alone
  bool alike;   // rows of the tail are short, and most are as long as the one before
};
// What a part has of a row that begins before it.
template <class T>
struct BroCarry {
  std::int64_t row = -1;
  T sum = 0;
};
// Slices [begin, end).
void bro_slices(const BroProduct<double>& job, std::int64_t begin, std::int64_t end);
void bro_slices(const BroProduct<float>& job, std::int64_t begin, std::int64_t end);
// Positions [begin, end) of the rows of the tail.
void bro_rows(const BroProduct<double>& job, std::int64_t begin, std::int64_t end);
void bro_rows(const BroProduct<float>& job, std::int64_t begin, std::int64_t end);
// Intervals [begin, end) of the entries of the tail, which are not empty.
BroCarry<double> bro_entries(const BroProduct<double>& job, std::int64_t begin, std::int64_t end);
BroCarry<float> bro_entries(const BroProduct<float>& job, std::int64_t begin, std::int64_t end);
// The rows of the W q entries of interval i, with padding.
void bro_decode_rows(const BroView<double>& view, std::int64_t i, std::int32_t* rows);
void bro_decode_rows(const BroView<float>& view, std::int64_t i, std::int32_t* rows);
constexpr int most_bro_interval = 2048;  // entries

}  // namespace protean::formats
