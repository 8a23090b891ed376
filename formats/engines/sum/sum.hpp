// A matrix that is the sum of disjoint parts, each in its own container: A = A_1 + A_2 + ... Every entry lies in
// exactly one part. This is what host and device share; sum.cpp is the host side, sum.cu the device side. Private to
// formats/.
//
//   by length          by width           by diagonal
//
//   | 1 1 . . |        | 1 1 . . |        | 1 2 . . |     the number of the part
//   | 2 2 2 2 |        | 1 1 2 2 |        | 2 1 2 2 |
//   | 1 . . . |        | 1 . . . |        | 2 . . . |     (an absent entry of a diagonal is fill of part 1)
//   | . 1 . 1 |        | . 1 . 1 |        | . 2 . 1 |
//
//   by length    Part i has the rows whose length is in its class, as a matrix of these rows alone; row_list has their
//                numbers, part after part. A row lies in one part, so each part computes its rows of y := alpha A x +
//                beta y.
//   by width     Part 1 has the first entries of every row, up to `width`, part 2 the others.
//   by diagonal  Part 1 has some whole diagonals, part 2 all other entries.
//                In both the first part computes y := alpha A_1 x + beta y, and the second adds y := alpha A_2 x + y.
//
// A part that has nothing is left out, but one stays, because y must be written. Containers:
//   ell  width slots of each of its rows: slot k of its position p at k rows + p. On the host padding has the value 0
//        and repeats the row's last column (0 in a row without entries, whose position is in `empty`). On a device
//        padding has column -1, and a thread ends a row there.
//   csr  row pointers, columns, values. Row pointers are as wide as in the source.
//   coo  rows, columns, values.
//   dia  offsets, values (diagonal d of row r at d rows + r, 0 if there is no entry), and a bit for each value that
//        is 1 if it is an entry.
//
// A format is a rule, which names the cut and the sizes of its parts from counts of the pattern (SumCounter). The
// engine does the rest, once for all: the exact bytes, the conversion, new values, to_csr(), the diagonal, the product
// of deterministic mode in ascending columns (SumView is a view of rows as in row_view.hpp), and the products: on the
// host the products of engines/slices/slot_product.hpp, engines/rows/rows.hpp, engines/runs/coo.hpp and
// engines/diagonals/diagonals.hpp; on a device one or two launches per part on the context's stream, and no wait. No
// map from the entries of a part to the entries of the source is stored: the cut gives it for each row, so new values
// need no memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

enum class PartKind : unsigned char { ell, csr, coo, dia };

// A part as a rule describes it.
struct PartSize {
  PartKind kind;
  std::int64_t rows = 0, entries = 0;
  std::int64_t width = 0;  // ell: slots of a row; dia: diagonals
  std::int64_t longest =
      0;  // cut by length: its rows have at most that many entries, and more than the part before allows
  std::int64_t empty = 0;  // ell: rows without entries
  int lanes = 0;           // csr on a device: threads a row, 0 for work divided evenly whatever the lengths
};

struct SumCut {
  enum class By : unsigned char { length, width, diagonal };
  By by = By::length;
  std::vector<PartSize> parts = {};        // cut by width or by diagonal: at most two, and each has all rows
  std::int64_t width = 0;                  // by width
  std::vector<std::int32_t> offsets = {};  // by diagonal: of the first part, ascending
  bool fused = false;                      // by diagonal: one pass over the rows computes both parts
  std::vector<PartKind> left_out = {};     // of parts that have nothing
};
constexpr int most_sum_parts = 33;

// A set of rows by their lengths.
struct LengthClass {
  std::int64_t rows = 0, entries = 0, longest = 0;
};
constexpr int length_class_count = 32;

// An entry for each place of a diagonal would be `places`.
struct DiagonalCount {
  std::int32_t offset;
  std::int64_t entries;
};
// Which diagonals are counted as dense: low <= offset <= high, at least `shortest` places, and
// entries * denominator > places * numerator.
struct DenseDiagonals {
  std::int64_t low, high, shortest, numerator, denominator;
};
PROTEAN_HOST_DEVICE inline std::int64_t diagonal_places(std::int64_t rows, std::int64_t cols,
                                                        std::int64_t offset) {
  const std::int64_t first = offset < 0 ? -offset : 0, last = rows < cols - offset ? rows : cols - offset;
  return last > first ? last - first : 0;
}
PROTEAN_HOST_DEVICE inline bool is_dense(const DenseDiagonals& rule, std::int64_t rows, std::int64_t cols,
                                         std::int64_t offset, std::int64_t entries) {
  const std::int64_t places = diagonal_places(rows, cols, offset);
  return entries > 0 && offset >= rule.low && offset <= rule.high && places >= rule.shortest &&
         entries * rule.denominator > places * rule.numerator;
}

