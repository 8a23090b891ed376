// CSC on the device: col_ptr, row and values as in csc.cpp, without `split`. Kernels:
//   native    The entries are divided evenly among the threads, which add to y by atomic operations. The
//             order of the sums is not fixed.
//   cusparse  cuSPARSE's product with compressed columns. The order of the sums is not fixed.
// Bytes: (v + 4) nnz + p (cols + 1), with v bytes a value and p = 4 or 8 bytes a pointer.
// The conversion is one stable sort of the entries by column. Source: I. S. Duff, R. G. Grimes, J. G. Lewis,
// Sparse matrix test problems, ACM TOMS 15 (1989), doi:10.1145/62038.62043.
#include <bit>
#include <optional>

#include "core/device/primitives.hpp"
#include "formats/cusparse_support.hpp"
#include "formats/device_support.cuh"
#include "formats/private/expand.cuh"

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

template <class T, class P>
__global__ void csc_diagonal(std::int64_t size, const P* col_ptr, const std::int32_t* row, const T* values,
                             T* diagonal) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= size) return;
  const P begin = col_ptr[j], end = col_ptr[j + 1];
  const P k = begin + static_cast<P>(first_not_below(row + begin, end - begin, j));
  diagonal[j] = k < end && row[k] == j ? values[k] : T(0);
}

// keys[k] := index[k], items[k] := k
template <class K, class I>
__global__ void number_entries(std::int64_t size, const std::int32_t* index, K* keys, I* items) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) keys[k] = static_cast<K>(index[k]), items[k] = static_cast<I>(k);
}

template <class I, class N>
__global__ void pick_items(std::int64_t size, const I* items, const N* from, N* to) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size) to[k] = from[items[k]];
}
template <class I, class N>
void pick(const Context& context, std::int64_t size, const I* items, const N* from, N* to) {
  if (size == 0) return;
  pick_items<<<blocks_of(size, threads), threads, 0, device::stream(context)>>>(size, items, from, to);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// The order that sorts entries by an index and keeps equal ones in their order: entry order.items[k] comes
// k-th and has the index order.keys[k].
template <class P>
struct Order {
  using Key = std::conditional_t<sizeof(P) == 8, std::uint64_t, std::uint32_t>;
  Order(const ContextPtr& context, const std::int32_t* index, std::int64_t size, std::int64_t limit)
      : keys(context, size), items(context, size) {
    if (size == 0) return;
    number_entries<<<blocks_of(size, threads), threads, 0, device::stream(*context)>>>(
        size, index, keys.data(), items.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit - 1)));
    device::sort_pairs(*context, keys.data(), items.data(), size, bits);
  }
  Buffer<Key> keys;
  Buffer<P> items;
};

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
    csc_diagonal<<<blocks_of(d.size, threads), threads, 0, device::stream(*this->context())>>>(
        d.size, col_ptr_.data(), row_.data(), values_.data(), d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    const Order<P> order(this->context(), csr.pattern.col, csr.nonzeros(), this->cols());
    pick(*this->context(), csr.nonzeros(), order.items.data(), csr.values, values_.data());
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

template <class T, class P>
class CscCusparse final : public CscArrays<T, P> {
 public:
  explicit CscCusparse(const BuildRequest<T>& request) : CscArrays<T, P>(request) {
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

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
                               static_cast<std::size_t>(pattern.cols + 1) * pattern.row_ptr.width(),
                           pattern.nonzeros);
}

constexpr Kernel kernels[] = {
    {"native", false, true, {}, make<CscNative, double>, make<CscNative, float>, {}, false},
    {"cusparse", false, true, {}, make<CscCusparse, double>, make<CscCusparse, float>, {}, false}};

}  // namespace

namespace device_code {
extern const DeviceCode csc;
constinit const DeviceCode csc{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
