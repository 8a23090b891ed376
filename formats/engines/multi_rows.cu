// The kernels of multi_rows.cuh for csr, slices and blocks.
#include "formats/engines/multi_rows.cuh"

#include "formats/engines/blocks.hpp"
#include "formats/engines/slice_view.hpp"

namespace protean::formats {

template <class T, class F>
__device__ inline void for_products(const BlockGrid<T>& a, std::int64_t p, int, int, F&& f) {
  const std::int64_t place = p / a.R, i = a.number(place);
  const int r = static_cast<int>(p - place * a.R);
  const BlockRow b = a.block_row_at(place);
  const auto block = [&](const BlockRow& of, std::int64_t k, std::int64_t number) {
    for (int c = 0; c < a.C; ++c)
      if (const std::int64_t col = number * a.C + c; col < a.cols)
        f(static_cast<std::int32_t>(col), __ldg(a.values + a.place(of, k, r, c)));
  };
  for (std::int64_t k = 0; k < b.count; ++k) block(b, k, __ldg(a.block_col + b.first + k * b.slot_step));
  if (a.diagonal_apart) block(a.apart(i), 0, i);
}

template <class T, class P>
void multi_csr_on_device(const Context& context, const CsrArrays<T, P>& csr, std::int64_t nonzeros, T alpha,
                         const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  // About four entries of the mean row for each thread.
  int split = 1;
  while (split < 16 && nonzeros >= 8 * split * csr.rows) split *= 2;
  multi_rows_on_device(context, MultiCsrRows<T, P>(csr), split, alpha, X, beta, Y);
}

template <class T>
void multi_slices_on_device(const Context& context, const SliceView<T>& slices, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  multi_rows_on_device(context, slices, 1, alpha, X, beta, Y);
}

template <class T>
void multi_blocks_on_device(const Context& context, const BlockGrid<T>& blocks, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  multi_rows_on_device(context, blocks, 1, alpha, X, beta, Y);
}

#define PROTEAN_INSTANTIATE(T)                                                                            \
  template void multi_csr_on_device<T, std::int32_t>(const Context&, const CsrArrays<T, std::int32_t>&,   \
                                                     std::int64_t, T, const MultiVectorView<const T>&, T, \
                                                     const MultiVectorView<T>&);                          \
  template void multi_csr_on_device<T, std::int64_t>(const Context&, const CsrArrays<T, std::int64_t>&,   \
                                                     std::int64_t, T, const MultiVectorView<const T>&, T, \
                                                     const MultiVectorView<T>&);                          \
  template void multi_slices_on_device<T>(const Context&, const SliceView<T>&, T,                         \
                                          const MultiVectorView<const T>&, T, const MultiVectorView<T>&); \
  template void multi_blocks_on_device<T>(const Context&, const BlockGrid<T>&, T,                         \
                                          const MultiVectorView<const T>&, T, const MultiVectorView<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::formats
