// Counts on the host. tally.hpp describes them.
#include "formats/engines/composed/tally.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {
namespace {

class HostLengths final : public Lengths {
 public:
  HostLengths(const Context& context, std::int64_t rows)
      : length(static_cast<std::size_t>(rows)), context_(context) {}
  std::vector<std::int32_t> length;

  LengthSums sums(std::int64_t slice) const override {
    const std::int64_t rows = size(), slices = (rows + slice - 1) / slice;
    const int parts = useful_parts(context_, rows);
    std::vector<LengthSums> found(static_cast<std::size_t>(parts));
    parallel(parts, [&](int part, int) {
      const Range mine = even_range(slices, part, parts);
      LengthSums sum;
      for (std::int64_t s = mine.begin; s < mine.end; ++s) {
        const std::int64_t first = s * slice, end = std::min(rows, first + slice);
        std::int32_t widest = 0, before = first > 0 ? length[static_cast<std::size_t>(first - 1)] : -1;
        for (std::int64_t r = first; r < end; ++r) {
          const std::int32_t its = length[static_cast<std::size_t>(r)];
          widest = std::max(widest, its);
          sum.entries += its, sum.filled += its > 0, sum.changes += r > 0 && its != before;
          before = its;
        }
        sum.slots += widest * (end - first), sum.last = widest;
        sum.longest = std::max<std::int64_t>(sum.longest, widest);
      }
      found[static_cast<std::size_t>(part)] = sum;
    });
    LengthSums all;
    all.rows = rows;
    for (const LengthSums& one : found) {
      all.entries += one.entries, all.filled += one.filled, all.changes += one.changes,
          all.slots += one.slots;
      all.longest = std::max(all.longest, one.longest);
    }
    all.last = found.back().last;
    return all;
  }
  std::vector<std::int64_t> histogram(std::int64_t most) const override {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(most) + 2);
    for (const std::int32_t its : length)
      ++rows[static_cast<std::size_t>(std::min<std::int64_t>(its, most + 1))];
    return rows;
  }
  Two by_width(std::int64_t width) const override {
    return cut([&](std::int64_t, std::int64_t) { return width; });
  }
  Two by_slices(std::int64_t min_fill) const override {
    CutRule rule;
    rule.min_fill = min_fill;
    return cut([&](std::int64_t first, std::int64_t end) {
      return slice_width(rule, first, end,
                         [&](std::int64_t r) { return length[static_cast<std::size_t>(r)]; });
    });
  }

 private:
  // width(first, end) is the width of the slice of these rows.
  template <class Width>
  Two cut(Width width) const {
    auto taken = std::make_unique<HostLengths>(context_, size()),
         left = std::make_unique<HostLengths>(context_, size());
    for (std::int64_t first = 0; first < size(); first += tally_slice) {
      const std::int64_t end = std::min(first + tally_slice, size()), its = width(first, end);
      for (auto r = static_cast<std::size_t>(first); r < static_cast<std::size_t>(end); ++r) {
        taken->length[r] = static_cast<std::int32_t>(std::min<std::int64_t>(length[r], its));
        left->length[r] = length[r] - taken->length[r];
      }
    }
    return {std::move(taken), std::move(left)};
  }
  std::int64_t size() const { return std::ssize(length); }
  const Context& context_;
};

class HostDiagonals final : public DiagonalTally {
 public:
  HostDiagonals(std::int64_t rows, std::int64_t cols)
      : count(static_cast<std::size_t>(rows + cols) + 1), rows_(rows), cols_(cols) {}
  std::vector<std::uint32_t> count;  // at offset + rows; none has more entries than the matrix has rows

  std::vector<std::int32_t> above(std::int64_t percent) const override {
    std::vector<std::int32_t> found;
    const DenseDiagonals rule{-rows_, cols_, 1, percent, 100};
    for (std::int64_t offset = -rows_; offset < cols_; ++offset) {
      if (!is_dense(rule, rows_, cols_, offset, count[static_cast<std::size_t>(offset + rows_)])) continue;
      if (std::ssize(found) == most_diagonals) return {};
      found.push_back(static_cast<std::int32_t>(offset));
    }
    return found;
  }
  std::int64_t entries(std::span<const std::int32_t> offsets) const override {
    std::int64_t sum = 0;
    for (const std::int32_t offset : offsets) sum += count[static_cast<std::size_t>(offset + rows_)];
    return sum;
  }

 private:
  std::int64_t rows_, cols_;
};

// The ones among eight bits. Processors without an instruction for that would call a function.
constexpr std::array<std::uint8_t, 256> ones = [] {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t bits = 1; bits < table.size(); ++bits)
    table[bits] = static_cast<std::uint8_t>(table[bits / 2] + bits % 2);
  return table;
}();

