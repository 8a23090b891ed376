// CSR in device memory as kernels see it, and its diagonal. Private to formats/.
#pragma once
#include "core/bisect.hpp"
#include "formats/device_support.cuh"

namespace protean::formats {

template <class T, class P>
struct CsrArrays {
  std::int64_t rows;
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
};

// Kernels of csr in csr_tuner.cu and merge_csr.cu.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_cooperative(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_reguly_giles(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_gridification(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_tuned(const BuildRequest<T>& request);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_merge(const BuildRequest<T>& request);

// By bisection, a thread a row.
template <class T, class P>
__global__ void csr_diagonal(CsrArrays<T, P> a, std::int64_t size, T* diagonal) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= size) return;
  const P end = a.row_ptr[row + 1],
          k = first_where(a.row_ptr[row], end, [&](P j) { return a.col[j] >= row; });
  diagonal[row] = k < end && a.col[k] == row ? a.values[k] : T(0);
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

// The caller's CSR arrays in device memory, and everything except the product. Formats that add their own tables
// override bytes().
template <class T>
class CsrOnDevice : public AssembledMatrix<T> {
 public:
  explicit CsrOnDevice(const BuildRequest<T>& request) : AssembledMatrix<T>(request), csr_(request.csr) {}
  CsrMatrix<T> to_csr() const override { return csr_; }
  std::size_t bytes() const noexcept override { return csr_.bytes(); }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    diagonal_of(*this->context(), csr_, d);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    csr_.values = csr.values, csr_.values_owner = csr.values_owner, csr_.watch = csr.watch;
  }
  // Calls f(CsrArrays<T, P>) with the type P of the row pointers.
  template <class F>
  void with_arrays(F&& f) const {
    csr_.pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      f(CsrArrays<T, P>{this->rows(), row_ptr, csr_.pattern.col, csr_.values});
    });
  }

  CsrMatrix<T> csr_;
};

}  // namespace protean::formats
