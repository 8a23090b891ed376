// Products of a range of batches of elements on the host, one element per SIMD lane. Private to operators/.
#pragma once
#include "core/parallel.hpp"
#include "operators/elements/element_plan.hpp"

namespace protean::detail {

// Elements in a batch on the host: the number of values in a cache line.
template <class T>
constexpr int host_lanes = 64 / sizeof(T);

enum class ElementTarget : unsigned char {
  add,         // y[row] += alpha * result
  add_shared,  // the same, with atomic additions in batches that are marked shared
  store        // y[position in the map] := result; alpha is not used
};

template <class T>
struct ElementWork {
  const ElementBatch* batches;
  const T* values;
  const std::int32_t* map;
  bool symmetric;
  ElementTarget target;
  T alpha;
  const T* x;
  T* y;
  bool transposed = false;  // with K_e^T; for whole matrices only
};

// The same for several vectors: entry r of vector j at x[r x_row + j x_column]. Not for ElementTarget::store.
template <class T>
struct ElementMultiWork {
  const ElementBatch* batches;
  const T* values;
  const std::int32_t* map;
  bool symmetric;
  ElementTarget target;
  T alpha;
  const T* x;
  T* y;
  std::int64_t x_row, x_column, y_row, y_column, columns;
};

// Y += alpha times the products of the batches. Each line of entries is read once for four vectors, from the cache for
// the next four.
template <class T>
void multiply_elements(const ElementMultiWork<T>& work, Range batches);

// Returns the sum of x_e . K_e x_e over the elements of the batches, also with K_e^T.
template <class T>
T multiply_elements(const ElementWork<T>& work, Range batches);

}  // namespace protean::detail