// Which diagonals some are, at offset + rows; empty for none.
std::vector<char> marks_of(const SparsityPattern& pattern, std::span<const std::int32_t> offsets) {
  std::vector<char> marks;
  if (offsets.empty()) return marks;
  marks.resize(static_cast<std::size_t>(pattern.rows + pattern.cols) + 1);
  for (const std::int32_t offset : offsets) marks[static_cast<std::size_t>(offset + pattern.rows)] = 1;
  return marks;
}

// Whether diagonals through the block at (row, col) are marked: bits of the places of the block on them.
class MarkedPlaces {
 public:
  MarkedPlaces(const std::vector<char>& marks, std::int64_t rows, std::int64_t cols, int R, int C)
      : marks_(marks), rows_(rows), cols_(cols), R_(R), C_(C) {
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < C; ++j) places_[j - i + largest_block] |= std::uint64_t{1} << (i * C + j);
  }
  std::uint64_t in_block(std::int64_t row, std::int64_t col) const {
    if (marks_.empty()) return 0;
    std::uint64_t bits = 0;
    for (int d = 1 - R_; d < C_; ++d)
      if (const std::int64_t offset = col - row + d;
          offset > -rows_ && offset < cols_ && marks_[static_cast<std::size_t>(offset + rows_)])
        bits |= places_[d + largest_block];
    return bits;
  }

 private:
  const std::vector<char>& marks_;
  std::int64_t rows_, cols_;
  int R_, C_;
  std::uint64_t places_[2 * largest_block + 1] = {};
};

class HostTally final : public Tally {
 public:
  HostTally(const Context& context, const SparsityPattern& pattern) : context_(context), pattern_(pattern) {}

