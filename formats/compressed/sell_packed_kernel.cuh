// Products with sell-packed on the device. Private to this folder, CUDA only.
#pragma once
#include "core/multi_vector.hpp"
#include "formats/compressed/sell_packed_layout.cuh"

namespace protean::formats::packed_device {

// The choice of the kernel: how many threads share a row, and which slots there are besides diagonal ones.
// offsets: many, of which few are wide.
enum class Rest : unsigned char { none, few, offsets, many };
struct Launch {
  int split = 1;
  Rest rest = Rest::many;
};

// y := alpha A x + beta y. When `result` is not null also *result := x . y; alpha is 1 and beta 0 then. V: of the
// values, T or float.
template <class T, class V>
void multiply_packed(const Context& context, const PackedArrays<V>& a, Launch how, T alpha, const T* x,
                     T beta, T* y, T* result);

// Y := alpha A X + beta Y. In sell_packed_multi.cu.
template <class T, class V>
void multi_packed_on_device(const Context& context, const PackedArrays<V>& a, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y);

}  // namespace protean::formats::packed_device
