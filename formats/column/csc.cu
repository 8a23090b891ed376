// CSC on the device: col_ptr, row and values as in csc.cpp, without `split`. Kernels:
//   native    The entries are divided evenly among the threads, which add to y by atomic operations. The
//             order of the sums is not fixed.
//   atomic    A group of `lanes` neighbouring threads computes a column and adds to y by atomic operations. The order
//             of the sums is not fixed.
//   two-pass  Such a group computes the products of a column; then a group of threads adds the products of a row. The
//             order of the sums is fixed. It needs (v + p) nnz + p (rows + 1) bytes more:
//               row_ptr   [rows + 1] of the matrix in CSR.
//               map       [nnz] the place of each entry of CSR among the columns; as wide as col_ptr.
//               products  [nnz] workspace.
//   cusparse  cuSPARSE's product with compressed columns. The order of the sums is not fixed.
// Bytes: (v + 4) nnz + p (cols + 1), with v bytes a value and p = 4 or 8 bytes a pointer. The conversion is one stable
//   sort of the entries by column. Source: I. S. Duff, R. G. Grimes, J. G. Lewis, Sparse matrix test problems, ACM TOMS
//   15 (1989), doi:10.1145/62038.62043; atomic and two-pass: see csc_atomic.cpp and csc_two_pass.cpp.
#include <optional>

#include "core/csr_view.hpp"
#include "core/device/primitives.hpp"
#include "formats/cusparse_support.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/view/column_order.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr int threads = 256, entries_a_thread = 8;

template <class T, class P>
__global__ void __launch_bounds__(threads)
    csc_add(std::int64_t cols, std::int64_t size, const P* col_ptr, const std::int32_t* row, const T* values,
            T alpha, const T* x, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t begin = std::int64_t{blockIdx.x} * threads * entries_a_thread;
  const std::int64_t end = min(size, begin + threads * entries_a_thread);
  const SliceRange columns = slices_of_block(col_ptr, cols, begin, end);
#pragma unroll 4
  for (std::int64_t k = begin + threadIdx.x; k < end; k += threads)
    atomicAdd(y + row[k], alpha * values[k] * x[slice_of(col_ptr, columns.first, columns.last, k)]);
}

// A group of `lanes` (a power of two) threads a column: adds to y, or stores the products.
template <bool to_y, class T, class P>
__global__ void __launch_bounds__(threads)
    csc_columns(std::int64_t cols, int lanes, const P* col_ptr, const std::int32_t* row, const T* values,
                T alpha, const T* x, T* out, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t j = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / lanes;
  if (j >= cols) return;
  const T factor = alpha * x[j];
  const P end = col_ptr[j + 1];
#pragma unroll 4
  for (P k = col_ptr[j] + static_cast<P>(threadIdx.x % lanes); k < end; k += lanes) {
    if constexpr (to_y)
      atomicAdd(out + row[k], values[k] * factor);
    else
      out[k] = values[k] * factor;
  }
}

template <class T, class P>
__global__ void __launch_bounds__(threads)
    csc_row_sums(std::int64_t rows, int lanes, const P* row_ptr, const P* map, const T* products, T beta,
                 T* y, const int* stop) {
  if (device::stopped(stop)) return;
  // All threads of a warp take part in its shuffles.
  const std::int64_t r = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  T sum = 0;
  if (r < rows) {
    const P end = row_ptr[r + 1];
#pragma unroll 4
    for (P k = row_ptr[r] + lane; k < end; k += lanes) sum += products[__ldcs(map + k)];
  }
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (r < rows && lane == 0) store(T(1), sum, beta, y + r);
}

