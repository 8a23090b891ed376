// A matrix of Python: arrays of CSR, or a function of the caller.
#pragma once
#include <algorithm>
#include <mutex>
#include <optional>

#include "common.hpp"
#include "core/csr.hpp"
#include "core/multi_vector.hpp"
#include "device_array.hpp"
#include "operators/callback_operator.hpp"
#include "operators/linear_operator.hpp"
#include "systems/system_matrix.hpp"

namespace protean::python {

// A SystemMatrix that several threads of Python may use. One at a time does: a product waits for the end of a solve of
// another thread. A function that a solve calls may compute products with its matrix, and give it new values. All
// matrices on one GPU share its context, and take turns.
template <class T>
class Matrix {
 public:
  // Arrays of the caller; int32 row pointers and columns, or int64 ones. They are used in place, and `kept` keeps them
  // alive. ordinal: of the GPU to which they are copied, or -1. Columns of int64 are copied into int32. Rows that are
  // not sorted are sorted, and entries of the same place added up, in a copy. Throws BadMatrix, BadArgument.
  static std::shared_ptr<Matrix> of_csr(std::int64_t rows, std::int64_t cols, const IndexArray& row_ptr,
                                        const IndexArray& col, const VectorArray<const T>& values,
                                        nb::object kept, int threads, int ordinal);
  // Arrays on a GPU, with columns of int32, rows sorted and each column once. They are used in place. Throws as above.
  static std::shared_ptr<Matrix> of_device_csr(std::int64_t rows, std::int64_t cols,
                                               const DeviceArray& row_ptr, const DeviceArray& col,
                                               const DeviceArray& values, nb::object kept);
  static std::shared_ptr<Matrix> of_function(std::int64_t rows, std::int64_t cols, nb::object function,
                                             int threads);
  // gpu: null, or the GPU of the context; csr may then lie in host memory.
  Matrix(ContextPtr context, CsrMatrix<T> csr, bool borrowed, std::shared_ptr<Gpu> gpu = nullptr);
  ~Matrix();
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  Shape shape() const { return {rows_, cols_}; }
  const ContextPtr& context() const { return system_->context(); }
  SystemMatrix<T>& system() { return *system_; }
  const LinearOperator<T>& A() const { return system_->A(); }
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }
  // Throws BadArgument for a matrix of the host.
  Gpu& require_gpu() const;
  std::recursive_mutex& mutex() const { return gpu_ ? gpu_->mutex() : mutex_; }
  bool is_function() const { return system_->of_operator(); }
  // Whether the arrays are the caller's in the caller's order of entries, so that new values may be given in it.
  bool borrowed() const { return borrowed_; }

  void convert(const std::string& format, const FormatParams& parameters, const std::string& kernel,
               const std::optional<std::string>& order);
  // Format and order by name are made by the next solve or product.
  void want(const std::string& format, const FormatParams& parameters, const std::string& kernel,
            const std::string& order);
  void update(const VectorArray<const T>& values, nb::object kept);
  void update(const DeviceArray& values, nb::object kept);
  void apply(VectorView<const T> x, VectorView<T> y);
  void apply(MultiVectorView<const T> X, MultiVectorView<T> Y);
  void apply(const DeviceArray& x, const DeviceArray& y);
  // y := A^T x
  void apply_transposed(VectorView<const T> x, VectorView<T> y);
  void apply_transposed(const DeviceArray& x, const DeviceArray& y);
  // A matrix that nobody has asked for a format of is in csr. With the mutex.
  void make();
  // The mutex, for which it waits without the GIL.
  std::unique_lock<std::recursive_mutex> wait() const {
    std::unique_lock lock(mutex(), std::try_to_lock);
    if (!lock.owns_lock()) {
      const WithoutGil no_gil;
      lock.lock();
    }
    return lock;
  }
  // The entries in the caller's order of rows.
  const CsrMatrix<T>& csr() const { return system_->given(); }
  // The same in host memory; a copy if they lie on a GPU. Without the GIL.
  CsrMatrix<T> host_csr() const;
  // The words of the last convert() or want().
  std::string wanted_format = "auto", wanted_order = "none";

 private:
  explicit Matrix(std::unique_ptr<SystemMatrix<T>> system, Shape shape);
  void require_no_solve(const char* what) const;
  void set_values(const T* values, std::int64_t count, Space space, std::shared_ptr<const void> owner);

  mutable std::recursive_mutex mutex_;
  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<SystemMatrix<T>> system_;
  std::int64_t rows_ = 0, cols_ = 0;
  bool borrowed_ = true;
};

// B as columns or interleaved. Throws BadArgument if it is neither.
template <class T>
MultiVectorView<T> view_of(const ColumnsArray<T>& array) {
  const auto rows = static_cast<std::int64_t>(array.shape(0)),
             columns = static_cast<std::int64_t>(array.shape(1));
  if (array.stride(0) == 1 || rows <= 1)
    return {array.data(),          rows,       columns, std::max<std::int64_t>(array.stride(1), rows),
            VectorLayout::columns, Space::host};
  return {array.data(), rows, columns, array.stride(0), VectorLayout::interleaved, Space::host};
}

}  // namespace protean::python
