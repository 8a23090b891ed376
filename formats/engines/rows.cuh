// Products with rows of CSR arrays in device memory: the kernels that several formats share, which differ in the rows
// that a group of threads computes. Private to formats/.
//
//   group   `lanes` neighbouring threads, 1 to 32: they read neighbouring entries of a row and add their sums by
//           shuffles in a fixed order. Position p of a launch is row p, or row list[p].
//   long    a row of its own launch: each block adds long_piece entries, then a warp adds the sums of the blocks in
//           their order. No atomic operation, so the same bits in every run.
#pragma once
#include "formats/private/csr_arrays.cuh"
#include "formats/private/device_rows.cuh"
#include "formats/private/expand.cuh"
#include "formats/row/csr_tuner.hpp"

namespace protean::formats {

// The sum of a row in every lane of its group. All threads of a warp call it; `there` is false in groups without a row.
template <int lanes, class T, class P>
__device__ inline T group_sum(const CsrArrays<T, P>& a, std::int64_t row, bool there,
                              const T* __restrict__ x) {
  T sum = 0;
  if (there)
    for (P k = __ldg(a.row_ptr + row) + static_cast<P>(threadIdx.x % lanes), end = __ldg(a.row_ptr + row + 1);
         k < end; k += lanes)
      sum += __ldg(a.values + k) * __ldg(x + __ldg(a.col + k));
  return device::sum_lanes<lanes>(sum);
}

// Each group computes `repeat` of `count` positions, blockDim.x / lanes apart.
template <int lanes, class T, class P>
__global__ void group_rows(CsrArrays<T, P> a, const std::int32_t* list, std::int64_t count, int repeat,
                           T alpha, const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const int stride = static_cast<int>(blockDim.x) / lanes;
  const std::int64_t first =
      std::int64_t{blockIdx.x} * stride * repeat + static_cast<int>(threadIdx.x) / lanes;
  for (int i = 0; i < repeat; ++i) {
    // All threads of a warp take part in its shuffles.
    const std::int64_t p = first + std::int64_t{i} * stride;
    const bool there = p < count;
    const std::int64_t row = there && list ? __ldg(list + p) : p;
    const T sum = group_sum<lanes>(a, row, there, x);
    if (there && threadIdx.x % lanes == 0) store(alpha, sum, beta, y + row);
  }
}

// Calls f with the number as an integral constant: 1, 2, 4, 8, 16 or 32.
template <class F>
auto with_group(int lanes, F&& f) {
  switch (lanes) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 8:
      return f(std::integral_constant<int, 8>());
    case 16:
      return f(std::integral_constant<int, 16>());
    default:
      return f(std::integral_constant<int, 32>());
  }
}

// Queues the product of `count` rows; `list` may be null.
template <class T, class P>
void multiply_groups(const DeviceState& state, const CsrLaunch& how, const CsrArrays<T, P>& arrays,
                     const std::int32_t* list, std::int64_t count, T alpha, const T* x, T beta, T* y) {
  if (count == 0) return;
  with_group(how.coop, [&](auto lanes) {
    device::launch(state, group_rows<lanes(), T, P>, blocks_of_launch(how, count), how.block, arrays, list,
                   count, how.repeat, alpha, x, beta, y, state.stop);
  });
}

// A block for each position of a list.
template <class T, class P>
__global__ void block_rows(CsrArrays<T, P> a, const std::int32_t* list, T alpha, const T* __restrict__ x,
                           T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t row = list[blockIdx.x];
  T sum[1] = {};
  for (P k = a.row_ptr[row] + static_cast<P>(threadIdx.x), end = a.row_ptr[row + 1]; k < end;
       k += static_cast<P>(blockDim.x))
    sum[0] += __ldg(a.values + k) * __ldg(x + __ldg(a.col + k));
  device::sum_block(sum);
  if (threadIdx.x == 0) store(alpha, sum[0], beta, y + row);
}

// Rows that several blocks share.
constexpr std::int64_t long_piece = 4096;  // entries a block

inline std::size_t long_row_bytes(std::int64_t rows, std::int64_t pieces, std::size_t value_bytes) {
  return rows == 0 ? 0
                   : static_cast<std::size_t>(rows + 1) * 8 + static_cast<std::size_t>(pieces) * value_bytes;
}

