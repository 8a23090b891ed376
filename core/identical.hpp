// Two matrices in host memory, compared. Private.
#pragma once
#include <cstddef>
#include <cstring>

#include "core/csr.hpp"

namespace protean {

// True if shape, pattern and values are equal bit for bit.
template <class T>
bool identical(const CsrMatrix<T>& a, const CsrMatrix<T>& b) {
  return same_pattern(a.pattern, b.pattern) &&
         (a.nonzeros() == 0 ||
          std::memcmp(a.values, b.values, static_cast<std::size_t>(a.nonzeros()) * sizeof(T)) == 0);
}

}  // namespace protean
