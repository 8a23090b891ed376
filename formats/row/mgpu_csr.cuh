// The tables of mgpu-csr in device memory and its product. mgpu_csr.cpp describes the arrays,
// mgpu_csr.cu the kernel. Private to this folder.
#pragma once
#include "core/device/primitives.hpp"
#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/runs/runs.cuh"
#include "formats/engines/view/device_rows.cuh"
#include "formats/row/mgpu_csr.hpp"

namespace protean::formats {

constexpr int code_threads = most_code_threads;

// number[r] := 1 for rows with entries.
template <class P>
__global__ void mark_used(std::int64_t rows, const P* row_ptr, std::int32_t* number) {
  device::wait_for_stream();
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r <= rows) number[r] = r < rows && row_ptr[r] < row_ptr[r + 1];
}
template <class P>
__global__ void list_used(std::int64_t rows, const P* row_ptr, const std::int32_t* number,
                          std::int32_t* used) {
  device::wait_for_stream();
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r < rows && row_ptr[r] < row_ptr[r + 1]) used[number[r]] = static_cast<std::int32_t>(r);
}

// A block for each tile; one more writes the last limit.
template <class P>
__global__ void __launch_bounds__(code_threads)
    write_codes(std::int64_t rows, std::int64_t nonzeros, const P* row_ptr, UsedRows used, CodeShape shape,
                std::int64_t tiles, std::uint32_t* limits, std::uint32_t* code) {
  device::wait_for_stream();
  const std::int64_t tile = blockIdx.x;
  if (threadIdx.x == 0) limits[tile] = limit_of(row_ptr, rows, nonzeros, used, shape, tile);
  if (tile < tiles)
    code[tile * code_threads + threadIdx.x] =
        code_of(row_ptr, rows, nonzeros, used, shape, tile, static_cast<int>(threadIdx.x));
}

// The matrix as a product reads it.
template <class T>
struct CodedCsr {
  const T* values;
  const std::int32_t* col;
  const std::uint32_t* limits;
  const std::uint32_t* code;
  const std::int32_t* used;  // null when all rows have entries
  std::int64_t nonzeros;
  __device__ std::int64_t row(std::int64_t number) const { return used ? __ldg(used + number) : number; }
};

// The row of the carry of a tile.
template <class T>
struct CodedCarryRow {
  CodedCsr<T> a;
  __device__ std::int64_t operator()(std::int64_t t) const {
    const std::uint32_t limit = a.limits[t + 1];
    return limit & limit_open ? a.row(limit & limit_row) : -1;
  }
};

template <int count, class T>
__global__ void __launch_bounds__(code_threads)
    coded_product(CodedCsr<T> a, T alpha, const T* __restrict__ x, T beta, T* y, T* carry, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T room[code_threads * count];  // products of the entries; later the sums of the rows
  const int thread = threadIdx.x;
  const std::int64_t tile = blockIdx.x, first = tile * (code_threads * count);
  const std::int64_t row = a.limits[tile] & limit_row;
  const auto rows = static_cast<int>((a.limits[tile + 1] & limit_row) - row);
  const std::uint32_t code = a.code[tile * code_threads + thread];
  std::int32_t c[count];
  T v[count];
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t k = first + j * code_threads + thread;
    c[j] = k < a.nonzeros ? __ldcs(a.col + k) : -1;
    v[j] = k < a.nonzeros ? __ldcs(a.values + k) : T(0);
  }
#pragma unroll
  for (int j = 0; j < count; ++j) room[j * code_threads + thread] = c[j] >= 0 ? v[j] * __ldg(x + c[j]) : T(0);
  __syncthreads();
  // v[j]: the sum of the row that ends with entry j of this thread.
  const std::uint32_t ends = code_ends(code);
  T sum = 0;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    sum += room[thread * count + j];
    v[j] = sum;
    if (ends >> j & 1) sum = 0;
  }
  // After this call all threads have read their products.
  const BlockCarry<T> open = carry_in_block<code_threads>(sum, code_since(code));
  int next = code_index(code);
