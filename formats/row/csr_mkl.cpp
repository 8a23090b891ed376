// CSR multiplied by Intel MKL: mkl_sparse_?_mv of the inspector-executor interface, on the arrays of csr.cpp.
//
// MKL (LP64) takes 32-bit row pointers. A matrix with 64-bit row pointers gets a copy in 32 bits if they can count its
// entries, and is refused otherwise. The analysis gets the hint to expect 1000 products. New values need a new
// analysis, because MKL may store a rearranged copy of them. Source: Intel oneAPI Math Kernel Library, Developer
// Reference, Inspector-Executor Sparse BLAS Routines.
#include <fmt/format.h>
#include <mkl_service.h>
#include <mkl_spblas.h>

#include <limits>
#include <mutex>

#include "core/error.hpp"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/rows/csr.hpp"

namespace protean::formats {
namespace {

void check(sparse_status_t status, const char* call) {
  if (status == SPARSE_STATUS_SUCCESS) return;
  if (status == SPARSE_STATUS_ALLOC_FAILED)
    throw OutOfMemory(fmt::format("MKL's {} found no memory", call), 0);
  throw Error(fmt::format("MKL's {} failed with status {}", call, static_cast<int>(status)));
}

// MKL must use the OpenMP runtime that this library uses. A second one in the process would double the
// threads.
void select_threading() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (mkl_set_threading_layer(MKL_THREADING_GNU) != MKL_THREADING_GNU)
      throw NotAvailable(
          "MKL was already in use with another threading layer than GNU OpenMP; set MKL_THREADING_LAYER=GNU");
    if (mkl_set_interface_layer(MKL_INTERFACE_LP64) % 2 != MKL_INTERFACE_LP64)
      throw NotAvailable("MKL was already in use with 64-bit integers; set MKL_INTERFACE_LAYER=LP64");
  });
}

// Sets MKL's number of threads for the calls of this thread, as long as it lives.
class Threads {
 public:
  explicit Threads(const Context& context) : before_(mkl_set_num_threads_local(context.threads())) {}
  ~Threads() { mkl_set_num_threads_local(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

constexpr matrix_descr general{SPARSE_MATRIX_TYPE_GENERAL, SPARSE_FILL_MODE_FULL, SPARSE_DIAG_NON_UNIT};

template <class T>
class CsrMkl final : public CsrHolder<T> {
 public:
  explicit CsrMkl(const BuildRequest<T>& request) : CsrHolder<T>(request) {
    select_threading();
    const SparsityPattern& pattern = csr_.pattern;
    if (pattern.nonzeros > std::numeric_limits<std::int32_t>::max())
      throw FormatRefused("csr", "kernel mkl counts entries in 32 bits; take kernel native");
    if (pattern.row_ptr.p64) {
      narrow_ = Buffer<std::int32_t>(request.context, pattern.rows + 1);
      for (std::int64_t r = 0; r <= pattern.rows; ++r)
        narrow_[r] = static_cast<std::int32_t>(pattern.row_ptr[r]);
    }
    analyse();
  }
  ~CsrMkl() override { release(); }

  // The size of what MKL's analysis stores is not known; only the arrays that it works on are counted.
  std::size_t bytes() const noexcept override { return csr_.bytes() + narrow_.bytes(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    CsrHolder<T>::do_update_values(csr);
    release();
    analyse();
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (!handle_) {
      for (std::int64_t r = 0; r < y.size; ++r) y.data[r] = beta == T(0) ? T(0) : beta * y.data[r];
      return;
    }
    const Threads threads(*this->context());
    if constexpr (sizeof(T) == 8)
      check(mkl_sparse_d_mv(SPARSE_OPERATION_NON_TRANSPOSE, alpha, handle_, general, x.data, beta, y.data),
            "mkl_sparse_d_mv");
    else
      check(mkl_sparse_s_mv(SPARSE_OPERATION_NON_TRANSPOSE, alpha, handle_, general, x.data, beta, y.data),
            "mkl_sparse_s_mv");
  }

 private:
  // MKL takes pointers to non-const but does not write through them.
  void analyse() {
    if (csr_.nonzeros() == 0) return;  // MKL refuses matrices without rows, columns or entries
    const Threads threads(*this->context());
    auto* row_ptr = const_cast<std::int32_t*>(narrow_.empty() ? csr_.pattern.row_ptr.p32 : narrow_.data());
    auto* col = const_cast<std::int32_t*>(csr_.pattern.col);
    auto* values = const_cast<T*>(csr_.values);
    const auto rows = static_cast<std::int32_t>(csr_.rows()), cols = static_cast<std::int32_t>(csr_.cols());
    if constexpr (sizeof(T) == 8)
      check(mkl_sparse_d_create_csr(&handle_, SPARSE_INDEX_BASE_ZERO, rows, cols, row_ptr, row_ptr + 1, col,
                                    values),
            "mkl_sparse_d_create_csr");
    else
      check(mkl_sparse_s_create_csr(&handle_, SPARSE_INDEX_BASE_ZERO, rows, cols, row_ptr, row_ptr + 1, col,
                                    values),
            "mkl_sparse_s_create_csr");
    try {
      check(mkl_sparse_set_mv_hint(handle_, SPARSE_OPERATION_NON_TRANSPOSE, general, 1000),
            "mkl_sparse_set_mv_hint");
      check(mkl_sparse_optimize(handle_), "mkl_sparse_optimize");
    } catch (...) {
      release();
      throw;
    }
  }
  void release() noexcept {
    if (handle_) mkl_sparse_destroy(handle_);
    handle_ = nullptr;
  }

  using CsrHolder<T>::csr_;
  Buffer<std::int32_t> narrow_;
  sparse_matrix_t handle_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_mkl_csr(const BuildRequest<T>& request) {
  return std::make_unique<CsrMkl<T>>(request);
}
template std::unique_ptr<AssembledMatrix<float>> make_mkl_csr(const BuildRequest<float>&);
template std::unique_ptr<AssembledMatrix<double>> make_mkl_csr(const BuildRequest<double>&);

}  // namespace protean::formats
