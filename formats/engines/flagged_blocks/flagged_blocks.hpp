// Blocks whose block rows are marked by one bit per block: the matrices of bccoo and bccoo-plus. blocks.hpp has the
// finder of blocks. This is the view that host and device share; flagged_blocks_host.hpp has the matrix on the host,
// flagged_blocks.cuh the device.
//
//        | 1 . 2 . |     2 x 2 blocks: a = | 1 . |  b = | 2 . |   c = | . . |  d = | . . |    (. is a stored 0)
//    A = | . 3 . . |                       | . 3 |      | . . |       | 4 5 |      | . 6 |
//        | . . . . |
//        | 4 5 . 6 |     blocks     a b c d, the block rows one after another
//                        flags      1 0 1 0     0: the last block of its block row
//                        block_col  0 1 0 1
//                        values     1 . 2 . . . . .  |  . 3 . . 4 5 . 6      row 0 of all blocks, then row 1
//
// slices > 1: the columns are cut into slices of slice_cols block columns, which are stacked: block row i of slice s is
// number s block_rows + i. A block row (of a slice) without blocks gets one block of zeros in the first column of the
// slice, so that counting the flags 0 gives the number of the block row.
//
// Blocks are cut into tiles of `tile` neighbours; a thread of a GPU computes one tile. The blocks of `lanes` tiles lie
// together, block p of all these tiles side by side, so that neighbouring threads read neighbouring blocks: block k
// lies in slot slot_of(k). With one lane that is k. The last tiles are filled with blocks of zeros, flag 1 and column
// 0.
//
//   values      [R][C slots]: row r of the block in a slot at r C slots + C slot
//   block_col   [slots] uint16 if all numbers fit, else int32
//   flags       [slots / 8] uint8: bit k % 8 of byte k / 8 belongs to block k (not slot k)
//   first_row   [tiles + 1] int32: the number of the block row with the first block of a tile
//   entries     [ceil(R C / 8) slots] uint8: which values of a slot are entries, as in blocks.hpp
// Private to formats/.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bisect.hpp"
#include "formats/engines/blocks/blocks.hpp"

namespace protean::formats {

// Calls f(R, C) with constants; R is 1 to 4, C is 1, 2 or 4.
template <class F>
void with_flag_shape(std::int64_t R, std::int64_t C, F&& f) {
  const auto with_cols = [&](auto rows) {
    switch (C) {
      case 1:
        return f(rows, FixedSize<1>());
      case 2:
        return f(rows, FixedSize<2>());
      default:
        return f(rows, FixedSize<4>());
    }
  };
  switch (R) {
    case 1:
      return with_cols(FixedSize<1>());
    case 2:
      return with_cols(FixedSize<2>());
    case 3:
      return with_cols(FixedSize<3>());
    default:
      return with_cols(FixedSize<4>());
  }
}

// The numbers from which all lengths follow.
struct FlagSizes {
  std::int64_t rows = 0, cols = 0;
  int R = 1, C = 1, tile = 8, lanes = 1;
  std::int64_t slices = 1, blocks = 0;  // blocks: without blocks that fill up tiles

  PROTEAN_HOST_DEVICE std::int64_t block_rows() const { return (rows + R - 1) / R; }
  PROTEAN_HOST_DEVICE std::int64_t block_cols() const { return (cols + C - 1) / C; }
  PROTEAN_HOST_DEVICE std::int64_t stacked_rows() const { return slices * block_rows(); }
  PROTEAN_HOST_DEVICE std::int64_t slice_cols() const {
    const std::int64_t all = block_cols();
    return all > slices ? (all + slices - 1) / slices : 1;
  }
  PROTEAN_HOST_DEVICE std::int64_t slots() const {
    const std::int64_t group = std::int64_t{tile} * lanes;
    return (blocks + group - 1) / group * group;
  }
  PROTEAN_HOST_DEVICE std::int64_t tiles() const { return slots() / tile; }
  PROTEAN_HOST_DEVICE int bit_bytes() const { return (R * C + 7) / 8; }
  // The column of the block of zeros of a block row of slice s. If there are fewer columns than slices, it lies in
  // another slice.
  PROTEAN_HOST_DEVICE std::int64_t zero_col(std::int64_t s) const {
    const std::int64_t first = s * slice_cols(), last = block_cols() - 1;
    return last < 0 ? 0 : first < last ? first : last;
  }
  bool narrow() const { return block_cols() <= 65536; }
};

// The arrays; a view of the rows in the sense of row_view.hpp.
template <class T>
struct FlaggedBlocks {
  const T* values;
  const std::int32_t* col32;  // one of the two is null
  const std::uint16_t* col16;
  const std::uint8_t *flags, *entries;
  const std::int32_t* first_row;
  FlagSizes size;
  std::int64_t slots;

