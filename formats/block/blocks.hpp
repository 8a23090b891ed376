// The product with small dense blocks, row-major one after another. Private to formats/.
#pragma once
#include <cstdint>

#include "formats/host_support.hpp"

namespace protean::formats {

// y := alpha A x + beta y. Block b of block row i covers rows i R .. and columns block_col[b] C ..; blocks at
// the last rows and columns may stick out, where neither x is read nor y written.
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
  // The sums of deterministic mode: fused, and nothing added where there is no entry; no dot. Bit i % 8 of
  // byte i / 8 of a block, of ceil(R C / 8) bytes each, says that its value i is an entry.
  bool ordered;
  const std::uint8_t* entries;
};

constexpr int block_sizes[] = {1, 2, 3, 4, 8};

// Block rows [begin, end).
double block_product(const BlockProduct<double>& product, std::int64_t begin, std::int64_t end);
float block_product(const BlockProduct<float>& product, std::int64_t begin, std::int64_t end);

}  // namespace protean::formats
