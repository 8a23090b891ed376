// Products by cuSPARSE's generic interface. Private to formats/ and the benchmarks; CUDA builds only.
#pragma once
#include <cstdint>
#include <utility>

#include "core/buffer.hpp"
#include "core/device/state.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

template <class N>
constexpr cusparseIndexType_t cusparse_index = sizeof(N) == 8 ? CUSPARSE_INDEX_64I : CUSPARSE_INDEX_32I;
template <class T>
constexpr cudaDataType cusparse_type = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;

// cuSPARSE takes pointers and indices of one width only.
template <class T>
void require_narrow(const BuildRequest<T>& request) {
  if (request.csr.pattern.row_ptr.width() != 4)
    throw FormatRefused(request.entry.id,
                        "cuSPARSE takes 64-bit pointers only with 64-bit columns; kernel native takes them");
}

// y := alpha A x + beta y by cuSPARSE. It owns the descriptors and the workspace, which are made once; the
// handle belongs to the context. The scalars are read from host memory, so a captured product keeps them.
// cuSPARSE does not read DeviceState::stop: a product queued after the end of a solve is computed, and writes
// y. So a matrix with such products says that it does not heed the stop (CusparseMatrix).
template <class T>
class CusparseProduct {
 public:
  // Takes ownership of `matrix`; the caller keeps its arrays alive. With `analyse` it calls
  // cusparseSpMV_preprocess(), which stores what it finds about the pattern in the workspace.
  CusparseProduct(ContextPtr context, cusparseSpMatDescr_t matrix, cusparseSpMVAlg_t algorithm, bool analyse)
      : context_(std::move(context)), matrix_(matrix), algorithm_(algorithm) {
    try {
      std::int64_t nonzeros = 0;
      const T one = 1, zero = 0;
      std::size_t bytes = 0;
      device::check(cusparseSpMatGetSize(matrix_, &rows_, &cols_, &nonzeros), "cusparseSpMatGetSize");
      // The descriptors need an address. Nothing is read or written there before the first product sets its
      // own.
      device::check(cusparseCreateDnVec(&x_, cols_, context_->device_state().partials, cusparse_type<T>),
                    "cusparseCreateDnVec");
      device::check(cusparseCreateDnVec(&y_, rows_, context_->device_state().partials, cusparse_type<T>),
                    "cusparseCreateDnVec");
      device::check(cusparseSpMV_bufferSize(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix_, x_,
                                            &zero, y_, cusparse_type<T>, algorithm_, &bytes),
                    "cusparseSpMV_bufferSize");
      workspace_ = Buffer<char>(context_, static_cast<std::int64_t>(bytes));
      if (analyse)
        device::check(cusparseSpMV_preprocess(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix_, x_,
                                              &zero, y_, cusparse_type<T>, algorithm_, workspace_.data()),
                      "cusparseSpMV_preprocess");
    } catch (...) {
      destroy();
      throw;
    }
  }
  CusparseProduct(const CusparseProduct&) = delete;
  CusparseProduct& operator=(const CusparseProduct&) = delete;
  ~CusparseProduct() { destroy(); }

  void set_values(const T* values) {
    device::check(cusparseSpMatSetValues(matrix_, const_cast<T*>(values)), "cusparseSpMatSetValues");
  }
  std::size_t bytes() const noexcept { return workspace_.bytes(); }

  void apply(T alpha, const T* x, T beta, T* y) const {
    device::check(cusparseDnVecSetValues(x_, const_cast<T*>(x)), "cusparseDnVecSetValues");
    device::check(cusparseDnVecSetValues(y_, y), "cusparseDnVecSetValues");
    device::check(cusparseSpMV(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, matrix_, x_, &beta, y_,
                               cusparse_type<T>, algorithm_, const_cast<char*>(workspace_.data())),
                  "cusparseSpMV");
  }

 private:
  cusparseHandle_t handle() const { return device::cusparse(*context_); }
  void destroy() noexcept {
    if (x_) (void)cusparseDestroyDnVec(x_);
    if (y_) (void)cusparseDestroyDnVec(y_);
    (void)cusparseDestroySpMat(matrix_);
  }

  ContextPtr context_;
  cusparseSpMatDescr_t matrix_;
  cusparseSpMVAlg_t algorithm_;
  std::int64_t rows_ = 0, cols_ = 0;
  cusparseDnVecDescr_t x_ = nullptr, y_ = nullptr;
  Buffer<char> workspace_;
};

// A matrix, derived from Base, whose products are cuSPARSE's.
template <class T, class Base = AssembledMatrix<T>>
class CusparseMatrix : public Base {
 public:
  using Base::Base;
  Recording recording() const noexcept override {
    Recording recording = Base::recording();
    recording.heeds_stop = false;
    return recording;
  }
};

}  // namespace protean::formats
