// The blocks engine: matrices as small dense blocks of R x C on a grid, in the containers CSR, COO, ELL and SELL. One
// finder, one view of the rows, one fill; a format is a BlockSpec. This is what host and device share; BlockMatrix
// below is the matrix on the host, blocks.cuh has the device.
//
//        | 1 . 2 . |     2 x 2 blocks: a = | 1 . |  b = | 2 . |   c = | . . |  d = | . . |    (. is a stored 0)
//    A = | . 3 . . |                       | . 3 |      | . . |       | 4 5 |      | . 6 |
//        | . . . . |
//        | 4 5 . 6 |     A block lies in a slot. Where the slots of a block row are:
//
//    rows (CSR)     a b | c d      block row i: slots ptr[i] .. ptr[i + 1] - 1
//    list (COO)     a b c d        block_row = 0 0 1 1, ascending
//    slices (SELL)  a c b d        slice s of h block rows: block k of the block row in lane i at ptr[s] + k h + i; as
//                                  many for each as the longest has. A last slice with fewer block rows is as high as
//                                  these. One slice of all block rows (ELL) has no ptr. `sorted`: positions by
//                                  descending number of blocks, the block row of each in perm.
//
// Where the values of the slots are (values of 1 2 . 3 ... are written as a0 a1 a2 a3, row by row in a block):
//
//    blocks    a0 a1 a2 a3 b0 b1 b2 b3 c0 ...        one block after another
//    columns   a0 a2 a1 a3 b0 b2 b1 b3 c0 ...        the same, each block column by column
//    row       a0 b0 a1 b1 a2 b2 a3 b3 | c0 d0 ...   one value of all blocks of a block row
//    slices    a0 c0 a1 c1 a2 c2 a3 c3 | b0 d0 ...   one value (or one unit of W values) of block k of all lanes of a
//                                                    slice
//    planes    a0 c0 b0 d0 | a1 c1 b1 d1 | ...       one value (or one unit of W values) of all slots
//
// In each of them value (r, c) of block k of a block row lies at base + k step + u unit + c % W, with u = r C / W + c /
// W: see BlockRow. block_col holds numbers of columns of blocks. `entries` holds, for each slot, ceil(R C / 8) bytes;
// bit i % 8 of byte i / 8 is 1 if value i = r C + c is an entry: it distinguishes stored zeros from fill. Padding slots
// have no entry, the value 0 and the column of the slot before, or 0 (the own column if the diagonal is apart).
//
// Contract. Blocks of a block row ascend in their columns, except for `apart` blocks: with diagonal_apart the blocks on
// the diagonal are the last ones of `values` (plane by plane, block rows each) and of `entries`. Products read x for
// all columns of a block below `cols`, and write no row from `rows` on. Private to formats/.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int largest_block = 8;

// A number of rows or columns of a block: constant, so that loops over a block unroll, or not.
template <int N>
struct FixedSize {
  static constexpr int most = N;
  constexpr operator int() const { return N; }
};
struct AnySize {
  static constexpr int most = largest_block;
  int size;
  constexpr operator int() const { return size; }
};

// Calls f with a size from 1 to 8 as an integral constant.
template <class F>
void with_size(std::int64_t size, F&& f) {
  switch (size) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 5:
      return f(std::integral_constant<int, 5>());
    case 6:
      return f(std::integral_constant<int, 6>());
    case 7:
      return f(std::integral_constant<int, 7>());
    default:
      return f(std::integral_constant<int, 8>());
  }
}

