// Products with rows of CSR arrays in device memory: the kernels that several formats share, which differ in the rows
// that a group of threads computes. Private to formats/.
//
//   group   `lanes` neighbouring threads, 1 to 32: they read neighbouring entries of a row and add their sums by
//           shuffles in a fixed order. Position p of a launch is row p, or row list[p].
//   long    a row with its own launch: each block adds long_piece entries, then a warp adds the sums of the blocks in
//           their order. No atomic operation, so the same bits in every run.
#pragma once
#include <limits>
#include <memory>

#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/rows/row_tables.hpp"
#include "formats/engines/view/device_rows.cuh"
#include "formats/engines/view/expand.cuh"
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

// list[0 .. pattern.rows) := the rows, stable, by ascending length, or in the order of acsr_bin(). rows.cu
void list_by_length(const Context& context, const SparsityPattern& pattern, std::int64_t longest,
                    std::int32_t* list);
void list_by_bin(const Context& context, const SparsityPattern& pattern, int bin_max, std::int32_t* list);
// list := the rows longer than `cut`, ascending. rows.cu
void list_longer(const Context& context, const SparsityPattern& pattern, std::int64_t cut,
                 std::int32_t* list);

// The row blocks of rows.hpp in device memory: found by admit(), kept until the matrix has its copy. rows.cu
struct DeviceRowBlocks {
  explicit DeviceRowBlocks(const Context& context, std::int64_t size) : first(context, size) {}
  device::Scratch<std::int32_t> first;
  std::int64_t blocks = 0;
  LengthClasses lengths;  // cut at 2 most_entries
};
std::shared_ptr<DeviceRowBlocks> device_row_blocks(const Context& context, const SparsityPattern& pattern,
                                                   std::int64_t most_entries);

// Products over blocks of rows: the entries of a block are multiplied side by side into shared memory; then `lanes`
// threads add the products of a row. `long_rows`: blocks of one row are added by all threads, and left alone when the
// row is longer than `cut`.
template <bool long_rows, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    multiply_row_blocks(CsrArrays<T, P> a, const std::int32_t* block_ptr, std::int64_t cut, T alpha,
                        const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T products[block_entries_most];
  const std::int64_t first = __ldg(block_ptr + blockIdx.x), last = __ldg(block_ptr + blockIdx.x + 1);
  const P begin = __ldg(a.row_ptr + first);
  const auto count = static_cast<std::int64_t>(__ldg(a.row_ptr + last) - begin);
  const auto thread = static_cast<int>(threadIdx.x);
  if (long_rows && last - first == 1) {
    if (count > cut) return;
    T sum[1] = {};
    for (std::int64_t i = thread; i < count; i += device::block_size)
      sum[0] += __ldg(a.values + begin + i) * __ldg(x + __ldg(a.col + begin + i));
    device::sum_block(sum);
    if (thread == 0) store(alpha, sum[0], beta, y + first);
    return;
  }
  for (std::int64_t i = thread; i < count; i += device::block_size)
    products[i] = __ldg(a.values + begin + i) * __ldg(x + __ldg(a.col + begin + i));
  __syncthreads();
  // All threads of the block take part in the shuffles.
  const int rows = static_cast<int>(last - first);
  int lanes = 1;
  if (long_rows)
    while (lanes < 32 && 2 * lanes * rows <= device::block_size) lanes *= 2;
  const bool there = thread / lanes < rows;
  const std::int64_t row = first + thread / lanes;
  T sum = 0;
  if (there)
    for (auto i = static_cast<int>(__ldg(a.row_ptr + row) - begin) + thread % lanes,
              end = static_cast<int>(__ldg(a.row_ptr + row + 1) - begin);
         i < end; i += lanes)
      sum += products[i];
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (there && thread % lanes == 0) store(alpha, sum, beta, y + row);
}

