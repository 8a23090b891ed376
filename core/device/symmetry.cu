// Compares each entry of a matrix in device memory with its mirror. One thread an entry, so that long rows cost no more
// than short ones. A thread finds its row among those of its block, and the mirror by bisection of the other row.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/device/symmetry.hpp"

namespace protean::device {
namespace {

// Numbers that are not negative have the order of their bits.
using Bits = unsigned long long;

struct Found {
  Bits largest, difference;  // |a_ij|, |a_ij - a_ji|
  Bits positive;             // rows with a positive diagonal entry
};

// The first place in [begin, end) where `reached` holds, or end.
template <class Reached>
__device__ std::int64_t bisect(std::int64_t begin, std::int64_t end, Reached reached) {
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (reached(middle))
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

template <class T, class P>
__global__ void __launch_bounds__(block_size)
    mirrors_kernel(const P* row_ptr, const std::int32_t* col, const T* values, std::int64_t rows,
                   std::int64_t nonzeros, Found* found) {
  __shared__ std::int64_t first_row, last_row;
  __shared__ Bits largest, difference, positive;
  if (threadIdx.x == 0) largest = difference = positive = 0;
  for (std::int64_t begin = std::int64_t{blockIdx.x} * block_size; begin < nonzeros;
       begin += std::int64_t{gridDim.x} * block_size) {
    const std::int64_t end = begin + block_size < nonzeros ? begin + block_size : nonzeros;
    __syncthreads();
    // The row of entry k is the last one that begins at or before it.
    if (threadIdx.x < 2) {
      const std::int64_t k = threadIdx.x == 0 ? begin : end - 1;
      const std::int64_t row = bisect(0, rows, [&](std::int64_t r) { return row_ptr[r + 1] > k; });
      (threadIdx.x == 0 ? first_row : last_row) = row;
    }
    __syncthreads();
    const std::int64_t k = begin + threadIdx.x;
    if (k >= end) continue;
    const std::int64_t r =
        bisect(first_row, last_row, [&](std::int64_t row) { return row_ptr[row + 1] > k; });
    const std::int32_t c = col[k];
    const double a = static_cast<double>(values[k]);
    atomicMax(&largest, static_cast<Bits>(__double_as_longlong(fabs(a))));
    if (c == r) {
      if (a > 0) atomicAdd(&positive, Bits{1});
      continue;
    }
    const std::int64_t row_end = row_ptr[c + 1];
    const std::int64_t at =
        bisect(row_ptr[c], row_end, [&](std::int64_t j) { return col[j] >= static_cast<std::int32_t>(r); });
    const bool stored = at < row_end && col[at] == r;
    const double b = stored ? static_cast<double>(values[at]) : 0.0;
    // Written so that NaN counts as different.
    const double gap = a == b ? 0.0 : isnan(a - b) ? INFINITY : fabs(a - b);
    if (gap > 0) atomicMax(&difference, static_cast<Bits>(__double_as_longlong(gap)));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax(&found->largest, largest), atomicMax(&found->difference, difference);
    if (positive > 0) atomicAdd(&found->positive, positive);
  }
}

}  // namespace

template <class T>
detail::SymmetryFacts symmetry_facts(const Context& context, const CsrMatrix<T>& csr) {
  const SparsityPattern& p = csr.pattern;
  if (p.nonzeros == 0) return {.not_positive = p.rows};
  constexpr std::int64_t most_blocks = 4096;
  const Scratch<Found> scratch(context, 1);
  Found found{0, 0, 0};
  copy_in(context, scratch.data(), &found, sizeof found);
  const auto blocks =
      static_cast<unsigned>(std::min(most_blocks, (p.nonzeros + block_size - 1) / block_size));
  p.row_ptr.visit([&](const auto* row_ptr) {
    mirrors_kernel<<<blocks, block_size, 0, stream(context)>>>(row_ptr, p.col, csr.values, p.rows, p.nonzeros,
                                                               scratch.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  copy_out(context, &found, scratch.data(), sizeof found);
  const auto number = [](Bits bits) { return std::bit_cast<double>(bits); };
  const double difference = number(found.difference);
  return {.asymmetry = difference == 0 ? 0 : difference / number(found.largest),
          .not_positive = p.rows - static_cast<std::int64_t>(found.positive)};
}
template detail::SymmetryFacts symmetry_facts<float>(const Context&, const CsrMatrix<float>&);
template detail::SymmetryFacts symmetry_facts<double>(const Context&, const CsrMatrix<double>&);

}  // namespace protean::device
