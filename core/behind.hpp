// Places in arrays that may not exist. Private to the library.
#pragma once
#include <cstdint>

namespace protean {

// array + count; null if there is no array: an empty Buffer or vector may have none, and null + count is undefined
// even if nobody reads it.
template <class T>
constexpr T* behind(T* array, std::int64_t count) noexcept {
  return array ? array + count : nullptr;
}

}  // namespace protean
