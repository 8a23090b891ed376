// The product with small dense blocks, row-major one after another. Private to formats/.
#pragma once
#include <cstdint>

#include "formats/host_support.hpp"

namespace protean::formats {

// y := alpha A x + beta y. Block b of block row i covers the rows from i R on and the columns from
// block_col[b] C on. Where a block extends past the last row or column, neither x is read nor y written.
template <class T>
struct BlockProduct {
  int R, C;  // each one of block_sizes
  const T* values;
  const std::int64_t* block_ptr;
  const std::int32_t* block_col;
  std::int64_t blocks, rows, cols;
  T alpha, beta;  // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;  // return the sum of x[row] * y[row], else 0
  // Add as in deterministic mode: fused, nothing where there is no entry, no dot product. Bit i % 8 of byte i
  // / 8 of a block, of ceil(R C / 8) bytes each, is 1 where its value i is an entry.
  bool ordered;
  const std::uint8_t* entries;
};

constexpr int block_sizes[] = {1, 2, 3, 4, 8};

// Block rows [begin, end).
double block_product(const BlockProduct<double>& product, std::int64_t begin, std::int64_t end);
float block_product(const BlockProduct<float>& product, std::int64_t begin, std::int64_t end);

}  // namespace protean::formats
