// How many parts of a product are worth having. Private.
#pragma once
#include <cstdint>

#include "core/parallel.hpp"

namespace protean {

// Of a product with a matrix of this size. The vector operations of a solve with fewer than 4,096 rows run on one
// thread, so that x and y would move between the caches of its processor and of the others around each product. On two
// threads of an Intel Xeon that costs as much as 20 entries a row: an iteration of jacobi-cg on 2,500 rows with 12,300
// entries takes 2.4 times as long on them as on one thread, on 1,344 rows with 82,764 entries 0.72 times.
inline int product_parts(const Context& context, std::int64_t rows, std::int64_t entries) noexcept {
  const bool alone = useful_parts(context, rows) == 1 && entries < 5000 + 20 * rows;
  return alone ? 1 : useful_parts(context, rows + entries);
}

}  // namespace protean
