// Cuts a matrix into disjoint parts, entry by entry. Each rule looks at the entries that the rules before it have left.
//
//   rules     diagonals     width(entries=1)    rest            owner of each entry
//
//   | 1 2 . 3 |   | 0 . . . |   | . 1 . . |   | . . . 2 |       0 1 2
//   | . 4 5 . |   | . 0 . . |   | . . 1 . |   | . . . . |       0 1
//   | 6 . 7 . |   | . . 0 . |   | 1 . . . |   | . . . . |       1 0
//   | 8 9 . 1 |   | . . . 0 |   | 1 . . . |   | . 2 . . |       1 2 0
//
//   diagonals  all entries of each diagonal of which more than min_fill percent are filled; 0: more than v / (v + 4),
//              for values of v bytes, above which a diagonal takes fewer bytes than its entries in csr. min_band: only
//              groups of at least this many neighbouring diagonals that are filled enough
//   band       the entries at most `lower` diagonals below and `upper` above the main one
//   rows       rows with more than longer_than and at most at_most entries left
//   width      the first entries left of each row, up to `entries`; with min_fill, in each slice of `slice` rows up to
//              the largest number for which more than min_fill percent of the slots of the slice are filled
//   blocks     the entries of aligned blocks of rows x cols with at least min_fill percent filled
//   rest       what is left
//   min_share  (of every rule but rest) percent of all entries of the matrix: a rule that finds fewer takes none
//
// A cut has a byte for each entry of the matrix and lives as long as a conversion. A part is a CSR matrix of all rows.
// Here is what host and device share; cut.cpp is the host side, cut.cu the device side. Private to formats/.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "formats/compose.hpp"
#include "formats/engines/sum/sum.hpp"

namespace protean::formats {

enum class CutBy : unsigned char { diagonals, band, rows, width, blocks, rest };

struct CutRule {
  CutBy by = CutBy::rest;
  std::int64_t min_fill = 0, min_share = 0;     // percent
  std::int64_t lower = 0, upper = 0;            // band
  std::int64_t longer_than = 0, at_most = 0;    // rows
  std::int64_t entries = 0, slice = 0;          // width
  std::int64_t min_band = 1;                    // diagonals
  std::int64_t block_rows = 1, block_cols = 1;  // blocks
};
// The rule of a part that check_part() accepts.
CutRule rule_of(const PartOfSum& part);

constexpr std::uint8_t no_owner = 255;

// A pattern that is being cut.
struct CutView {
  std::int64_t rows, cols;
  SumPointers row_ptr;
  const std::int32_t* col;
  const std::uint8_t* owner;

