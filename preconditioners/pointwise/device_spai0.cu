// The kernel of device_spai0.hpp: a thread for each row.
#include "core/device/kernel_tools.cuh"
#include "preconditioners/pointwise/device_spai0.hpp"

namespace protean::device {
namespace {

template <class T, class Pointer>
__global__ void __launch_bounds__(block_size)
    spai0_kernel(std::int64_t rows, const Pointer* ptr, const std::int32_t* col, const T* values,
                 bool one_for_zero, T* m, unsigned* trouble) {
  wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (i >= rows) return;
  T own;
  const unsigned found = detail::spai0_row(ptr, col, values, i, one_for_zero, own);
  m[i] = own;
  if (found) atomicOr(trouble, found);
}

}  // namespace

template <class T>
void spai0_rows(const Context& context, const CsrMatrix<T>& csr, bool one_for_zero, VectorView<T> m,
                unsigned* trouble) {
  if (m.size == 0) return;
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    launch(context.device_state(), spai0_kernel<T, Pointer>, (m.size + block_size - 1) / block_size,
           block_size, m.size, ptr, csr.pattern.col, csr.values, one_for_zero, m.data, trouble);
  });
}

template void spai0_rows<float>(const Context&, const CsrMatrix<float>&, bool, VectorView<float>, unsigned*);
template void spai0_rows<double>(const Context&, const CsrMatrix<double>&, bool, VectorView<double>,
                                 unsigned*);

}  // namespace protean::device
