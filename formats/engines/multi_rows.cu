// The kernels of multi_rows.cuh for csr, slices and blocks.
#include "formats/engines/multi_rows.cuh"

namespace protean::formats {

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
