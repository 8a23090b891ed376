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

// A block is kept when it has `least` entries or more. The bytes of a block and of an entry of the rest are the costs
// of the dynamic programme.
struct StripRule {
  std::int64_t height;
  int R, C, least;
  bool greedy;
  std::int64_t block_bytes, entry_bytes;
  std::int64_t strips(std::int64_t rows) const { return (rows + height - 1) / height; }
  PROTEAN_HOST_DEVICE int area() const { return R * C; }
  PROTEAN_HOST_DEVICE int bit_bytes() const { return (R * C + 7) / 8; }
};
StripRule bcoo_bcsr_rule(const FormatParams& params, std::size_t value_bytes);

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
// of the strip's entries k is 0 before; afterwards it is 1 if a block has the entry. `first` is the first of them.
template <class RowPtr, class Block>
PROTEAN_HOST_DEVICE void select_greedily(std::int64_t rows, std::int64_t cols, const RowPtr& row_ptr,
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

// The dynamic programme. The rows of the strip are cut into bands of R rows and single rows. A single row is rest. In a
// band blocks lie side by side, each from a column with entries on (or at the right end of the matrix), and the other
// entries are rest. Of all these layouts it takes one of the fewest bytes:
//   band      f(i) = min(entries of column i times entry_bytes + f(i + 1), block_bytes + f(j)), where i counts the
//             columns with entries in the band, and j is the first one right of a block from column i on
//   strip     b(t) = min(entries of row t times entry_bytes + b(t + 1), f of the band of rows t .. + b(t + R))
// A block needs `least` entries. choice has a byte for each entry of the strip, as workspace.
template <class RowPtr>
struct StripBand {
  const RowPtr& row_ptr;
  const std::int32_t* col;
  std::int64_t cols, row;
  const StripRule& rule;

  // The least cost. choice[i] := 1 if a block begins at column i, counted from the right, unless choice is null.
  PROTEAN_HOST_DEVICE std::int64_t cost(std::uint8_t* choice) const {
    const int R = rule.R, C = rule.C;
    std::int64_t at[largest_loose_block], begin[largest_loose_block];
    for (int r = 0; r < R; ++r) begin[r] = row_ptr[row + r], at[r] = row_ptr[row + r + 1] - 1;
    // The next columns to the right, the nearest one first: number, entries, and f from there on.
    std::int64_t number[largest_loose_block] = {}, entries[largest_loose_block] = {},
                 cost[largest_loose_block] = {};
    int known = 0;
    for (std::int64_t i = 0;; ++i) {
      std::int64_t here = -1;
      for (int r = 0; r < R; ++r)
        if (at[r] >= begin[r] && col[at[r]] > here) here = col[at[r]];
      if (here < 0) return known > 0 ? cost[0] : 0;
      std::int64_t mine = 0;
      for (int r = 0; r < R; ++r)
        if (at[r] >= begin[r] && col[at[r]] == here) ++mine, --at[r];
      std::int64_t least = mine * rule.entry_bytes + (known > 0 ? cost[0] : 0);
      const std::int64_t left = here + C <= cols ? here : cols - C;
      bool block = false;
      if (left >= 0) {
        std::int64_t inside = mine;
        int next = 0;
        while (next < known && number[next] < left + C) inside += entries[next++];
        const std::int64_t with = rule.block_bytes + (next < known ? cost[next] : 0);
        if (inside >= rule.least && with < least) least = with, block = true;
      }
      if (choice) choice[i] = block;
      if (known < C) ++known;
      for (int k = known - 1; k > 0; --k)
        number[k] = number[k - 1], entries[k] = entries[k - 1], cost[k] = cost[k - 1];
      number[0] = here, entries[0] = mine, cost[0] = least;
    }
  }

  // Calls block(first column, bits) for the blocks of the band, and marks their entries. choice is the choice of
  // cost().
  template <class Block>
  PROTEAN_HOST_DEVICE void place(const std::uint8_t* choice, std::uint8_t* covered, std::int64_t first,
                                 Block block) const {
    const int R = rule.R, C = rule.C;
    std::int64_t at[largest_loose_block], end[largest_loose_block];
    for (int r = 0; r < R; ++r) at[r] = row_ptr[row + r], end[r] = row_ptr[row + r + 1];
    const auto lowest = [&] {
      std::int64_t here = cols;
      for (int r = 0; r < R; ++r)
        if (at[r] < end[r] && col[at[r]] < here) here = col[at[r]];
      return here;
    };
    std::int64_t i = 0;  // columns left
    for (std::int64_t here = lowest(); here < cols; here = lowest(), ++i)
      for (int r = 0; r < R; ++r)
        if (at[r] < end[r] && col[at[r]] == here) ++at[r];
    for (int r = 0; r < R; ++r) at[r] = row_ptr[row + r];
    while (i > 0) {
      const std::int64_t here = lowest();
      if (!choice[i - 1]) {
        for (int r = 0; r < R; ++r)
          if (at[r] < end[r] && col[at[r]] == here) ++at[r];
        --i;
        continue;
      }
      const std::int64_t left = here + C <= cols ? here : cols - C;
      unsigned bits = 0;
      for (std::int64_t c = here; c < left + C; ++c) {
        bool there = false;
        for (int r = 0; r < R; ++r)
          if (at[r] < end[r] && col[at[r]] == c) {
            bits |= 1u << (r * C + static_cast<int>(c - left));
            covered[at[r]++ - first] = 1, there = true;
          }
        i -= there;
      }
      block(left, bits);
    }
  }
};

template <class RowPtr, class Block>
PROTEAN_HOST_DEVICE void select_by_programme(std::int64_t rows, std::int64_t cols, const RowPtr& row_ptr,
                                             const std::int32_t* col, const StripRule& rule,
                                             std::int64_t strip, std::uint8_t* covered, std::int64_t first,
                                             std::uint8_t* choice, Block block) {
  const std::int64_t top = strip * rule.height, below = top + rule.height, end = below < rows ? below : rows;
  const int R = rule.R, count = static_cast<int>(end - top);
  std::int64_t cost[highest_strip + 1];
  bool band[highest_strip];
  cost[count] = 0;
  for (int t = count - 1; t >= 0; --t) {
    cost[t] = (row_ptr[top + t + 1] - row_ptr[top + t]) * rule.entry_bytes + cost[t + 1], band[t] = false;
    if (t + R > count) continue;
    const std::int64_t with =
        StripBand<RowPtr>{row_ptr, col, cols, top + t, rule}.cost(nullptr) + cost[t + R];
    if (with < cost[t]) cost[t] = with, band[t] = true;
  }
  for (int t = 0; t < count;) {
    if (!band[t]) {
      ++t;
      continue;
    }
    const StripBand<RowPtr> its{row_ptr, col, cols, top + t, rule};
    its.cost(choice);
    its.place(choice, covered, first, [&](std::int64_t left, unsigned bits) { block(t, left, bits); });
    t += R;
  }
}

template <class RowPtr, class Block>
PROTEAN_HOST_DEVICE void select_blocks(std::int64_t rows, std::int64_t cols, const RowPtr& row_ptr,
                                       const std::int32_t* col, const StripRule& rule, std::int64_t strip,
                                       std::uint8_t* covered, std::int64_t first, std::uint8_t* choice,
                                       Block block) {
  if (rule.greedy)
    select_greedily(rows, cols, row_ptr, col, rule, strip, covered, first, block);
  else
    select_by_programme(rows, cols, row_ptr, col, rule, strip, covered, first, choice, block);
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