template <class T, class P>
class CscArrays : public AssembledMatrix<T> {
 public:
  explicit CscArrays(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        col_ptr_(request.context, this->cols() + 1),
        row_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const Order<P> order(request.context, pattern.col, pattern.nonzeros, this->cols());
    compress(*request.context, order.keys.data(), pattern.nonzeros, this->cols(), col_ptr_.data());
    Buffer<std::int32_t> row(request.context, pattern.nonzeros);
    pattern.row_ptr.visit([&](auto* row_ptr) {
      expand(*request.context, row_ptr, pattern.rows, pattern.nonzeros, row.data());
    });
    pick(*request.context, pattern.nonzeros, order.items.data(), row.data(), row_.data());
    pick(*request.context, pattern.nonzeros, order.items.data(), request.csr.values, values_.data());
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    const ContextPtr& context = this->context();
    const std::int64_t size = values_.size();
    CsrBuilder<T> builder(context, this->rows(), this->cols(), size, sizeof(P) == 8);
    const Order<P> order(context, row_.data(), size, this->rows());
    if constexpr (sizeof(P) == 8)
      compress(*context, order.keys.data(), size, this->rows(), builder.row_ptr64());
    else
      compress(*context, order.keys.data(), size, this->rows(), builder.row_ptr32());
    Buffer<std::int32_t> col(context, size);
    expand(*context, col_ptr_.data(), this->cols(), size, col.data());
    pick(*context, size, order.items.data(), col.data(), builder.col());
    pick(*context, size, order.items.data(), values_.data(), builder.values());
    return builder.freeze();
  }
  std::size_t bytes() const noexcept override { return col_ptr_.bytes() + row_.bytes() + values_.bytes(); }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    // The diagonal of the transposed matrix, whose CSR these arrays are.
    const CsrArrays<T, P> transposed{this->cols(), col_ptr_.data(), row_.data(), values_.data()};
    csr_diagonal<<<blocks_of(d.size, threads), threads, 0, device::stream(*this->context())>>>(
        transposed, d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    const Order<P> order(this->context(), csr.pattern.col, csr.nonzeros(), this->cols());
    pick(*this->context(), csr.nonzeros(), order.items.data(), csr.values, values_.data());
  }
  CsrMatrix<T> own_transpose() const override {
    return csr_view<T>(this->context(), this->cols(), this->rows(), values_.size(), col_ptr_.data(),
                       row_.data(), values_.data());
  }

  Buffer<P> col_ptr_;
  Buffer<std::int32_t> row_;
  Buffer<T> values_;
};

template <class T, class P>
class CscNative final : public CscArrays<T, P> {
 public:
  using CscArrays<T, P>::CscArrays;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t size = this->values_.size();
    scale(*this->context(), this->rows(), beta, y.data);
    if (size == 0) return;
    csc_add<<<blocks_of(size, threads * entries_a_thread), threads, 0, state.stream>>>(
        this->cols(), size, this->col_ptr_.data(), this->row_.data(), this->values_.data(), alpha, x.data,
        y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

int lanes_of(const FormatParams& params, std::int64_t entries, std::int64_t lists) {
  const std::int64_t asked = params.integer("lanes");
  int lanes = 1;
  while (2 * lanes <= asked) lanes *= 2;
  return asked == 0 ? lanes_for(entries, lists) : lanes;
}

template <class T, class P>
class CscAtomic final : public CscArrays<T, P> {
 public:
  explicit CscAtomic(const BuildRequest<T>& request)
      : CscArrays<T, P>(request), lanes_(lanes_of(request.params, this->nonzeros(), this->cols())) {}

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    scale(*this->context(), this->rows(), beta, y.data);
    if (this->nonzeros() == 0) return;
    device::launch(state, csc_columns<true, T, P>, blocks_of(this->cols() * lanes_, threads), threads,
                   this->cols(), lanes_, this->col_ptr_.data(), this->row_.data(), this->values_.data(),
                   alpha, x.data, y.data, state.stop);
  }

 private:
  int lanes_;
};

template <class T, class P>
class CscTwoPass final : public CscArrays<T, P> {
 public:
  explicit CscTwoPass(const BuildRequest<T>& request)
      : CscArrays<T, P>(request),
        lanes_(lanes_of(request.params, this->nonzeros(), this->cols())),
        row_lanes_(lanes_for(this->nonzeros(), this->rows())),
        row_ptr_(request.context, this->rows() + 1),
        products_(request.context, this->nonzeros()) {
    Order<P> order(request.context, this->row_.data(), this->nonzeros(), this->rows());
    compress(*request.context, order.keys.data(), this->nonzeros(), this->rows(), row_ptr_.data());
    map_ = std::move(order.items);
  }
  std::size_t bytes() const noexcept override {
    return CscArrays<T, P>::bytes() + row_ptr_.bytes() + map_.bytes() + products_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    if (this->nonzeros() == 0) return scale(*this->context(), this->rows(), beta, y.data);
    T* const products = const_cast<T*>(products_.data());  // written before they are read
    device::launch(state, csc_columns<false, T, P>, blocks_of(this->cols() * lanes_, threads), threads,
                   this->cols(), lanes_, this->col_ptr_.data(), this->row_.data(), this->values_.data(),
                   alpha, x.data, products, state.stop);
    device::launch(state, csc_row_sums<T, P>, blocks_of(this->rows() * row_lanes_, threads), threads,
                   this->rows(), row_lanes_, row_ptr_.data(), map_.data(), products, beta, y.data,
                   state.stop);
  }

