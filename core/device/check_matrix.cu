// Finds the first row or entry of a matrix in device memory that no product may read, and the hash of its pattern.
#include <algorithm>

#include "core/device/check_matrix.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/device_checks.hpp"
#include "core/float_range.hpp"
#include "core/pattern_words.hpp"

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

// any: one such value is enough, so the blocks end once any has been found.
template <bool any, class Test>
__global__ void __launch_bounds__(block_size)
    values_kernel(std::int64_t count, const double* values, Test test, Place* first) {
  const volatile Place* const known = first;
  for (std::int64_t k = std::int64_t{blockIdx.x} * block_size + threadIdx.x; k < count;
       k += std::int64_t{gridDim.x} * block_size) {
    if (any && *known < static_cast<Place>(count)) return;
    if (!test(values[k])) continue;
    atomicMin(first, static_cast<Place>(k));
    return;  // the later ones of this thread come after it
  }
}

struct RoundedInFloat {
  __device__ bool operator()(double value) const { return !detail::is_exact_in_float(value); }
};
struct BeyondFloat {
  __device__ bool operator()(double value) const { return detail::is_beyond_float(value); }
};

// Adds the terms of the hash to *sum, which is 0 before. Integers, so the order of the blocks does not matter.
template <class P>
__global__ void __launch_bounds__(block_size)
    hash_kernel(const P* row_ptr, std::int64_t rows, const std::int32_t* col, std::int64_t nonzeros,
                Place* sum) {
  const std::int64_t first = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  Place own[1] = {
      detail::sum_of_columns(col, nonzeros, first, detail::terms_of(nonzeros, detail::columns_of_term), step,
                             [](const std::int32_t* two) { return detail::word_of(two[0], two[1]); })};
  if (row_ptr)
    own[0] += detail::sum_of_row_pointers(row_ptr, rows + 1, first,
                                          detail::terms_of(rows + 1, detail::row_pointers_of_term), step);
  sum_block(own);
  if (threadIdx.x == 0) atomicAdd(sum, own[0]);
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

bool all_exact_in_float(const Context& context, std::int64_t count, const double* values) {
  return first_of(context, count, [&](unsigned blocks, Place* first) {
           values_kernel<true>
               <<<blocks, block_size, 0, stream(context)>>>(count, values, RoundedInFloat(), first);
         }) == count;
}

std::int64_t first_beyond_float(const Context& context, std::int64_t count, const double* values) {
  return first_of(context, count, [&](unsigned blocks, Place* first) {
    values_kernel<false><<<blocks, block_size, 0, stream(context)>>>(count, values, BeyondFloat(), first);
  });
}

std::uint64_t hash_of(const Context& context, const SparsityPattern& pattern) {
  const detail::DeviceScope scope(context);
  const Scratch<Place> sum(context, 1);
  Place found = 0;
  copy_in(context, sum.data(), &found, sizeof found);
  const std::int64_t items = std::max(pattern.rows + 1, pattern.nonzeros / detail::columns_of_term + 1);
  const auto blocks = static_cast<unsigned>(std::min(most_blocks, (items + block_size - 1) / block_size));
  pattern.row_ptr.visit([&](const auto* row_ptr) {
    hash_kernel<<<blocks, block_size, 0, stream(context)>>>(row_ptr, pattern.rows, pattern.col,
                                                            pattern.nonzeros, sum.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  copy_out(context, &found, sum.data(), sizeof found);
  return found;
}

template std::int64_t first_bad_entry<float>(const Context&, std::int64_t, std::int64_t, const std::int32_t*,
                                             const float*);
template std::int64_t first_bad_entry<double>(const Context&, std::int64_t, std::int64_t, const std::int32_t*,
                                              const double*);

}  // namespace protean::device
