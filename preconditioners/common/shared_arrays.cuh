// Arrays in the shared memory of a thread block whose sizes are known when a kernel is launched. Private to
// preconditioners/.
#pragma once
#include <cstdint>

namespace protean::device {

extern __shared__ __align__(16) unsigned char memory_of_block[];

// Takes arrays out of the shared memory of a block, each at a whole word.
struct SharedArrays {
  unsigned char* next = memory_of_block;
  template <class U>
  __device__ U* take(std::int64_t size) {
    auto* const array = reinterpret_cast<U*>(next);
    next += (size * static_cast<std::int64_t>(sizeof(U)) + 15) / 16 * 16;
    return array;
  }
};

}  // namespace protean::device
