// Products with sell-packed on the device. Private to this folder, CUDA only.
#pragma once
#include "formats/compressed/sell_packed_layout.cuh"

namespace protean::formats::packed_device {

// Which kernel is used: how many threads share a row, and what there is besides diagonal slots; offsets:
// much, and little of it wide slots.
enum class Rest : unsigned char { none, few, offsets, many };
struct Dealing {
  int split = 1;
  Rest rest = Rest::many;
};

// y := alpha A x + beta y; where `result` is asked for, also x . y of it (then alpha is 1 and beta 0).
template <class T>
void multiply_packed(const Context& context, const PackedArrays<T>& a, Dealing dealing, T alpha, const T* x,
                     T beta, T* y, T* result);

}  // namespace protean::formats::packed_device
