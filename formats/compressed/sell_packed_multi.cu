// Products of sell-packed with several vectors on the device, by the kernel of engines/several/multi_rows.cuh.
#include "formats/compressed/sell_packed_kernel.cuh"
#include "formats/engines/several/multi_rows.cuh"

namespace protean::formats::packed_device {

// Kind by kind, so that a thread needs few registers; a row is summed in the order of its slots.
template <class V, class F>
__device__ inline void for_products(const PackedArrays<V>& a, std::int64_t p, int, int, F&& f) {
  const SliceHead head = read_head(a.heads, p >> shift);
  const SliceCode c = slice_code(head, a.code);
  const int lane = static_cast<int>(p % height);
  ValuesPointer<V> values = a.values + (std::int64_t{head.first_slot} * height + lane);
  const std::int32_t start = a.group_start(a.row(p));
#pragma unroll 2
  for (int k = 0; k < head.diagonal; ++k, values += height) {
    const int2 slot = __ldg(c.diagonal + k);
    if (static_cast<unsigned>(slot.y) >> lane & 1) f(start + slot.x, read_value(values));
  }
#pragma unroll 2
  for (int k = 0; k < head.near; ++k, values += height)
    if (const int offset = c.near[near_place(head.near, k, lane)]; offset != 255)
      f(__ldg(c.base + k) + offset, read_value(values));
  for (int k = 0; k < head.far; ++k, values += height)
    if (const int offset = c.far[k * height + lane]; offset != 65535)
      f(__ldg(c.base + head.near + k) + offset, read_value(values));
  for (int k = 0; k < head.wide; ++k, values += height)
    if (const std::int32_t col = c.wide[k * height + lane]; col >= 0) f(col, read_value(values));
}

template <class T, class V>
void multi_packed_on_device(const Context& context, const PackedArrays<V>& a, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  multi_rows_on_device<8>(context, a, 1, alpha, X, beta, Y);
}

template void multi_packed_on_device<double, double>(const Context&, const PackedArrays<double>&, double,
                                                     const MultiVectorView<const double>&, double,
                                                     const MultiVectorView<double>&);
template void multi_packed_on_device<double, float>(const Context&, const PackedArrays<float>&, double,
                                                    const MultiVectorView<const double>&, double,
                                                    const MultiVectorView<double>&);
template void multi_packed_on_device<double, std::uint8_t>(const Context&, const PackedArrays<std::uint8_t>&,
                                                           double, const MultiVectorView<const double>&,
                                                           double, const MultiVectorView<double>&);
template void multi_packed_on_device<float, float>(const Context&, const PackedArrays<float>&, float,
                                                   const MultiVectorView<const float>&, float,
                                                   const MultiVectorView<float>&);

}  // namespace protean::formats::packed_device
