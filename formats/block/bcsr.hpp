// The rules of bcsr that host and device share. Private to this folder; bcsr.cpp opens with the layout.
#pragma once
#include <type_traits>
#include <vector>

#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int largest_block = 8;

// Calls f with a number of rows or columns of a block (1, 2, 3, 4 or 8) as an integral constant, so that
// loops over a block unroll.
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
    default:
      return f(std::integral_constant<int, 8>());
  }
}

struct BlockShape {
  std::int64_t R, C;
};

// A large matrix is sampled in most_groups groups of group_rows rows (a common multiple of 2, 3, 4 and 8). A
// matrix with no more rows than that is counted completely.
constexpr std::int64_t group_rows = 24, most_groups = 32;

std::size_t block_bytes(const BlockShape& shape, std::int64_t blocks, std::int64_t rows,
                        std::size_t value_bytes);

// The shapes that the parameters rows and cols allow.
std::vector<BlockShape> allowed_shapes(const FormatParams& params);

// The shape with the fewest bytes, the first of equals. sampled[i] is the number of blocks of shapes[i] in
// the sample.
BlockShape fewest_bytes(const std::vector<BlockShape>& shapes, const std::vector<std::int64_t>& sampled,
                        std::int64_t rows, std::size_t value_bytes);

Admission admit_blocks(const BlockShape& shape, std::int64_t blocks, const SparsityPattern& pattern,
                       const FormatParams& params, std::size_t value_bytes);

}  // namespace protean::formats