  std::unique_ptr<Lengths> rows() const override { return rows_without({}); }
  std::unique_ptr<Lengths> rows_without(std::span<const std::int32_t> diagonals) const override {
    auto found = std::make_unique<HostLengths>(context_, pattern_.rows);
    const std::vector<char> marks = marks_of(pattern_, diagonals);
    for_rows(1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        std::int64_t length = pattern_.row_length(r);
        if (!marks.empty())
          for (const std::int32_t c : pattern_.row(r))
            length -= marks[static_cast<std::size_t>(c - r + pattern_.rows)];
        found->length[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(length);
      }
    });
    return found;
  }
  std::unique_ptr<DiagonalTally> diagonals() const override {
    return diagonals_of_rows(1, [&](HostDiagonals& mine, int, std::int64_t begin, std::int64_t end) {
      std::uint32_t* const count = mine.count.data() + pattern_.rows;
      for (std::int64_t r = begin; r < end; ++r)
        for (const std::int32_t c : pattern_.row(r)) ++count[c - r];
    });
  }
  BlockTally blocks(const BlockPass& pass) const override {
    const std::int64_t R = pass.shape.R, block_rows = pass.shape.block_rows(pattern_.rows);
    auto all = std::make_unique<HostLengths>(context_, block_rows),
         dense = std::make_unique<HostLengths>(context_, block_rows),
         left = std::make_unique<HostLengths>(context_, pattern_.rows);
    const std::vector<char> before = marks_of(pattern_, pass.before), after = marks_of(pattern_, pass.after);
    std::vector<std::int64_t> entries(static_cast<std::size_t>(parts()));
    const auto count = [&](HostDiagonals* diagonals, int part, std::int64_t begin, std::int64_t end) {
      with_shape(R, pass.shape.C, [&](auto rows, auto cols) {
        pattern_.row_ptr.visit([&](auto* row_ptr) {
          const OfBlocks of{pass, before, after, *all, *dense, *left, diagonals};
          entries[static_cast<std::size_t>(part)] = count_blocks(of, row_ptr, rows, cols, begin, end);
        });
      });
    };
    BlockTally found;
    if (pass.diagonals)
      found.diagonals = diagonals_of_rows(R, [&](HostDiagonals& mine, int part, std::int64_t begin,
                                                 std::int64_t end) { count(&mine, part, begin, end); });
    else
      for_rows(R, [&](int part, std::int64_t begin, std::int64_t end) { count(nullptr, part, begin, end); });
    for (const std::int64_t its : entries) found.dense_entries += its;
    found.all = std::move(all), found.dense = std::move(dense), found.left = std::move(left);
    return found;
  }
  bool may_have_blocks(const BlockShape& shape, std::int64_t min_fill) const override {
    constexpr std::int64_t taken = most_groups, far_more = 4;
    if (pattern_.rows < far_more * taken * group_rows) return true;
    std::int64_t entries = 0, blocks = 0, in_dense = 0;
    CutRule rule;
    rule.min_fill = min_fill, rule.block_rows = shape.R, rule.block_cols = shape.C;
    const std::int64_t groups = pattern_.rows / group_rows;
    with_shape(shape.R, shape.C, [&](auto R, auto C) {
      pattern_.row_ptr.visit([&](auto* row_ptr) {
        for (std::int64_t g = 0; g < taken; ++g) {
          const std::int64_t first = g * groups / taken * group_rows / R;
          for (std::int64_t i = first; i < first + group_rows / R; ++i)
            for_blocks(pattern_, row_ptr, R, C, i, [&](std::uint32_t, std::uint64_t bits) {
              const std::int64_t its = std::popcount(bits);
              ++blocks, entries += its, in_dense += is_dense_block(rule, its) ? its : 0;
            });
        }
      });
    });
    // Formats of blocks refuse twice the entries. 2 percent of them are not a part.
    constexpr std::int64_t most_fill = 3, least_percent = 2;
    return blocks * shape.area() <= most_fill * entries || 100 * in_dense >= least_percent * entries;
  }
  double imbalance(const LengthSums& rows) const override {
    if (rows.entries == 0) return 1;
    const double share =
        static_cast<double>(rows.entries) / useful_parts(context_, pattern_.nonzeros + pattern_.rows);
    // csr divides entries instead of rows if a thread would have more.
    constexpr double most = 1.1;
    return std::clamp(static_cast<double>(rows.longest) / share, 1.0, most);
  }

 private:
  // Where a pass over blocks counts.
  struct OfBlocks {
    const BlockPass& pass;
    const std::vector<char>&before, &after;
    HostLengths &all, &dense, &left;
    HostDiagonals* diagonals;  // may be null
  };

  int parts() const { return useful_parts(context_, pattern_.rows + pattern_.nonzeros); }
  // Calls body(part, first row, end) for parts that begin at multiples of `grain` rows.
  template <class Body>
  void for_rows(std::int64_t grain, Body body) const {
    const std::vector<std::int64_t> borders = balanced_row_borders(pattern_, parts(), grain);
    parallel(parts(), [&](int part, int) {
      const auto i = static_cast<std::size_t>(part);
      body(part, borders[i], borders[i + 1]);
    });
  }
  template <class Body>
  std::unique_ptr<DiagonalTally> diagonals_of_rows(std::int64_t grain, Body body) const {
    std::vector<std::unique_ptr<HostDiagonals>> counts(static_cast<std::size_t>(parts()));
    for_rows(grain, [&](int part, std::int64_t begin, std::int64_t end) {
      auto mine = std::make_unique<HostDiagonals>(pattern_.rows, pattern_.cols);
      body(*mine, part, begin, end);
      counts[static_cast<std::size_t>(part)] = std::move(mine);
    });
    for (std::size_t i = 1; i < counts.size(); ++i)
      for (std::size_t d = 0; d < counts[0]->count.size(); ++d) counts[0]->count[d] += counts[i]->count[d];
    return std::move(counts[0]);
  }

  // Rows [begin, end). Returns the entries in dense blocks.
  template <class RowSize, class ColSize, class P>
  std::int64_t count_blocks(const OfBlocks& of, const P* row_ptr, RowSize R, ColSize C, std::int64_t begin,
                            std::int64_t end) const {
    const std::uint64_t of_row = C == 8 ? 255 : (1u << C) - 1;
    const MarkedPlaces before(of.before, pattern_.rows, pattern_.cols, R, C),
        after(of.after, pattern_.rows, pattern_.cols, R, C);
    CutRule rule;
    rule.min_fill = of.pass.min_fill, rule.block_rows = R, rule.block_cols = C;
    std::int64_t taken = 0;
    for (std::int64_t i = (begin + R - 1) / R, past = (end + R - 1) / R; i < past; ++i) {
      std::int32_t all = 0, dense = 0, left[RowSize::most] = {};
      for_blocks(pattern_, row_ptr, R, C, i, [&](std::uint32_t number, std::uint64_t bits) {
        const std::int64_t row = i * R, col = std::int64_t{number} * C;
        bits &= ~before.in_block(row, col);
        if (bits == 0) return;
        ++all;
        const auto in_row = [&](int r) { return ones[bits >> (r * C) & of_row]; };
        std::int64_t entries = 0;
        for (int r = 0; r < R; ++r) entries += in_row(r);
        if (is_dense_block(rule, entries)) {
          ++dense, taken += entries;
          return;
        }
        if (of.diagonals)
          for (std::uint64_t rest = bits; rest != 0; rest &= rest - 1) {
            const int at = std::countr_zero(rest);
            ++of.diagonals->count[static_cast<std::size_t>(col + at % C - row - at / C + pattern_.rows)];
          }
        bits &= ~after.in_block(row, col);
        for (int r = 0; r < R; ++r) left[r] += in_row(r);
      });
      of.all.length[static_cast<std::size_t>(i)] = all, of.dense.length[static_cast<std::size_t>(i)] = dense;
      for (int r = 0; r < R && i * R + r < pattern_.rows; ++r)
        of.left.length[static_cast<std::size_t>(i * R + r)] = left[r];
    }
    return taken;
  }

  const Context& context_;
  const SparsityPattern& pattern_;
};

}  // namespace

std::unique_ptr<Tally> host_tally(const Context& context, const SparsityPattern& pattern) {
  return std::make_unique<HostTally>(context, pattern);
}

}  // namespace protean::formats
