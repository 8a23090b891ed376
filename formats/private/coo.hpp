// Products with sorted triples, for the format coo and for formats that keep a part of the matrix as triples.
#pragma once
#include <cstdint>

#include "core/context.hpp"

namespace protean::formats {

// Entries sorted by row, then column. Not owning; host memory.
template <class T>
struct Triples {
  std::int64_t size = 0;
  const std::int32_t* row = nullptr;
  const std::int32_t* col = nullptr;
  const T* values = nullptr;
};

// y := alpha A x + beta y for all `rows` rows; beta == 0 does not read y. Returns x . A x when `with_dot` is
// set, 0 otherwise. Threads get the same number of entries each, wherever a row ends; a row that is cut is
// put together afterwards in the order of the threads. Nothing is allocated.
template <class T>
T multiply_triples(const Context& context, const Triples<T>& A, std::int64_t rows, T alpha, const T* x,
                   T beta, T* y, bool with_dot);

// y := y + alpha A x; rows without entries are not touched. Otherwise the same.
template <class T>
T add_triples(const Context& context, const Triples<T>& A, T alpha, const T* x, T* y, bool with_dot);

}  // namespace protean::formats
