// What host and device share of bcoo-bcsr: the selection of blocks and the view of the rows. bcoo_bcsr.cpp opens with
// the layout. Private to this folder.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int largest_loose_block = 4;
constexpr std::int64_t highest_strip = 256;  // numbers of rows in a strip fit a byte

// A block is kept when it has `least` entries or more.
struct StripRule {
  std::int64_t height;
  int R, C, least;
  std::int64_t strips(std::int64_t rows) const { return (rows + height - 1) / height; }
  PROTEAN_HOST_DEVICE int area() const { return R * C; }
  PROTEAN_HOST_DEVICE int bit_bytes() const { return (R * C + 7) / 8; }
};
StripRule bcoo_bcsr_rule(const FormatParams& params);

struct StripCounts {
  std::int64_t blocks = 0, rest_width = 0;
};
Admission admit_strips(const StripRule& rule, const StripCounts& counts, const SparsityPattern& pattern,
                       const FormatParams& params, std::size_t value_bytes);

// Calls f with a size from 1 to 4 as an integral constant.
template <class F>
void with_loose_size(int size, F&& f) {
  switch (size) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    default:
      return f(std::integral_constant<int, 4>());
  }
}

// Greedy: for each row of the strip from the top, for each entry from the left that no block has yet, takes the block
// with this row as its upper one and this entry inside that has the most such entries, the last of equals, if they are
// enough. Calls block(row in the strip, first column, bits): rows ascend, and the columns of a row. covered[k - first]
// of the strip's entries k is 0 before; afterwards it is 1 where a block has the entry. `first` is the first of them.
template <class RowPtr, class Block>
PROTEAN_HOST_DEVICE void select_blocks(std::int64_t rows, std::int64_t cols, const RowPtr& row_ptr,
                                       const std::int32_t* col, const StripRule& rule, std::int64_t strip,
                                       std::uint8_t* covered, std::int64_t first, Block block) {
  const std::int64_t top = strip * rule.height, below = top + rule.height, end = below < rows ? below : rows;
  const int R = rule.R, C = rule.C;
  for (std::int64_t t = top; t + R <= end; ++t) {
    std::int64_t at[largest_loose_block], stop[largest_loose_block];
    for (int r = 0; r < R; ++r) at[r] = row_ptr[t + r], stop[r] = row_ptr[t + r + 1];
    const std::int64_t row_end = stop[0];
    for (std::int64_t k = at[0]; k < row_end; ++k) {
      if (covered[k - first]) continue;
      const std::int64_t j = col[k], low = j < C ? 0 : j - C + 1, high = j + C <= cols ? j : cols - C;
      if (low > high) continue;
      int in_col[2 * largest_loose_block] = {};
      for (int r = 0; r < R; ++r) {
        while (at[r] < stop[r] && col[at[r]] < low) ++at[r];
        for (std::int64_t q = at[r]; q < stop[r] && col[q] < high + C; ++q)
          in_col[col[q] - low] += !covered[q - first];
      }
      int most = 0;
      std::int64_t left = low;
      for (std::int64_t s = low; s <= high; ++s) {
        int sum = 0;
        for (int c = 0; c < C; ++c) sum += in_col[s - low + c];
        if (sum >= most) most = sum, left = s;
      }
      if (most < rule.least) continue;
      unsigned bits = 0;
      for (int r = 0; r < R; ++r)
        for (std::int64_t q = at[r]; q < stop[r] && col[q] < left + C; ++q)
          if (col[q] >= left && !covered[q - first]) {
            covered[q - first] = 1;
            bits |= 1u << (r * C + static_cast<int>(col[q] - left));
          }
      block(static_cast<int>(t - top), left, bits);
    }
  }
}

// The arrays; a view of the rows in the sense of row_view.hpp.
template <class T>
struct StripView {
  const T* values;  // of the blocks, then of the rest
  const std::int64_t* strip_ptr;
  const std::uint8_t* local_row;
  const std::int32_t* block_col;
  const std::uint8_t* entries;
  const std::int32_t* rest_col;
  const std::int32_t* rest_length;
  std::int64_t rows, blocks;
  StripRule rule;

  // The blocks of a row, for each row that they may begin in: list d has those whose row d it is. `column` counts
  // within the block that the list is at.
  struct Lists {
    std::int64_t at[largest_loose_block], end[largest_loose_block];
    int column[largest_loose_block];
  };

  PROTEAN_HOST_DEVICE bool is_entry(std::int64_t block, int i) const {
    return entries[block * rule.bit_bytes() + i / 8] >> (i % 8) & 1;
  }
  PROTEAN_HOST_DEVICE Lists lists(std::int64_t row) const {
    Lists l;
    const std::int64_t strip = row / rule.height;
    const int local = static_cast<int>(row - strip * rule.height);
    const auto first_from = [&](int t) {
      return first_where<std::int64_t>(strip_ptr[strip], strip_ptr[strip + 1],
                                       [&](std::int64_t i) { return local_row[i] >= t; });
    };
    std::int64_t end = first_from(local + 1);
    for (int d = 0; d < rule.R; ++d) {
      l.at[d] = l.end[d] = end, l.column[d] = 0;
      if (local < d) continue;
      l.at[d] = end = first_from(local - d);
    }
    return l;
  }
  // Moves list d to its next entry, from where it is on. False when there is none.
  PROTEAN_HOST_DEVICE bool find(Lists& l, int d) const {
    for (; l.at[d] < l.end[d]; ++l.at[d], l.column[d] = 0)
      for (; l.column[d] < rule.C; ++l.column[d])
        if (is_entry(l.at[d], d * rule.C + l.column[d])) return true;
    return false;
  }
  // Calls f(col) for the entries of a row of CSR that lie in no block.
  template <class F>
  PROTEAN_HOST_DEVICE void for_rest(std::int64_t row, const std::int32_t* col, std::int64_t k,
                                    std::int64_t end, F&& f) const {
    Lists l = lists(row);
    bool there[largest_loose_block];
    for (int d = 0; d < rule.R; ++d) there[d] = find(l, d);
    for (; k < end; ++k) {
      bool found = false;
      for (int d = 0; d < rule.R && !found; ++d)
        if (there[d] && block_col[l.at[d]] + l.column[d] == col[k]) {
          found = true, ++l.column[d];
          there[d] = find(l, d);
        }
      if (!found) f(col[k]);
    }
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    Lists l = lists(p);
    bool there[largest_loose_block];
    for (int d = 0; d < rule.R; ++d) there[d] = find(l, d);
    std::int64_t k = 0;
    const std::int64_t count = rest_length[p];
    for (;;) {
      int from = -1;
      std::int32_t lowest = 0;
      for (int d = 0; d < rule.R; ++d)
        if (there[d]) {
          const std::int32_t col = block_col[l.at[d]] + l.column[d];
          if (from < 0 || col < lowest) from = d, lowest = col;
        }
      if (k < count && (from < 0 || rest_col[k * rows + p] < lowest)) {
        f(rest_col[k * rows + p], blocks * rule.area() + k * rows + p);
        ++k;
        continue;
      }
      if (from < 0) return;
      f(lowest, l.at[from] * rule.area() + from * rule.C + l.column[from]);
      ++l.column[from];
      there[from] = find(l, from);
    }
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
};

}  // namespace protean::formats
