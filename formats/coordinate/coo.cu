// COO on the device: row, col and values as in coo.cpp. Kernels:
//   native         Warps take about the same number of entries each (engines/runs/row_runs.cuh). The sum of a row has a
//                  fixed order. It needs more than the three arrays: 16 ceil(nnz / 240) + 4 (nnz / 32 + 11) bytes;
//                  if there are rows without entries, 4 (rows with entries + ceil(rows / 32)) more; and 24 + v + 4 for
//                  each piece of a long row.
//   segmented      Bell and Garland's, in two launches (engines/runs/coo_segments.cuh). The sum of a row has a fixed
//                  order. It needs the three arrays and 4 + v bytes for each 512 entries.
//   atomic         A warp adds the runs of rows among 32 neighbouring entries, and adds the results to y by
//                  atomic operations. It needs only the three arrays. The order of the sums is not fixed.
//   cusparse       cuSPARSE, COO_ALG1: cuSPARSE's fastest. The order of the sums is not fixed.
//   cusparse-alg2  cuSPARSE, COO_ALG2: a fixed order of the sums.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC
//   2009, doi:10.1145/1654059.1654078.
#include <limits>
#include <optional>
#include <string>

#include "core/device/primitives.hpp"
#include "formats/cusparse_support.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/runs/coo_segments.cuh"
#include "formats/engines/runs/row_runs.cuh"
#include "formats/engines/view/array_views.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
__global__ void coo_diagonal(std::int64_t size, const std::int32_t* row, const std::int32_t* col,
                             const T* values, T* diagonal) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < size && row[k] == col[k]) diagonal[row[k]] = values[k];
}

// Steps of 32 entries in each warp; the loads of all steps are in flight together.
constexpr int atomic_steps = 4;

template <class T>
__global__ void __launch_bounds__(device::block_size)
    coo_add(std::int64_t size, const std::int32_t* row, const std::int32_t* col, const T* values, T alpha,
            const T* x, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = threadIdx.x % 32;
  const std::int64_t first =
      (std::int64_t{blockIdx.x} * device::block_size + threadIdx.x - lane) * atomic_steps + lane;
  std::int32_t r[atomic_steps];
  T v[atomic_steps];
#pragma unroll
  for (int j = 0; j < atomic_steps; ++j) {
    const std::int64_t k = first + j * 32;
    r[j] = k < size ? row[k] : -1;
    v[j] = k < size ? values[k] * __ldg(x + col[k]) : T(0);
  }
#pragma unroll
  for (int j = 0; j < atomic_steps; ++j) {
    // Each lane gets the sum from itself to the end of the run of its row.
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const T sum = __shfl_down_sync(0xffffffffu, v[j], step);
      const std::int32_t other = __shfl_down_sync(0xffffffffu, r[j], step);
      if (lane + step < 32 && other == r[j]) v[j] += sum;
    }
    const std::int32_t before = __shfl_up_sync(0xffffffffu, r[j], 1);
    if (r[j] >= 0 && (lane == 0 || before != r[j])) atomicAdd(y + r[j], alpha * v[j]);
  }
}

// The three arrays, and everything that does not depend on the kernel.
template <class T>
class CooArrays : public AssembledMatrix<T>, public HasArrayView<CooView<T>> {
 public:
  explicit CooArrays(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        row_(request.context, request.csr.nonzeros()),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    pattern.row_ptr.visit([&](auto* row_ptr) {
      expand(*request.context, row_ptr, pattern.rows, pattern.nonzeros, row_.data());
    });
    device::copy_within(*request.context, col_.data(), pattern.col, col_.bytes());
    device::copy_within(*request.context, values_.data(), request.csr.values, values_.bytes());
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    CsrBuilder<T> builder(this->context(), this->rows(), this->cols(), values_.size());
    if (builder.row_ptr32())
      compress(*this->context(), row_.data(), row_.size(), this->rows(), builder.row_ptr32());
    else
      compress(*this->context(), row_.data(), row_.size(), this->rows(), builder.row_ptr64());
    device::copy_within(*this->context(), builder.col(), col_.data(), col_.bytes());
    device::copy_within(*this->context(), builder.values(), values_.data(), values_.bytes());
    return builder.freeze();
  }
  std::size_t bytes() const noexcept override { return row_.bytes() + col_.bytes() + values_.bytes(); }
  CooView<T> array_view() const noexcept override {
    return {values_.size(), row_.data(), col_.data(), values_.data()};
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    const cudaStream_t stream = device::stream(*this->context());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(d.data, 0, static_cast<std::size_t>(d.size) * sizeof(T), stream));
    if (values_.empty()) return;
    coo_diagonal<<<blocks_of(values_.size(), 256), 256, 0, stream>>>(values_.size(), row_.data(), col_.data(),
                                                                     values_.data(), d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    device::copy_within(*this->context(), values_.data(), csr.values, values_.bytes());
  }