  PROTEAN_HOST_DEVICE std::int64_t slot_of(std::int64_t k) const {
    const std::int64_t t = k / size.tile, p = k - t * size.tile, group = t / size.lanes;
    return (group * size.tile + p) * size.lanes + (t - group * size.lanes);
  }
  // The inverse.
  PROTEAN_HOST_DEVICE std::int64_t block_in(std::int64_t slot) const {
    const std::int64_t step = slot / size.lanes, lane = slot - step * size.lanes, group = step / size.tile;
    return (group * size.lanes + lane) * size.tile + (step - group * size.tile);
  }
  PROTEAN_HOST_DEVICE bool goes_on(std::int64_t k) const { return flags[k / 8] >> (k % 8) & 1; }
  PROTEAN_HOST_DEVICE std::int64_t col_of(std::int64_t slot) const {
    return col16 ? col16[slot] : col32[slot];
  }
  // Whether tile t begins with a block that goes on with the block row of the block before.
  PROTEAN_HOST_DEVICE bool continues(std::int64_t t) const { return t > 0 && goes_on(t * size.tile - 1); }
  PROTEAN_HOST_DEVICE bool is_entry(std::int64_t slot, int i) const {
    return entries[slot * size.bit_bytes() + i / 8] >> (i % 8) & 1;
  }
  PROTEAN_HOST_DEVICE std::int64_t place(std::int64_t slot, int r, int c) const {
    return (r * slots + slot) * size.C + c;
  }
  // The number of the (stacked) block row of block k: as many flags before it are 0.
  PROTEAN_HOST_DEVICE std::int64_t row_with(std::int64_t k) const {
    const std::int64_t t = k / size.tile;
    std::int64_t j = first_row[t];
    for (std::int64_t i = t * size.tile; i < k; ++i) j += !goes_on(i);
    return j;
  }
  // The first block of (stacked) block row j.
  PROTEAN_HOST_DEVICE std::int64_t first_of(std::int64_t j) const {
    if (j == 0) return 0;
    // The last tile in which fewer than j block rows have ended before.
    const std::int64_t t =
        first_where(std::int64_t{1}, slots / size.tile, [&](std::int64_t i) { return first_row[i] >= j; }) -
        1;
    std::int64_t k = t * size.tile;
    for (std::int64_t ended = first_row[t]; ended < j; ++k) ended += !goes_on(k);
    return k;
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return size.rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const int r = static_cast<int>(p % size.R);
    for (std::int64_t s = 0; s < size.slices; ++s)
      for (std::int64_t k = first_of(s * size.block_rows() + p / size.R);; ++k) {
        const std::int64_t slot = slot_of(k), left = col_of(slot) * size.C;
        for (int c = 0; c < size.C; ++c)
          if (is_entry(slot, r * size.C + c)) f(static_cast<std::int32_t>(left + c), place(slot, r, c));
        if (!goes_on(k)) break;
      }
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
};

// What a format makes of its parameters.
struct FlagRule {
  std::vector<BlockShape> shapes;
  std::int64_t shape = 1, slices = 1, tile = 8, lanes = 0;
};
FlagRule flag_rule(const FormatParams& params);
// For the finder of blocks and the choice of a shape.
BlockSpec flag_block_spec(std::vector<BlockShape> shapes);

// The shape that rule.shape counts from the one with the fewest bytes; nothing if there are fewer shapes.
// choose(BlockSpec): the one with the fewest bytes.
template <class Choose>
std::optional<BlockShape> shape_of(const FlagRule& rule, const Choose& choose) {
  std::vector<BlockShape> left = rule.shapes;
  for (std::int64_t passed = 1; !left.empty(); ++passed) {
    const BlockShape fewest = choose(flag_block_spec(left));
    if (passed == rule.shape) return fewest;
    std::erase_if(left, [&](const BlockShape& one) { return one.R == fewest.R && one.C == fewest.C; });
  }
  return {};
}
// Why there is no such shape.
std::string no_shape(const FlagRule& rule);

constexpr ParamDoc flag_rows_param = {.name = "rows",
                                      .doc = "rows of a block; auto: the number with the fewest bytes",
                                      .default_value = "auto",
                                      .choices = "auto|measured|1|2|3|4"};
constexpr ParamDoc flag_cols_param = {.name = "cols",
                                      .doc = "columns of a block; auto: the number with the fewest bytes",
                                      .default_value = "auto",
                                      .choices = "auto|measured|1|2|4"};
constexpr ParamDoc flag_shape_param = {
    .name = "shape",
    .doc = "1: of the sizes that rows and cols allow, the one with the fewest bytes; 2, 3, 4: the next ones",
    .default_value = "1",
    .choices = "1|measured|2|3|4"};
constexpr ParamDoc flag_tile_param = {.name = "tile",
                                      .doc = "neighbouring blocks of a thread of a GPU",
                                      .default_value = "8",
                                      .choices = "8|measured|16|32|64"};
constexpr ParamDoc flag_lanes_param = {
    .name = "lanes",
    .doc = "tiles whose blocks lie side by side; 0: 1 on a host, 32 on a GPU, which takes no other number",
    .default_value = "0",
    .smallest = 0,
    .largest = 64};

// admit() once the blocks have been counted. `extra`: further bytes.
Admission admit_flagged(const FlagSizes& size, std::int64_t nonzeros, const FormatParams& params,
                        std::size_t value_bytes, std::size_t extra);
// Why these sizes are refused before anything is counted; empty when they are not.
std::string refusal_of(const FlagSizes& size);

}  // namespace protean::formats