 private:
  int lanes_, row_lanes_;
  Buffer<P> row_ptr_, map_;
  Buffer<T> products_;
};

template <class T, class P>
class CscCusparse final : public CusparseMatrix<T, CscArrays<T, P>> {
 public:
  explicit CscCusparse(const BuildRequest<T>& request) : CusparseMatrix<T, CscArrays<T, P>>(request) {
    if (this->values_.empty()) return;
    require_narrow(request);
    cusparseSpMatDescr_t matrix = nullptr;
    device::check(
        cusparseCreateCsc(&matrix, this->rows(), this->cols(), this->values_.size(), this->col_ptr_.data(),
                          this->row_.data(), this->values_.data(), cusparse_index<P>, CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_BASE_ZERO, cusparse_type<T>),
        "cusparseCreateCsc");
    product_.emplace(request.context, matrix, CUSPARSE_SPMV_CSR_ALG1, false);
  }
  std::size_t bytes() const noexcept override {
    return CscArrays<T, P>::bytes() + (product_ ? product_->bytes() : 0);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (product_)
      product_->apply(alpha, x.data, beta, y.data);
    else
      scale(*this->context(), this->rows(), beta, y.data);
  }

 private:
  std::optional<CusparseProduct<T>> product_;
};

// Pointers are as wide as the row pointers it is built from.
template <template <class, class> class Format, class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (request.csr.pattern.row_ptr.width() == 4) return std::make_unique<Format<T, std::int32_t>>(request);
  return std::make_unique<Format<T, std::int64_t>>(request);
}
template <template <class, class> class Format>
constexpr Kernel column_kernel(std::string_view name, bool deterministic,
                               std::span<const ParamDoc> params = {}, Admit admit = nullptr) {
  return {name,          false, true,   {},   make<Format, double>, make<Format, float>, {},
          deterministic, false, params, admit};
}

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
                               static_cast<std::size_t>(pattern.cols + 1) * pattern.row_ptr.width(),
                           pattern.nonzeros);
}
Admission admit_two_pass(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                         std::size_t value_bytes) {
  Admission admission = admit(context, pattern, params, value_bytes);
  admission.bytes += static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + pattern.row_ptr.width()) +
                     static_cast<std::size_t>(pattern.rows + 1) * pattern.row_ptr.width();
  return admission;
}

constexpr ParamDoc column_params[] = {
    {.name = "lanes",
     .doc = "threads for each column, or the power of two below; 0: the largest "
            "power of two up to the mean length",
     .default_value = "0",
     .smallest = 0,
     .largest = 32}};

constexpr Kernel kernels[] = {column_kernel<CscNative>("native", false),
                              column_kernel<CscAtomic>("atomic", false, column_params, admit),
                              column_kernel<CscTwoPass>("two-pass", true, column_params, admit_two_pass),
                              column_kernel<CscCusparse>("cusparse", false)};

}  // namespace

constinit const DeviceCode device_code::csc{kernels, admit};

}  // namespace protean::formats
