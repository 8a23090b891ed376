// Gathers some rows of a pattern.
#include <cub/block/block_scan.cuh>

#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/device/read_rows.hpp"

namespace protean::device {
namespace {

template <class P>
__global__ void __launch_bounds__(block_size)
    lengths_kernel(const P* row_ptr, const std::int32_t* rows, std::int64_t count, std::int64_t* lengths) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (i < count) lengths[i] = row_ptr[rows[i] + 1] - row_ptr[rows[i]];
}

// A warp for each row.
template <class P>
__global__ void __launch_bounds__(block_size)
    gather_kernel(const P* row_ptr, const std::int32_t* col, const std::int32_t* rows, std::int64_t count,
                  const std::int64_t* begin, std::int32_t* to) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / 32;
  if (i >= count) return;
  const P first = row_ptr[rows[i]];
  const std::int64_t length = begin[i + 1] - begin[i];
  for (std::int64_t k = threadIdx.x % 32; k < length; k += 32)
    to[begin[i] + k] = col[first + static_cast<P>(k)];
}

// Few rows, in one launch: their columns in `to`, and the beginning of each row in begin[0 .. count]. Nothing is
// written to `to` beyond `room`.
constexpr int few_threads = 1024, rows_of_thread = 4;
constexpr std::int64_t few_rows = few_threads * rows_of_thread, few_columns = std::int64_t{1} << 18;
template <class P>
__global__ void __launch_bounds__(few_threads)
    few_rows_kernel(const P* row_ptr, const std::int32_t* col, const std::int32_t* rows, int count,
                    std::int64_t* begin, std::int32_t* to, std::int64_t room) {
  using Scan = cub::BlockScan<std::int64_t, few_threads>;
  __shared__ typename Scan::TempStorage scan;
  const int first = static_cast<int>(threadIdx.x) * rows_of_thread;
  std::int64_t starts[rows_of_thread], total = 0;
#pragma unroll
  for (int i = 0; i < rows_of_thread; ++i)
    starts[i] = first + i < count ? row_ptr[rows[first + i] + 1] - row_ptr[rows[first + i]] : 0;
  Scan(scan).ExclusiveSum(starts, starts, total);
#pragma unroll
  for (int i = 0; i < rows_of_thread; ++i)
    if (first + i < count) begin[first + i] = starts[i];
  if (threadIdx.x == 0) begin[count] = total;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) / 32; i < count; i += few_threads / 32) {
    const P source = row_ptr[rows[i]];
    for (std::int64_t k = begin[i] + threadIdx.x % 32; k < min(begin[i + 1], room); k += 32)
      to[k] = col[source + static_cast<P>(k - begin[i])];
  }
}

unsigned blocks_of(std::int64_t threads) {
  return static_cast<unsigned>((threads + block_size - 1) / block_size);
}

}  // namespace

void read_rows(const Context& context, const SparsityPattern& pattern, std::span<const std::int32_t> rows,
               detail::RowsRead& to) {
  const auto count = static_cast<std::int64_t>(rows.size());
  to.begin.assign(rows.size() + 1, 0), to.columns.clear();
  if (count == 0) return;
  const cudaStream_t queue = stream(context);
  const Scratch<std::int32_t> list(context, count);
  const Scratch<std::int64_t> begin(context, count + 1);
  copy_in(context, list.data(), rows.data(), list.bytes());
  pattern.row_ptr.visit([&](const auto* row_ptr) {
    if (count <= few_rows) {
      const Scratch<std::int32_t> columns(context, few_columns);
      few_rows_kernel<<<1, few_threads, 0, queue>>>(row_ptr, pattern.col, list.data(),
                                                    static_cast<int>(count), begin.data(), columns.data(),
                                                    few_columns);
      PROTEAN_CUDA_CHECK(cudaGetLastError());
      copy_out(context, to.begin.data(), begin.data(), begin.bytes());
      if (to.begin.back() <= few_columns) {
        to.columns.resize(static_cast<std::size_t>(to.begin.back()));
        copy_out(context, to.columns.data(), columns.data(), to.columns.size() * sizeof(std::int32_t));
        return;
      }
    }
    lengths_kernel<<<blocks_of(count), block_size, 0, queue>>>(row_ptr, list.data(), count, begin.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    exclusive_scan(context, begin.data(), count + 1);
    copy_out(context, to.begin.data(), begin.data(), begin.bytes());
    to.columns.resize(static_cast<std::size_t>(to.begin.back()));
    if (to.columns.empty()) return;
    const Scratch<std::int32_t> columns(context, to.begin.back());
    gather_kernel<<<blocks_of(count * 32), block_size, 0, queue>>>(row_ptr, pattern.col, list.data(), count,
                                                                   begin.data(), columns.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    copy_out(context, to.columns.data(), columns.data(), columns.bytes());
  });
}

}  // namespace protean::device