// The caller's CSR arrays in device memory with row blocks. `cut`: longer rows are shared by blocks.
template <class T, bool long_rows>
class CsrBlocksOnDevice final : public CsrOnDevice<T> {
 public:
  explicit CsrBlocksOnDevice(const BuildRequest<T>& request) : CsrOnDevice<T>(request) {
    const auto& found = plan_of<DeviceRowBlocks>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    block_ptr_ = Buffer<std::int32_t>(request.context, found.blocks + 1);
    device::copy_within(*request.context, block_ptr_.data(), found.first.data(), block_ptr_.bytes());
    if (!long_rows || found.lengths.cut_rows == 0) return;
    cut_ = 2 * request.params.integer("S");
    long_list_ = Buffer<std::int32_t>(request.context, found.lengths.cut_rows);
    list_longer(*request.context, pattern, cut_, long_list_.data());
    long_ = LongRows<T>(request.context, pattern, long_list_.data(), long_list_.size(), found.lengths.pieces);
  }
  std::size_t bytes() const noexcept override {
    return CsrOnDevice<T>::bytes() + block_ptr_.bytes() + long_list_.bytes() + long_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      device::launch(state, multiply_row_blocks<long_rows, T, P>, block_ptr_.size() - 1, device::block_size,
                     arrays, block_ptr_.data(), cut_, alpha, x.data, beta, y.data, state.stop);
      long_.multiply(state, arrays, alpha, x.data, beta, y.data);
    });
  }

 private:
  Buffer<std::int32_t> block_ptr_, long_list_;
  LongRows<T> long_;
  std::int64_t cut_ = std::numeric_limits<std::int64_t>::max();
};

// Borders of ranges of rows with about the same number of entries, as in borders_of_equal_entries().
template <class P>
__global__ void range_borders(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros, int parts,
                              std::int32_t* border) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i > parts) return;
  std::int64_t row = i == 0 ? 0 : rows;
  if (i > 0 && i < parts) {
    const std::int64_t target = nonzeros / parts * i + nonzeros % parts * i / parts;
    row = first_not_below(row_ptr, rows, target);
    if (row > 0 && target - row_ptr[row - 1] <= row_ptr[row] - target) --row;
  }
  border[i] = static_cast<std::int32_t>(row);
}

// A block for each range; `lanes` threads a row.
template <int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    multiply_ranges(CsrArrays<T, P> a, const std::int32_t* border, T alpha, const T* __restrict__ x, T beta,
                    T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t last = __ldg(border + blockIdx.x + 1);
  for (std::int64_t first = __ldg(border + blockIdx.x); first < last; first += device::block_size / lanes) {
    const std::int64_t row = first + threadIdx.x / lanes;
    const T sum = group_sum<lanes>(a, row, row < last, x);
    if (row < last && threadIdx.x % lanes == 0) store(alpha, sum, beta, y + row);
  }
}

inline int device_ranges(const Context& context, const SparsityPattern& pattern, const FormatParams& params) {
  const auto asked = static_cast<int>(params.integer("parts"));
  return asked > 0 ? asked
                   : static_cast<int>(std::clamp<std::int64_t>(
                         pattern.rows, 1, std::int64_t{context.device_state().processors} * 8));
}

template <class T, int lanes>
class CsrRangesOnDevice final : public CsrOnDevice<T> {
 public:
  explicit CsrRangesOnDevice(const BuildRequest<T>& request) : CsrOnDevice<T>(request) {
    const SparsityPattern& pattern = request.csr.pattern;
    const int parts = device_ranges(*request.context, pattern, request.params);
    border_ = Buffer<std::int32_t>(request.context, parts + 1);
    pattern.row_ptr.visit([&](auto* row_ptr) {
      range_borders<<<blocks_of(parts + 1), device::block_size, 0, device::stream(*request.context)>>>(
          row_ptr, pattern.rows, pattern.nonzeros, parts, border_.data());
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept override { return CsrOnDevice<T>::bytes() + border_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      device::launch(state, multiply_ranges<lanes, T, P>, border_.size() - 1, device::block_size, arrays,
                     border_.data(), alpha, x.data, beta, y.data, state.stop);
    });
  }

 private:
  Buffer<std::int32_t> border_;
};

inline Admission admit_device_ranges(const Context& context, const SparsityPattern& pattern,
                                     const FormatParams& params, std::size_t value_bytes) {
  const auto parts = static_cast<std::size_t>(device_ranges(context, pattern, params));
  return Admission::accept(csr_bytes(pattern, value_bytes) + (parts + 1) * 4, pattern.nonzeros);
}

}  // namespace protean::formats
