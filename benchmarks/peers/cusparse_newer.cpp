// What cuSPARSE 12.9.4 added: products by a plan, with two algorithms, and symmetric matrices of which one half is
// stored. A build with an older cuSPARSE has none of them.
#define CUSPARSE_ENABLE_EXPERIMENTAL_API
#include <cusparse.h>

#include <memory>

#include "benchmarks/common/sources.hpp"
#include "benchmarks/peers/cusparse.hpp"
#include "core/device/copy.hpp"
#include "formats/cusparse_support.hpp"

namespace protean::bench {

#if CUSPARSE_VERSION >= 12904

namespace {

using Apply = std::function<void(const double*, double*)>;

cusparseSpMatDescr_t descriptor(const CsrMatrix<double>& A) {
  cusparseSpMatDescr_t matrix = nullptr;
  device::check(
      cusparseCreateCsr(&matrix, A.rows(), A.cols(), A.nonzeros(),
                        const_cast<std::int32_t*>(A.pattern.row_ptr.p32),
                        const_cast<std::int32_t*>(A.pattern.col), const_cast<double*>(A.values),
                        CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
      "cusparseCreateCsr");
  return matrix;
}

// z := alpha A x + beta y, by a plan without code of one's own. It is made for the vectors of the first product.
class PlannedProduct {
 public:
  PlannedProduct(ContextPtr context, const CsrMatrix<double>& A, cusparseSpMVOpAlg_t algorithm)
      : context_(std::move(context)),
        algorithm_(algorithm),
        rows_(A.rows()),
        cols_(A.cols()),
        matrix_(descriptor(A)) {}
  PlannedProduct(const PlannedProduct&) = delete;
  PlannedProduct& operator=(const PlannedProduct&) = delete;
  ~PlannedProduct() {
    if (plan_) (void)cusparseSpMVOp_destroyPlan(plan_);
    if (operation_) (void)cusparseSpMVOp_destroyDescr(operation_);
    if (x_) (void)cusparseDestroyDnVec(x_);
    if (y_) (void)cusparseDestroyDnVec(y_);
    (void)cusparseDestroySpMat(matrix_);
  }

  void apply(const double* x, double* y) {
    if (!plan_) make(x, y);
    const double one = 1, zero = 0;
    device::check(cusparseSpMVOp(handle(), plan_, &one, &zero, x_, y_, y_), "cusparseSpMVOp");
  }

 private:
  cusparseHandle_t handle() const { return device::cusparse(*context_); }
  void make(const double* x, double* y) {
    device::check(cusparseCreateDnVec(&x_, cols_, const_cast<double*>(x), CUDA_R_64F), "cusparseCreateDnVec");
    device::check(cusparseCreateDnVec(&y_, rows_, y, CUDA_R_64F), "cusparseCreateDnVec");
    std::size_t bytes = 0;
    device::check(cusparseSpMVOp_bufferSize(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, matrix_, x_, y_, y_,
                                            CUDA_R_64F, algorithm_, &bytes),
                  "cusparseSpMVOp_bufferSize");
    workspace_ = Buffer<char>(context_, static_cast<std::int64_t>(bytes));
    device::check(cusparseSpMVOp_createDescr(handle(), &operation_, CUSPARSE_OPERATION_NON_TRANSPOSE, matrix_,
                                             x_, y_, y_, CUDA_R_64F, algorithm_, workspace_.data()),
                  "cusparseSpMVOp_createDescr");
    device::check(cusparseSpMVOp_createPlan(handle(), operation_, &plan_, nullptr, 0),
                  "cusparseSpMVOp_createPlan");
  }

  ContextPtr context_;
  cusparseSpMVOpAlg_t algorithm_;
  std::int64_t rows_, cols_;
  cusparseSpMatDescr_t matrix_;
  cusparseDnVecDescr_t x_ = nullptr, y_ = nullptr;
  cusparseSpMVOpDescr_t operation_ = nullptr;
  cusparseSpMVOpPlan_t plan_ = nullptr;
  Buffer<char> workspace_;
};

// The lower triangle of a symmetric matrix, and its product; null if the matrix is not symmetric.
Apply half_product(const ContextPtr& context, const CsrMatrix<double>& host) {
  if (host.rows() != host.cols() || !is_symmetric(Context::host(), host)) return {};
  struct Holder {
    Buffer<std::int32_t> row_ptr, col;
    Buffer<double> values;
    std::unique_ptr<formats::CusparseProduct<double>> product;
  };
  std::vector<std::int32_t> row_ptr{0}, col;
  std::vector<double> values;
  for (std::int64_t r = 0; r < host.rows(); ++r) {
    for (std::int64_t k = host.pattern.row_ptr[r]; k < host.pattern.row_ptr[r + 1]; ++k)
      if (host.pattern.col[k] <= r) col.push_back(host.pattern.col[k]), values.push_back(host.values[k]);
    row_ptr.push_back(static_cast<std::int32_t>(col.size()));
  }
  const auto sent = [&context](const auto& from) {
    Buffer<typename std::decay_t<decltype(from)>::value_type> to(context,
                                                                 static_cast<std::int64_t>(from.size()));
    if (!to.empty()) device::copy_in(*context, to.data(), from.data(), to.bytes());
    return to;
  };
  auto holder = std::make_shared<Holder>();
  holder->row_ptr = sent(row_ptr), holder->col = sent(col), holder->values = sent(values);
  cusparseSpMatDescr_t matrix = nullptr;
  device::check(
      cusparseCreateCsr(&matrix, host.rows(), host.cols(), static_cast<std::int64_t>(col.size()),
                        holder->row_ptr.data(), holder->col.data(), holder->values.data(), CUSPARSE_INDEX_32I,
                        CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F),
      "cusparseCreateCsr");
  cusparseSymmetryType_t symmetry = CUSPARSE_SYMMETRIC;
  cusparseSpMatStorage_t storage = CUSPARSE_STORE_LOWER;
  device::check(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_STORAGE, &storage, sizeof storage),
                "cusparseSpMatSetAttribute");
  device::check(cusparseSpMatSetAttribute(matrix, CUSPARSE_SPMAT_SYMMETRY_TYPE, &symmetry, sizeof symmetry),
                "cusparseSpMatSetAttribute");
  holder->product =
      std::make_unique<formats::CusparseProduct<double>>(context, matrix, CUSPARSE_SPMV_ALG_DEFAULT, true);
  return [holder](const double* x, double* y) { holder->product->apply(1, x, 0, y); };
}

Apply planned(const ContextPtr& context, const CsrMatrix<double>& A, cusparseSpMVOpAlg_t algorithm) {
  const auto product = std::make_shared<PlannedProduct>(context, A, algorithm);
  return [product](const double* x, double* y) { product->apply(x, y); };
}

}  // namespace

std::vector<GpuPeer> newer_cusparse_peers(const ContextPtr& context, const CsrMatrix<double>& host,
                                          const CsrMatrix<double>& device) {
  return {{"cusparse op 1", true, [&] { return planned(context, device, CUSPARSE_SPMVOP_ALG1); }},
          {"cusparse op 2", true, [&] { return planned(context, device, CUSPARSE_SPMVOP_ALG2); }},
          {"cusparse half", false, [&] { return half_product(context, host); }}};
}

#else

std::vector<GpuPeer> newer_cusparse_peers(const ContextPtr&, const CsrMatrix<double>&,
                                          const CsrMatrix<double>&) {
  return {};
}

#endif

}  // namespace protean::bench