// Counts of a pattern, which lies in the memory of the host or of a device. The host waits for them.
class SumCounter {
 public:
  SumCounter(const Context& its_context, const SparsityPattern& its_pattern, std::size_t bytes_of_values)
      : context(its_context), pattern(its_pattern), value_bytes(bytes_of_values) {}
  virtual ~SumCounter() = default;
  // rows[l]: rows with l entries, for l = 0 .. most; rows[most + 1]: longer rows.
  virtual std::vector<std::int64_t> lengths(std::int64_t most) const = 0;
  // Counts of the rows with 0, 1, 2 or 3, 4 to 7, 8 to 15, ... entries.
  virtual std::vector<LengthClass> classes() const = 0;
  virtual std::vector<DiagonalCount> dense_diagonals(const DenseDiagonals& rule) const = 0;
  // Of the rows without their entries on these diagonals: `rows` have entries left, `longest` is the longest.
  virtual LengthClass rest(const std::vector<std::int32_t>& offsets) const = 0;

  const Context& context;
  const SparsityPattern& pattern;
  const std::size_t value_bytes;
};

std::unique_ptr<SumCounter> host_sum_counter(const Context& context, const SparsityPattern& pattern,
                                             std::size_t value_bytes);
std::unique_ptr<SumCounter> device_sum_counter(const Context& context, const SparsityPattern& pattern,
                                               std::size_t value_bytes);

using SumRule = SumCut (*)(const SumCounter& counter, const FormatParams& params);

// The smallest K for which enough(rows with more than K entries) is true, or the greatest that has been counted.
template <class Enough>
std::int64_t smallest_width(const std::vector<std::int64_t>& lengths, std::int64_t rows, Enough enough) {
  std::int64_t longer = rows - lengths[0], width = 0;
  while (!enough(longer) && width + 2 < static_cast<std::int64_t>(lengths.size())) longer -= lengths[++width];
  return width;
}
// Entries in the first `width` slots of all rows; lengths up to `width` must have been counted.
std::int64_t entries_within(const std::vector<std::int64_t>& lengths, std::int64_t rows, std::int64_t width);
// The cut by width: ell, and a tail of this kind. rows_without_entries: of ell.
SumCut cut_by_width(const SumCounter& counter, std::int64_t width, std::int64_t within,
                    std::int64_t rows_without_entries, PartKind tail);
// The cut by length in two: ell for rows of at most `longest` entries, csr for others, with that many threads a row on
// a device. Lengths up to `longest` must have been counted.
SumCut cut_by_length(const SumCounter& counter, const std::vector<std::int64_t>& lengths,
                     std::int64_t longest, int lanes);
// The cut by diagonal; `rest` is csr or ell.
SumCut cut_by_diagonal(const SumCounter& counter, const DenseDiagonals& rule, PartKind rest);
// Percent of its places that a diagonal must fill to be stored as one: if 0 is asked for, more than v / (v + 4),
// because a place takes v bytes and an entry elsewhere v + 4.
DenseDiagonals dense_diagonals(const SumCounter& counter, std::int64_t percent, std::int64_t low,
                               std::int64_t high, std::int64_t shortest);

// The admission of a cut whose empty parts are left out, and with the bytes of tables that a device needs. `max_fill`
// is read from the parameters when they have it. Keeps no plan.
void leave_out_empty_parts(SumCut& cut);
Admission admission_of(const SumCut& cut, const SparsityPattern& pattern, const FormatParams& params,
                       std::size_t value_bytes, bool on_device);

Admission admit_sum_on_host(SumRule rule, const Context& context, const SparsityPattern& pattern,
                            const FormatParams& params, std::size_t value_bytes);
Admission admit_sum_on_device(SumRule rule, bool coo_in_runs, const Context& context,
                              const SparsityPattern& pattern, const FormatParams& params,
                              std::size_t value_bytes);