#pragma unroll
  for (int j = 0; j < count; ++j)
    if (ends >> j & 1) {
      // The first row end of a thread closes a row of the threads before.
      room[next++] = (ends & ((1u << j) - 1)) == 0 ? open.before + v[j] : v[j];
    }
  __syncthreads();
  for (int i = thread; i < rows; i += code_threads) store(alpha, room[i], beta, y + a.row(row + i));
  if (thread == 0) carry[tile] = open.last;
}

template <class T, int count = 1>
auto coded_kernel(int values) {
  if constexpr (count == most_code_values)
    return coded_product<count, T>;
  else
    return values == count ? coded_product<count, T> : coded_kernel<T, count + 1>(values);
}

// Limits, codes and carries for the rows of a CSR matrix.
template <class T>
class CodedTiles {
 public:
  CodedTiles() = default;
  // empty: the number of rows without entries.
  CodedTiles(const ContextPtr& context, const SparsityPattern& pattern, const CodeShape& shape,
             std::int64_t empty)
      : shape_(shape),
        tiles_(shape.tiles(pattern.nonzeros)),
        limits_(context, tiles_ + 1),
        code_(context, tiles_ * code_threads),
        used_(context, empty > 0 ? pattern.rows - empty : 0),
        carry_(context, tiles_),
        has_empty_rows_(empty > 0) {
    const DeviceState& state = context->device_state();
    if (tiles_ == 0) {
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(limits_.data(), 0, limits_.bytes(), state.stream));
      return;
    }
    Buffer<std::int32_t> number(context, has_empty_rows_ ? pattern.rows + 1 : 0);
    pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      if (has_empty_rows_) {
        device::launch(state, mark_used<P>, blocks_of(pattern.rows + 1), device::block_size, pattern.rows,
                       row_ptr, number.data());
        device::exclusive_scan(*context, number.data(), number.size());
        device::launch(state, list_used<P>, blocks_of(pattern.rows), device::block_size, pattern.rows,
                       row_ptr, number.data(), used_.data());
      }
      device::launch(state, write_codes<P>, tiles_ + 1, code_threads, pattern.rows, pattern.nonzeros, row_ptr,
                     UsedRows{number.data()}, shape_, tiles_, limits_.data(), code_.data());
    });
  }

  std::size_t bytes() const noexcept {
    return limits_.bytes() + code_.bytes() + used_.bytes() + carry_.bytes();
  }

  // y := alpha A x + beta y. A product overwrites the carries.
  void multiply(const DeviceState& state, const CsrMatrix<T>& csr, T alpha, const T* x, T beta, T* y) const {
    if (has_empty_rows_) launch_scale_empty_rows(state, csr.pattern.row_ptr, csr.rows(), beta, y);
    if (tiles_ == 0) return;
    const CodedCsr<T> a{csr.values,   csr.pattern.col, limits_.data(),
                        code_.data(), used_.data(),    csr.nonzeros()};
    T* const carry = const_cast<T*>(carry_.data());
    device::launch(state, coded_kernel<T>(shape_.values), tiles_, code_threads, a, alpha, x, beta, y, carry,
                   state.stop);
    if (tiles_ > 1) launch_add_carries(state, CodedCarryRow<T>{a}, tiles_, carry, alpha, y);
  }

 private:
  CodeShape shape_{};
  std::int64_t tiles_ = 0;
  Buffer<std::uint32_t> limits_, code_;
  Buffer<std::int32_t> used_;  // empty when all rows have entries
  Buffer<T> carry_;
  bool has_empty_rows_ = false;
};

// The bytes of the tables.
inline std::size_t coded_tiles_bytes(const SparsityPattern& pattern, const CodeShape& shape,
                                     std::int64_t empty, std::size_t value_bytes) {
  return code_bytes(pattern, shape, empty, value_bytes) +
         static_cast<std::size_t>(shape.tiles(pattern.nonzeros)) * value_bytes - pattern.bytes() -
         static_cast<std::size_t>(pattern.nonzeros) * value_bytes;
}

}  // namespace protean::formats