// Calls f(R, C): constants for 1, 2, 3, 4 and 8 in any combination and for 6 x 6, else both of type AnySize.
template <class F>
decltype(auto) with_shape(std::int64_t R, std::int64_t C, F&& f) {
  const auto with_cols = [&](auto rows) {
    switch (C) {
      case 1:
        return f(rows, FixedSize<1>());
      case 2:
        return f(rows, FixedSize<2>());
      case 3:
        return f(rows, FixedSize<3>());
      case 4:
        return f(rows, FixedSize<4>());
      default:
        return f(rows, FixedSize<8>());
    }
  };
  const auto fixed = [](std::int64_t n) { return n <= 4 || n == 8; };
  if (R == 6 && C == 6) return f(FixedSize<6>(), FixedSize<6>());
  if (!fixed(R) || !fixed(C)) return f(AnySize{static_cast<int>(R)}, AnySize{static_cast<int>(C)});
  switch (R) {
    case 1:
      return with_cols(FixedSize<1>());
    case 2:
      return with_cols(FixedSize<2>());
    case 3:
      return with_cols(FixedSize<3>());
    case 4:
      return with_cols(FixedSize<4>());
    default:
      return with_cols(FixedSize<8>());
  }
}

// Constants for the squares 2, 3, 4, 6 and 8 and for 1 x 4, 2 x 4, 8 x 4, 1 x 8, 2 x 8 and 4 x 8: for kernels that
// would take too long to compile for all combinations.
template <class F>
decltype(auto) with_usual_shape(std::int64_t R, std::int64_t C, F&& f) {
  switch (R * 16 + C) {
    case 0x14:
      return f(FixedSize<1>(), FixedSize<4>());
    case 0x18:
      return f(FixedSize<1>(), FixedSize<8>());
    case 0x22:
      return f(FixedSize<2>(), FixedSize<2>());
    case 0x24:
      return f(FixedSize<2>(), FixedSize<4>());
    case 0x28:
      return f(FixedSize<2>(), FixedSize<8>());
    case 0x33:
      return f(FixedSize<3>(), FixedSize<3>());
    case 0x44:
      return f(FixedSize<4>(), FixedSize<4>());
    case 0x48:
      return f(FixedSize<4>(), FixedSize<8>());
    case 0x66:
      return f(FixedSize<6>(), FixedSize<6>());
    case 0x84:
      return f(FixedSize<8>(), FixedSize<4>());
    case 0x88:
      return f(FixedSize<8>(), FixedSize<8>());
    default:
      return f(AnySize{static_cast<int>(R)}, AnySize{static_cast<int>(C)});
  }
}

struct BlockShape {
  std::int64_t R, C;
  std::int64_t area() const { return R * C; }
  std::int64_t bit_bytes() const { return (R * C + 7) / 8; }
  std::int64_t block_rows(std::int64_t rows) const { return (rows + R - 1) / R; }
};

enum class BlockContainer : unsigned char { rows, list, slices };
enum class BlockOrder : unsigned char { blocks, columns, row, slices, planes };

struct BlockRule {
  BlockContainer container = BlockContainer::rows;
  BlockOrder order = BlockOrder::blocks;
  std::int64_t slice = 0;  // slices: block rows of one; 0: one slice of all
  bool sorted = false;     // slices: by descending number of blocks. rows: such an order is kept in `border`
  bool units = false;      // order slices or planes: units of 4 values if C is a multiple of 4, else of C
  bool diagonal_apart = false;  // order planes without units, square blocks

  std::int64_t height(std::int64_t block_rows) const { return slice > 0 ? slice : block_rows; }
  std::int64_t slices(std::int64_t block_rows) const {
    return block_rows == 0 ? 0 : (block_rows + height(block_rows) - 1) / height(block_rows);
  }
};

// The slots of one block row, and its values: value (u, w) of its block k at base + k step + u unit + w.
struct BlockRow {
  std::int64_t first, slot_step, count;
  std::int64_t base, step, unit;
};

// The arrays; a view of the rows in the sense of row_view.hpp. Position p is row p % R of the block row at place p / R.
template <class T>
struct BlockGrid {
  const T* values;
  const std::int32_t* block_col;
  const std::uint8_t* entries;
  const std::int64_t* ptr;        // rows: [block rows + 1]; slices: [slices + 1], or null for one slice
  const std::int32_t* block_row;  // list: [slots]
  const std::int32_t* perm;       // slices, sorted: place -> block row; else null
  std::int64_t rows, cols, block_rows, slots;
  std::int64_t height,
      width;    // slices: block rows of a slice; blocks of a block row if there is one slice
  int R, C, W;  // W: the values of a unit
  BlockContainer container;
  BlockOrder order;
  bool diagonal_apart;