  // Whether entry k is left for part `part`. A part counts what it has taken itself: other threads may be taking
  // entries.
  PROTEAN_HOST_DEVICE bool is_left(std::int64_t k, std::uint8_t part) const {
    return owner[k] == no_owner || owner[k] == part;
  }
};

// Entries left in the block of this entry.
PROTEAN_HOST_DEVICE inline std::int64_t left_in_block(const CutView& a, const CutRule& rule,
                                                      std::uint8_t part, std::int64_t row, std::int64_t col) {
  const std::int64_t first_row = row / rule.block_rows * rule.block_rows,
                     first_col = col / rule.block_cols * rule.block_cols;
  std::int64_t count = 0;
  for (std::int64_t r = first_row; r < first_row + rule.block_rows && r < a.rows; ++r) {
    const std::int64_t end = a.row_ptr[r + 1];
    for (std::int64_t k =
             first_where(a.row_ptr[r], end, [&](std::int64_t j) { return a.col[j] >= first_col; });
         k < end && a.col[k] < first_col + rule.block_cols; ++k)
      count += a.is_left(k, part);
  }
  return count;
}
// A block that sticks out is filled like another one with zeros.
PROTEAN_HOST_DEVICE inline bool is_dense_block(const CutRule& rule, std::int64_t entries) {
  return entries * 100 >= rule.min_fill * rule.block_rows * rule.block_cols;
}
PROTEAN_HOST_DEVICE inline bool in_band(const CutRule& rule, std::int64_t row, std::int64_t col) {
  return col - row >= -rule.lower && col - row <= rule.upper;
}
// The diagonals that the rule takes (sum.hpp).
inline DenseDiagonals diagonals_of(const CutRule& rule, std::size_t value_bytes) {
  constexpr std::int64_t far = std::int64_t{1} << 40;
  const auto v = static_cast<std::int64_t>(value_bytes);
  return rule.min_fill == 0 ? DenseDiagonals{-far, far, 1, v, v + 4}
                            : DenseDiagonals{-far, far, 1, rule.min_fill, 100};
}
// Whether the diagonal of this offset lies in a band of min_band neighbours that dense(offset) says to be dense.
template <class Dense>
PROTEAN_HOST_DEVICE inline bool in_thick_band(const CutRule& rule, std::int64_t offset, Dense dense) {
  if (!dense(offset)) return false;
  std::int64_t wide = 1;
  for (std::int64_t o = offset - 1; wide < rule.min_band && dense(o); --o) ++wide;
  for (std::int64_t o = offset + 1; wide < rule.min_band && dense(o); ++o) ++wide;
  return wide >= rule.min_band;
}
// The width of a slice of rows [first, last): length(r) entries are left in row r.
template <class Length>
PROTEAN_HOST_DEVICE inline std::int64_t slice_width(const CutRule& rule, std::int64_t first,
                                                    std::int64_t last, Length length) {
  for (std::int64_t width = 0, entries = 0;; ++width) {
    std::int64_t longer = 0;
    for (std::int64_t r = first; r < last; ++r) longer += length(r) > width;
    entries += longer;
    if (longer == 0 || entries * 100 <= rule.min_fill * (width + 1) * (last - first)) return width;
  }
}
inline bool by_slices(const CutRule& rule) { return rule.by == CutBy::width && rule.min_fill > 0; }

inline bool too_small(const CutRule& rule, std::int64_t taken, std::int64_t nonzeros) {
  return static_cast<double>(taken) * 100 <
         static_cast<double>(rule.min_share) * static_cast<double>(nonzeros);
}

// The parts of a pattern.
class Cut {
 public:
  std::vector<std::int64_t> entries;  // of each part
  virtual ~Cut() = default;
  // Calls use() with the pattern of a part, which lives as long as the call. The context is the context of the cut,
  // `whole` its pattern.
  virtual void with_pattern(const Context& context, const SparsityPattern& whole, int part,
                            const std::function<void(const SparsityPattern&)>& use) const = 0;
  // The part with its values.
  virtual CsrMatrix<double> part_of(const ContextPtr& context, const CsrMatrix<double>& whole,
                                    int part) const = 0;
  virtual CsrMatrix<float> part_of(const ContextPtr& context, const CsrMatrix<float>& whole,
                                   int part) const = 0;
};

class Tally;  // engines/composed/tally.hpp

// The work on one side.
class CutTools {
 public:
  virtual ~CutTools() = default;
  // The last rule is `rest`.
  virtual std::shared_ptr<const Cut> cut(const Context& context, const SparsityPattern& pattern,
                                         std::span<const CutRule> rules, std::size_t value_bytes) const = 0;
  virtual std::unique_ptr<Tally> tally(const Context& context, const SparsityPattern& pattern) const = 0;
  // The matrix of these disjoint parts; there is at least one.
  virtual CsrMatrix<double> join(const ContextPtr& context,
                                 std::span<const CsrMatrix<double>> parts) const = 0;
  virtual CsrMatrix<float> join(const ContextPtr& context, std::span<const CsrMatrix<float>> parts) const = 0;
};
const CutTools& cuts_on_host();
const CutTools& cuts_on_device();  // in builds with CUDA

}  // namespace protean::formats
