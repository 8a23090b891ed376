// CSR in device memory as kernels see it, and its diagonal. Private to formats/.
#pragma once
#include "formats/device_support.cuh"

namespace protean::formats {

template <class T, class P>
struct CsrArrays {
  std::int64_t rows;
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
};

// Kernels of csr in csr_tuner.cu.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_cooperative(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_tuned(const BuildRequest<T>& request);

// By bisection, a thread a row.
template <class T, class P>
__global__ void csr_diagonal(CsrArrays<T, P> a, std::int64_t size, T* diagonal) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= size) return;
  P low = a.row_ptr[row];
  const P end = a.row_ptr[row + 1];
  for (P high = end; low < high;) {
    const P middle = low + (high - low) / 2;
    if (a.col[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  diagonal[row] = low < end && a.col[low] == row ? a.values[low] : T(0);
}

template <class T>
void diagonal_of(const Context& context, const CsrMatrix<T>& csr, VectorView<T> d) {
  if (d.size == 0) return;
  csr.pattern.row_ptr.visit([&](auto* row_ptr) {
    using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
    const CsrArrays<T, P> arrays{csr.rows(), row_ptr, csr.pattern.col, csr.values};
    csr_diagonal<<<blocks_of(d.size, device::block_size), device::block_size, 0, device::stream(context)>>>(
        arrays, d.size, d.data);
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace protean::formats