  void set_shape(const BlockRule& rule, const BlockShape& shape, std::int64_t matrix_rows,
                 std::int64_t matrix_cols, std::int64_t all_slots) {
    rows = matrix_rows, cols = matrix_cols, slots = all_slots, block_rows = shape.block_rows(rows);
    height = rule.height(block_rows), width = block_rows == 0 ? 0 : slots / block_rows;
    R = static_cast<int>(shape.R), C = static_cast<int>(shape.C);
    container = rule.container, order = rule.order, diagonal_apart = rule.diagonal_apart;
    W = order == BlockOrder::blocks ? C : rule.units ? (C % 4 == 0 ? 4 : C) : 1;
  }

  PROTEAN_HOST_DEVICE int area() const { return R * C; }
  PROTEAN_HOST_DEVICE int bit_bytes() const { return (R * C + 7) / 8; }
  PROTEAN_HOST_DEVICE std::int64_t number(std::int64_t place) const { return perm ? perm[place] : place; }

  // list: the first slot of block row i or of a later one.
  PROTEAN_HOST_DEVICE std::int64_t first_of(std::int64_t i) const {
    return first_where<std::int64_t>(0, slots, [&](std::int64_t slot) { return block_row[slot] >= i; });
  }

  PROTEAN_HOST_DEVICE BlockRow block_row_at(std::int64_t place) const {
    BlockRow b{};
    std::int64_t group = 0, lane = 0;
    if (container == BlockContainer::slices) {
      const std::int64_t s = place / height, top = s * height;
      const std::int64_t h = block_rows - top < height ? block_rows - top : height;
      lane = place - top, b.slot_step = h;
      group = ptr ? ptr[s] : 0, b.count = ptr ? (ptr[s + 1] - group) / h : width;
    } else {
      group = ptr ? ptr[place] : first_of(place);
      b.count = (ptr ? ptr[place + 1] : first_of(place + 1)) - group, b.slot_step = 1;
    }
    b.first = group + lane;
    const std::int64_t size = area();
    if (order == BlockOrder::row)
      b.base = group * size, b.step = 1, b.unit = b.count;
    else if (order == BlockOrder::slices)
      b.base = group * size + lane * W, b.step = b.slot_step * size, b.unit = b.slot_step * W;
    else if (order == BlockOrder::planes)
      b.base = b.first * W, b.step = b.slot_step * W, b.unit = slots * W;
    else
      b.base = b.first * size, b.step = b.slot_step * size, b.unit = W;
    return b;
  }
  // The block on the diagonal of block row i, if it is apart.
  PROTEAN_HOST_DEVICE BlockRow apart(std::int64_t i) const {
    return {slots + i, 1, 1, slots * area() + i, 1, block_rows};
  }
  // Where value (r, c) of block k lies.
  PROTEAN_HOST_DEVICE std::int64_t place(const BlockRow& b, std::int64_t k, int r, int c) const {
    const int u = order == BlockOrder::columns ? c * R + r : r * (C / W) + c / W;
    return b.base + k * b.step + u * b.unit + c % W;
  }
  PROTEAN_HOST_DEVICE bool is_entry(std::int64_t slot, int i) const {
    return entries[slot * bit_bytes() + i / 8] >> (i % 8) & 1;
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return block_rows * R; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const {
    const std::int64_t place_of_p = p / R, r = number(place_of_p) * R + (p - place_of_p * R);
    return r < rows ? r : -1;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t at = p / R, i = number(at);
    const int r = static_cast<int>(p - at * R);
    const BlockRow b = block_row_at(at);
    bool wanted = diagonal_apart;
    const auto block = [&](const BlockRow& of, std::int64_t k, std::int64_t slot,
                           std::int64_t number_of_col) {
      for (int c = 0; c < C; ++c)
        if (is_entry(slot, r * C + c))
          f(static_cast<std::int32_t>(number_of_col * C + c), place(of, k, r, c));
    };
    for (std::int64_t k = 0; k < b.count; ++k) {
      const std::int64_t slot = b.first + k * b.slot_step, col = block_col[slot];
      if (wanted && col > i) block(apart(i), 0, slots + i, i), wanted = false;
      block(b, k, slot, col);
    }
    if (wanted) block(apart(i), 0, slots + i, i);
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
};

// A large matrix is sampled in most_groups groups of group_rows rows (a common multiple of 2, 3, 4, 6 and 8). A
// matrix with no more rows than that is counted completely.
constexpr std::int64_t group_rows = 24, most_groups = 32;
constexpr int most_shapes = 16;

// The numbers of blocks of the sampled block rows, one list for each shape. Those of a group lie together.
using BlockSamples = std::vector<std::vector<std::int32_t>>;

// What a format makes of its parameters: how the blocks lie, and the shapes among which choose() takes one. It is
// called for two shapes and more. A shape that does not divide group_rows is never among several.
struct BlockSpec {
  BlockRule rule;
  std::vector<BlockShape> shapes;
  BlockShape (*choose)(const BlockRule&, const std::vector<BlockShape>&, const BlockSamples&,
                       std::int64_t rows, std::size_t value_bytes);
};
using BlockSpecOf = BlockSpec (*)(const FormatParams&);

// All shapes that the parameters rows and cols allow; auto allows 2, 3 and 4.
std::vector<BlockShape> allowed_shapes(const FormatParams& params);

// The shape with the fewest bytes, the first of equals.
BlockShape fewest_bytes(const BlockRule& rule, const std::vector<BlockShape>& shapes,
                        const BlockSamples& samples, std::int64_t rows, std::size_t value_bytes);

// Bytes of all arrays.
std::size_t block_bytes(const BlockRule& rule, const BlockShape& shape, std::int64_t slots, std::int64_t rows,
                        std::size_t value_bytes);

// Why this rule does not suit the matrix, before anything is counted; empty when it does.
std::string refusal_of(const BlockRule& rule, const SparsityPattern& pattern);

// Refuses when more than max_fill (of the parameters) values an entry would be stored.
Admission admit_blocks(const BlockRule& rule, const BlockShape& shape, std::int64_t slots,
                       const SparsityPattern& pattern, const FormatParams& params, std::size_t value_bytes);

// Parameters that several formats have.
constexpr ParamDoc block_rows_param = {
    .name = "rows",
    .doc = "rows of a block; auto: the number among 2, 3, 4 with the fewest bytes; measured: the fastest",
    .default_value = "auto",
    .choices = "auto|measured|1|2|3|4|5|6|7|8"};
constexpr ParamDoc block_cols_param = {
    .name = "cols",
    .doc = "columns of a block; auto: the number among 2, 3, 4 with the fewest bytes; measured: the fastest",
    .default_value = "auto",
    .choices = "auto|measured|1|2|3|4|5|6|7|8"};
constexpr ParamDoc block_fill_param = {.name = "max_fill",
                                       .doc = "the format refuses more stored values per entry than this",
                                       .default_value = "2",
                                       .smallest = 1,
                                       .largest = 1'000'000};

// bcsr-choi: the lanes of a GPU that share a block row; about two blocks of the mean block row for each.
int choi_lanes(std::int64_t blocks, std::int64_t block_rows);

// The shape of the least time of the model of Choi, Singh and Vuduc (bcsr_choi.cpp), for the containers rows and
// slices.
BlockShape choi_model(const BlockRule& rule, const std::vector<BlockShape>& shapes,
                      const BlockSamples& samples, std::int64_t rows, std::size_t value_bytes);

// The specs of the formats, for host and device.
BlockSpec bcsr_spec(const FormatParams& params);
BlockSpec bcoo_spec(const FormatParams& params);
BlockSpec bsellpack_spec(const FormatParams& params);
BlockSpec bin_bcsr_spec(const FormatParams& params);
BlockSpec bcsr_choi_spec(const FormatParams& params);
BlockSpec bcsr_verschoor_spec(const FormatParams& params);

}  // namespace protean::formats