template <class T>
struct LongView {
  const std::int32_t* row;
  const std::int64_t* first;  // [rows + 1] the first piece of each
  std::int64_t rows, pieces;
  T* partial;  // [pieces]
};

static __global__ void count_long_pieces(DevicePattern a, const std::int32_t* rows, std::int64_t count,
                                         std::int64_t* first) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) first[i] = (a.length(rows[i]) + long_piece - 1) / long_piece;
  if (i == count) first[i] = 0;
}

template <class T, class P>
__global__ void __launch_bounds__(device::block_size)
    multiply_long_pieces(CsrArrays<T, P> a, LongView<T> rows, const T* __restrict__ x, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t piece = blockIdx.x, i = slice_of(rows.first, 0, rows.rows - 1, piece), row = rows.row[i];
  const std::int64_t begin = a.row_ptr[row] + (piece - rows.first[i]) * long_piece;
  const std::int64_t end = min(begin + long_piece, static_cast<std::int64_t>(a.row_ptr[row + 1]));
  T sum[1] = {};
  for (std::int64_t k = begin + threadIdx.x; k < end; k += blockDim.x)
    sum[0] += __ldg(a.values + k) * __ldg(x + __ldg(a.col + k));
  device::sum_block(sum);
  if (threadIdx.x == 0) rows.partial[piece] = sum[0];
}

// A warp for each row.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    add_long_pieces(LongView<T> rows, T alpha, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= rows.rows) return;  // whole warps
  T sum = 0;
  for (std::int64_t p = rows.first[i] + threadIdx.x % 32; p < rows.first[i + 1]; p += 32)
    sum += __ldcg(rows.partial + p);
  sum = device::sum_lanes(sum);
  if (threadIdx.x % 32 == 0) store(alpha, sum, beta, y + rows.row[i]);
}

// The pieces of the rows of a list, which lives as long as this. Nothing when the list is empty.
template <class T>
class LongRows {
 public:
  LongRows() = default;
  LongRows(const ContextPtr& context, const SparsityPattern& pattern, const std::int32_t* rows,
           std::int64_t count, std::int64_t pieces)
      : rows_(rows), count_(count) {
    if (count == 0) return;
    first_ = Buffer<std::int64_t>(context, count + 1), partial_ = Buffer<T>(context, pieces);
    count_long_pieces<<<blocks_of(count + 1), device::block_size, 0, device::stream(*context)>>>(
        device_pattern(pattern), rows, count, first_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(*context, first_.data(), count + 1);
  }
  std::size_t bytes() const noexcept { return first_.bytes() + partial_.bytes(); }

  template <class P>
  void multiply(const DeviceState& state, const CsrArrays<T, P>& arrays, T alpha, const T* x, T beta,
                T* y) const {
    if (count_ == 0) return;
    // The partial sums are workspace of the product.
    const LongView<T> view{rows_, first_.data(), count_, partial_.size(), const_cast<T*>(partial_.data())};
    device::launch(state, multiply_long_pieces<T, P>, view.pieces, device::block_size, arrays, view, x,
                   state.stop);
    device::launch(state, add_long_pieces<T>, blocks_of(count_, device::block_size / 32), device::block_size,
                   view, alpha, beta, y, state.stop);
  }

 private:
  const std::int32_t* rows_ = nullptr;
  std::int64_t count_ = 0;
  Buffer<std::int64_t> first_;
  Buffer<T> partial_;
};

// How many rows there are of each length class: class 0 has the empty rows, class c the lengths in
// (2^(c-2), 2^(c-1)]. Rows longer than `cut` have `pieces` pieces of long_piece entries.
struct LengthClasses {
  static constexpr int count = 33;
  std::int64_t rows[count] = {};
  std::int64_t longest = 0, cut_rows = 0, pieces = 0;
  // Rows of the classes first to last.
  std::int64_t rows_of(int first, int last) const {
    std::int64_t sum = 0;
    for (int c = first; c <= last; ++c) sum += rows[c];
    return sum;
  }
};
// The host waits. rows.cu
LengthClasses length_classes(const Context& context, const SparsityPattern& pattern, std::int64_t cut);

// list[0 .. pattern.rows) := the rows, stable, by ascending length or by ascending class. rows.cu
void list_by_length(const Context& context, const SparsityPattern& pattern, std::int64_t longest,
                    std::int32_t* list);
void list_by_class(const Context& context, const SparsityPattern& pattern, std::int32_t* list);

}  // namespace protean::formats
