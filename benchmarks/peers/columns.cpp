#include "benchmarks/peers/columns.hpp"

#include <algorithm>
#include <memory>

#include "core/buffer.hpp"
#include "core/error.hpp"
#if defined(PROTEAN_HAVE_MKL)
#include <mkl.h>
#endif
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/state.hpp"
#endif

namespace protean::bench {

std::vector<LibraryProduct> products_of_columns([[maybe_unused]] const ContextPtr& context,
                                                [[maybe_unused]] const CsrMatrix<double>& csr,
                                                [[maybe_unused]] std::int64_t k) {
  std::vector<LibraryProduct> list;
  if (!csr.pattern.row_ptr.p32) return list;
#if defined(PROTEAN_HAVE_MKL)
  if (context->space() == Space::host) {
    mkl_set_num_threads(context->threads());
    mkl_set_dynamic(0);
    for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns}) {
      sparse_matrix_t handle = nullptr;
      auto* const row_ptr = const_cast<MKL_INT*>(csr.pattern.row_ptr.p32);
      if (mkl_sparse_d_create_csr(&handle, SPARSE_INDEX_BASE_ZERO, static_cast<MKL_INT>(csr.rows()),
                                  static_cast<MKL_INT>(csr.cols()), row_ptr, row_ptr + 1,
                                  const_cast<MKL_INT*>(csr.pattern.col),
                                  const_cast<double*>(csr.values)) != SPARSE_STATUS_SUCCESS)
        throw Error("MKL: create_csr failed");
      const std::shared_ptr<sparse_matrix> owner(handle, [](sparse_matrix_t h) { mkl_sparse_destroy(h); });
      const matrix_descr description{SPARSE_MATRIX_TYPE_GENERAL, SPARSE_FILL_MODE_FULL, SPARSE_DIAG_NON_UNIT};
      const bool rows = layout == VectorLayout::interleaved;
      const sparse_layout_t order = rows ? SPARSE_LAYOUT_ROW_MAJOR : SPARSE_LAYOUT_COLUMN_MAJOR;
      const auto columns = static_cast<MKL_INT>(k);
      mkl_sparse_set_mm_hint(handle, SPARSE_OPERATION_NON_TRANSPOSE, description, order, columns, 1000);
      mkl_sparse_optimize(handle);
      const auto ldx = rows ? columns : static_cast<MKL_INT>(csr.cols());
      const auto ldy = rows ? columns : static_cast<MKL_INT>(csr.rows());
      list.push_back({"mkl csr", layout, [=](const double* x, double* y) {
                        mkl_sparse_d_mm(SPARSE_OPERATION_NON_TRANSPOSE, 1.0, owner.get(), description, order,
                                        x, columns, ldx, 0.0, y, ldy);
                      }});
    }
  }
#endif
#if defined(PROTEAN_HAVE_CUDA)
  if (context->space() == Space::device) {
    for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns}) {
      const cusparseHandle_t cusparse = device::cusparse(*context);
      const bool rows = layout == VectorLayout::interleaved;
      const cusparseOrder_t order = rows ? CUSPARSE_ORDER_ROW : CUSPARSE_ORDER_COL;
      cusparseSpMatDescr_t matrix = nullptr;
      device::check(
          cusparseCreateCsr(&matrix, csr.rows(), csr.cols(), csr.nonzeros(),
                            const_cast<std::int32_t*>(csr.pattern.row_ptr.p32),
                            const_cast<std::int32_t*>(csr.pattern.col), const_cast<double*>(csr.values),
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
          "cusparseCreateCsr");
      const std::shared_ptr<cusparseSpMatDescr> owner(
          matrix, [](cusparseSpMatDescr_t m) { (void)cusparseDestroySpMat(m); });
      const auto dense = [order, rows, k](std::int64_t n, double* data) {
        cusparseDnMatDescr_t made = nullptr;
        device::check(cusparseCreateDnMat(&made, n, k, rows ? k : n, data, CUDA_R_64F, order),
                      "cusparseCreateDnMat");
        return made;
      };
      const cusparseSpMMAlg_t algorithm = rows ? CUSPARSE_SPMM_CSR_ALG2 : CUSPARSE_SPMM_CSR_ALG1;
      // The descriptors of the vectors and the workspace, made in the first call.
      struct Ready {
        cusparseDnMatDescr_t x = nullptr, y = nullptr;
        Buffer<char> workspace;
        bool made = false;
      };
      const auto ready = std::make_shared<Ready>();
      const ContextPtr where = context;
      const std::int64_t n = csr.rows(), m = csr.cols();
      list.push_back(
          {"cusparse csr", layout, [=](const double* x, double* y) {
             // The handle reads scalars from device memory elsewhere.
             const double one = 1, zero = 0;
             device::check(cusparseSetPointerMode(cusparse, CUSPARSE_POINTER_MODE_HOST), "pointer mode");
             if (!ready->made) {
               ready->x = dense(m, const_cast<double*>(x)), ready->y = dense(n, y);
               std::size_t bytes = 0;
               device::check(cusparseSpMM_bufferSize(
                                 cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                 &one, owner.get(), ready->x, &zero, ready->y, CUDA_R_64F, algorithm, &bytes),
                             "cusparseSpMM_bufferSize");
               ready->workspace =
                   Buffer<char>(where, static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)));
               ready->made = true;
             }
             device::check(cusparseSpMM(cusparse, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                        CUSPARSE_OPERATION_NON_TRANSPOSE, &one, owner.get(), ready->x, &zero,
                                        ready->y, CUDA_R_64F, algorithm, ready->workspace.data()),
                           "cusparseSpMM");
             device::check(cusparseSetPointerMode(cusparse, CUSPARSE_POINTER_MODE_DEVICE), "pointer mode");
           }});
    }
  }
#endif
  return list;
}

}  // namespace protean::bench