  Buffer<std::int32_t> row_, col_;
  Buffer<T> values_;
};

template <class T>
class CooNative final : public CooArrays<T>, public HasApplyDot<T> {
 public:
  explicit CooNative(const BuildRequest<T>& request)
      : CooArrays<T>(request),
        runs_(request.context, request.csr.pattern, run_counts(*request.context, request.csr.pattern)) {}
  std::size_t bytes() const noexcept override { return CooArrays<T>::bytes() + runs_.bytes(); }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    multiply_runs_dot(*this->context(), runs(), x.data, y.data, result);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply_runs(*this->context(), runs(), alpha, x.data, beta, y.data);
  }

 private:
  RunView<T> runs() const { return runs_.view(this->col_.data(), this->values_.data()); }
  RowRuns<T> runs_;
};

template <class T>
class CooSegmented final : public CooArrays<T> {
 public:
  explicit CooSegmented(const BuildRequest<T>& request)
      : CooArrays<T>(request),
        carry_row_(request.context, segments_of(this->nonzeros())),
        carry_value_(request.context, segments_of(this->nonzeros())) {}
  std::size_t bytes() const noexcept override {
    return CooArrays<T>::bytes() + carry_row_.bytes() + carry_value_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->nonzeros() == 0) return scale(*this->context(), this->rows(), beta, y.data);
    // A product overwrites the workspace before it reads it.
    const EntrySegments<T, CooIndex> A{this->rows(),
                                       this->nonzeros(),
                                       {this->row_.data(), this->col_.data()},
                                       this->values_.data(),
                                       const_cast<std::int32_t*>(carry_row_.data()),
                                       const_cast<T*>(carry_value_.data())};
    multiply_segments(*this->context(), A, alpha, x.data, beta, y.data);
  }

 private:
  Buffer<std::int32_t> carry_row_;
  Buffer<T> carry_value_;
};

template <class T>
class CooAtomic final : public CooArrays<T> {
 public:
  using CooArrays<T>::CooArrays;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t size = this->values_.size();
    scale(*this->context(), this->rows(), beta, y.data);
    if (size == 0) return;
    coo_add<<<blocks_of(size, device::block_size * atomic_steps), device::block_size, 0, state.stream>>>(
        size, this->row_.data(), this->col_.data(), this->values_.data(), alpha, x.data, y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

template <class T, cusparseSpMVAlg_t algorithm>
class CooCusparse final : public CusparseMatrix<T, CooArrays<T>> {
 public:
  explicit CooCusparse(const BuildRequest<T>& request) : CusparseMatrix<T, CooArrays<T>>(request) {
    if (this->values_.empty()) return;
    if (this->values_.size() > std::numeric_limits<std::int32_t>::max())
      throw FormatRefused("coo",
                          std::to_string(this->values_.size()) +
                              " entries; cuSPARSE counts them with 32 bits where indices have 32: take "
                              "kernel native");
    cusparseSpMatDescr_t matrix = nullptr;
    device::check(cusparseCreateCoo(&matrix, this->rows(), this->cols(), this->values_.size(),
                                    this->row_.data(), this->col_.data(), this->values_.data(),
                                    CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, cusparse_type<T>),
                  "cusparseCreateCoo");
    product_.emplace(request.context, matrix, algorithm, false);
  }
  std::size_t bytes() const noexcept override {
    return CooArrays<T>::bytes() + (product_ ? product_->bytes() : 0);
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
template <class T>
using CooCusparse1 = CooCusparse<T, CUSPARSE_SPMV_COO_ALG1>;
template <class T>
using CooCusparse2 = CooCusparse<T, CUSPARSE_SPMV_COO_ALG2>;

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(
      static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 8) +
          run_bytes(pattern.rows, pattern.nonzeros, run_counts(context, pattern), value_bytes),
      pattern.nonzeros);
}

Admission admit_segmented(const Context&, const SparsityPattern& pattern, const FormatParams&,
                          std::size_t value_bytes) {
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 8) +
                               static_cast<std::size_t>(segments_of(pattern.nonzeros)) * (value_bytes + 4),
                           pattern.nonzeros);
}
Admission admit_arrays(const Context&, const SparsityPattern& pattern, const FormatParams&,
                       std::size_t value_bytes) {
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 8), pattern.nonzeros);
}

constexpr Kernel kernels[] = {device_kernel<CooNative>("native"),
                              admitted_by(admit_segmented, device_kernel<CooSegmented>("segmented")),
                              admitted_by(admit_arrays, device_kernel<CooAtomic>("atomic", false)),
                              device_kernel<CooCusparse1>("cusparse", false),
                              device_kernel<CooCusparse2>("cusparse-alg2"),
                              PROTEAN_KOKKOS_DEVICE_KERNEL(coo)};

}  // namespace

constinit const DeviceCode device_code::coo{kernels, admit};

}  // namespace protean::formats