template <SumRule rule>
Admission admit_sum(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                    std::size_t value_bytes) {
  return admit_sum_on_host(rule, context, pattern, params, value_bytes);
}
template <SumRule rule>
Admission admit_device_sum(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes) {
  return admit_sum_on_device(rule, false, context, pattern, params, value_bytes);
}
// Coordinates with the tables of engines/runs/row_runs.cuh, for a separate kernel.
template <SumRule rule>
Admission admit_device_sum_in_runs(const Context& context, const SparsityPattern& pattern,
                                   const FormatParams& params, std::size_t value_bytes) {
  return admit_sum_on_device(rule, true, context, pattern, params, value_bytes);
}

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sum(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sum_on_device(const BuildRequest<T>& request);
constexpr Kernel sum_kernel{.name = "native",
                            .host = true,
                            .make_f64 = make_sum<double>,
                            .make_f32 = make_sum<float>,
                            .ordered = true};
constexpr Kernel sum_device_kernel{.name = "native",
                                   .device = true,
                                   .make_f64 = make_sum_on_device<double>,
                                   .make_f32 = make_sum_on_device<float>};

// Row pointers of either width, in the memory of the host or of a device.
struct SumPointers {
  const std::int32_t* p32;
  const std::int64_t* p64;
  PROTEAN_HOST_DEVICE std::int64_t operator[](std::int64_t i) const { return p32 ? p32[i] : p64[i]; }
};

// A part as it lies in the arrays of the sum.
struct SumPart {
  PartKind kind;
  std::int64_t rows, entries, width;
  std::int64_t first;             // its first position
  std::int64_t values, col, ptr;  // where its values, columns and row pointers begin
  std::int64_t stored;            // values
};
// The places of the parts in the arrays; `first` is 0 in cuts that are not by length.
std::vector<SumPart> place_parts(const SumCut& cut);

// The rows of a sum (row_view.hpp). Position p is row p, or row_list[p] in a cut by length.
template <class T>
struct SumView {
  SumPart part[most_sum_parts];
  int parts;
  bool by_length;
  std::int64_t rows;
  const T* values;
  const std::int32_t* col;
  SumPointers ptr;
  const std::int32_t *list, *coo_row, *off;
  const std::uint8_t* bits;
  const std::int32_t* empty;  // positions of rows of ell without entries, ascending
  std::int64_t empty_count;

  PROTEAN_HOST_DEVICE std::int64_t bit_bytes() const { return (rows + 7) / 8; }
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return list ? list[p] : p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  // The part in which the row at position p lies, in a cut by length.
  PROTEAN_HOST_DEVICE int part_of(std::int64_t p) const {
    int i = parts - 1;
    while (i > 0 && part[i].first > p) --i;
    return i;
  }
  // The first of `size` ascending numbers that is not below n.
  PROTEAN_HOST_DEVICE static std::int64_t first_from(const std::int32_t* numbers, std::int64_t size,
                                                     std::int64_t n) {
    return first_where<std::int64_t>(0, size, [&](std::int64_t i) { return numbers[i] >= n; });
  }

  // Walks along the entries of one row in one part.
  struct Walk {
    const SumView& all;
    const SumPart& part;
    std::int64_t p, k, end;  // position in the part; slot, entry or diagonal
    std::int32_t col = -1;
    std::int64_t place = 0;
    bool there = false;

    PROTEAN_HOST_DEVICE Walk(const SumView& view, const SumPart& its_part, std::int64_t position)
        : all(view), part(its_part), p(position), k(-1), end(part.width) {
      if (part.kind == PartKind::csr) k = all.ptr[part.ptr + p] - 1, end = all.ptr[part.ptr + p + 1];
      if (part.kind == PartKind::coo) k = first_from(all.coo_row, part.entries, p) - 1, end = part.entries;
      if (part.kind == PartKind::ell && all.empty_count > 0) {
        const std::int64_t at = first_from(all.empty, all.empty_count, p);
        if (at < all.empty_count && all.empty[at] == p) end = 0;
      }
      next();
    }
    PROTEAN_HOST_DEVICE void next() {
      ++k;
      if (part.kind == PartKind::dia) {
        while (k < end && !(all.bits[k * all.bit_bytes() + p / 8] >> (p % 8) & 1)) ++k;
        there = k < end;
        if (there) col = static_cast<std::int32_t>(p + all.off[k]), place = part.values + k * part.rows + p;
        return;
      }
      there = k < end && (part.kind != PartKind::coo || all.coo_row[k] == p);
      if (!there) return;
      const std::int64_t at = part.kind == PartKind::ell ? k * part.rows + p : k;
      const std::int32_t next_col = all.col[part.col + at];
      there = next_col > col;  // padding repeats a column, or has -1
      col = next_col, place = part.values + at;
    }
  };

  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (by_length || parts == 1) {
      const SumPart& its = part[by_length ? part_of(p) : 0];
      for (Walk walk(*this, its, p - its.first); walk.there; walk.next()) f(walk.col, walk.place);
      return;
    }
    Walk a(*this, part[0], p), b(*this, part[1], p);
    while (a.there || b.there) {
      Walk& walk = !b.there || (a.there && a.col < b.col) ? a : b;
      f(walk.col, walk.place);
      walk.next();
    }
  }
};

}  // namespace protean::formats
