// Finds the first row or entry of a matrix in device memory that no product may read.
#include <algorithm>

#include "core/device/check_matrix.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"

namespace protean::device {
namespace {

constexpr std::int64_t most_blocks = 4096;

using Place = unsigned long long;  // as atomicMin() wants it

template <class P>
__global__ void __launch_bounds__(block_size)
    rows_kernel(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros, Place* first) {
  for (std::int64_t r = std::int64_t{blockIdx.x} * block_size + threadIdx.x; r < rows;
       r += std::int64_t{gridDim.x} * block_size)
    if (row_ptr[r] < 0 || row_ptr[r + 1] < row_ptr[r] || row_ptr[r + 1] > nonzeros)
      atomicMin(first, static_cast<Place>(r));
}

template <class P>
__global__ void __launch_bounds__(block_size)
    order_kernel(const P* row_ptr, const std::int32_t* col, std::int64_t rows, Place* first) {
  for (std::int64_t r = std::int64_t{blockIdx.x} * block_size + threadIdx.x; r < rows;
       r += std::int64_t{gridDim.x} * block_size) {
    const std::int64_t end = row_ptr[r + 1];
    for (std::int64_t k = row_ptr[r] + 1; k < end; ++k)
      if (col[k] <= col[k - 1]) {
        atomicMin(first, static_cast<Place>(r));
        break;
      }
  }
}

template <class T>
__global__ void __launch_bounds__(block_size)
    entries_kernel(std::int64_t count, std::int64_t cols, const std::int32_t* col, const T* values,
                   Place* first) {
  for (std::int64_t k = std::int64_t{blockIdx.x} * block_size + threadIdx.x; k < count;
       k += std::int64_t{gridDim.x} * block_size)
    if ((col && (col[k] < 0 || col[k] >= cols)) || (values && !isfinite(values[k])))
      atomicMin(first, static_cast<Place>(k));
}

// Runs launch(blocks, first), where `first` on the device holds `count` before.
template <class Launch>
std::int64_t first_of(const Context& context, std::int64_t count, Launch launch) {
  if (count == 0) return 0;
  const Scratch<Place> first(context, 1);
  Place found = static_cast<Place>(count);
  copy_in(context, first.data(), &found, sizeof found);
  launch(static_cast<unsigned>(std::min(most_blocks, (count + block_size - 1) / block_size)), first.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  copy_out(context, &found, first.data(), sizeof found);
  return static_cast<std::int64_t>(found);
}

}  // namespace

std::int64_t first_bad_row(const Context& context, const SparsityPattern& pattern) {
  return pattern.row_ptr.visit([&](const auto* row_ptr) {
    return first_of(context, pattern.rows, [&](unsigned blocks, Place* first) {
      rows_kernel<<<blocks, block_size, 0, stream(context)>>>(row_ptr, pattern.rows, pattern.nonzeros, first);
    });
  });
}

std::int64_t first_unsorted_row(const Context& context, const SparsityPattern& pattern) {
  return pattern.row_ptr.visit([&](const auto* row_ptr) {
    return first_of(context, pattern.rows, [&](unsigned blocks, Place* first) {
      order_kernel<<<blocks, block_size, 0, stream(context)>>>(row_ptr, pattern.col, pattern.rows, first);
    });
  });
}

template <class T>
std::int64_t first_bad_entry(const Context& context, std::int64_t count, std::int64_t cols,
                             const std::int32_t* col, const T* values) {
  return first_of(context, count, [&](unsigned blocks, Place* first) {
    entries_kernel<<<blocks, block_size, 0, stream(context)>>>(count, cols, col, values, first);
  });
}

template std::int64_t first_bad_entry<float>(const Context&, std::int64_t, std::int64_t, const std::int32_t*,
                                             const float*);
template std::int64_t first_bad_entry<double>(const Context&, std::int64_t, std::int64_t, const std::int32_t*,
                                              const double*);

}  // namespace protean::device
