// Compares each entry of a matrix in device memory with its mirror. One thread per entry, so that long rows cost no
// more than short ones. A thread finds its row among the rows of its block, and the mirror by bisection of the other
// row.
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
  Bits unequal;   // the largest part by which an entry differs from its mirror
  Bits positive;  // rows with a positive diagonal entry
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

// body(row, entry) for all entries, each by one thread. All threads of a block call it.
template <class P, class Body>
__device__ void for_entries(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros, Body body) {
  __shared__ std::int64_t first_row, last_row;
  for (std::int64_t begin = std::int64_t{blockIdx.x} * block_size; begin < nonzeros;
       begin += std::int64_t{gridDim.x} * block_size) {
    const std::int64_t end = begin + block_size < nonzeros ? begin + block_size : nonzeros;
    __syncthreads();
    // The row of an entry is the first one that ends behind it.
    if (threadIdx.x < 2) {
      const std::int64_t k = threadIdx.x == 0 ? begin : end - 1;
      const std::int64_t row = bisect(0, rows, [&](std::int64_t r) { return row_ptr[r + 1] > k; });
      (threadIdx.x == 0 ? first_row : last_row) = row;
    }
    __syncthreads();
    const std::int64_t k = begin + threadIdx.x;
    if (k < end) body(bisect(first_row, last_row, [&](std::int64_t r) { return row_ptr[r + 1] > k; }), k);
  }
}

// size[r] := max |a_rk|; it is 0 before. NaN is ignored.
template <class T, class P>
__global__ void __launch_bounds__(block_size)
    sizes_kernel(const P* row_ptr, const T* values, std::int64_t rows, std::int64_t nonzeros, Bits* size) {
  for_entries(row_ptr, rows, nonzeros, [&](std::int64_t r, std::int64_t k) {
    const double a = fabs(static_cast<double>(values[k]));
    const Bits bits = static_cast<Bits>(__double_as_longlong(a));
    // Most entries of a long row are no larger than what is there.
    if (a > __longlong_as_double(static_cast<long long>(size[r]))) atomicMax(size + r, bits);
  });
}

template <class T, class P>
__global__ void __launch_bounds__(block_size)
    mirrors_kernel(const P* row_ptr, const std::int32_t* col, const T* values, std::int64_t rows,
                   std::int64_t nonzeros, const Bits* size, Found* found) {
  __shared__ Bits unequal, positive;
  if (threadIdx.x == 0) unequal = positive = 0;
  for_entries(row_ptr, rows, nonzeros, [&](std::int64_t r, std::int64_t k) {
    const std::int32_t c = col[k];
    const double a = static_cast<double>(values[k]);
    if (c == r) {
      if (a > 0) atomicAdd(&positive, Bits{1});
      return;
    }
    const std::int64_t end = row_ptr[c + 1];
    const std::int64_t at =
        bisect(row_ptr[c], end, [&](std::int64_t j) { return col[j] >= static_cast<std::int32_t>(r); });
    const double b = at < end && col[at] == r ? static_cast<double>(values[at]) : 0.0;
    if (a == b) return;
    const double one = __longlong_as_double(static_cast<long long>(size[r])),
                 other = __longlong_as_double(static_cast<long long>(size[c]));
    const double part = fabs(a - b) / fmin(one, other);
    atomicMax(&unequal, static_cast<Bits>(__double_as_longlong(isnan(part) ? INFINITY : part)));
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    if (unequal > 0) atomicMax(&found->unequal, unequal);
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
  const Scratch<Bits> size(context, p.rows);
  Found found{0, 0};
  copy_in(context, scratch.data(), &found, sizeof found);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(size.data(), 0, size.bytes(), stream(context)));
  const auto blocks =
      static_cast<unsigned>(std::min(most_blocks, (p.nonzeros + block_size - 1) / block_size));
  p.row_ptr.visit([&](const auto* row_ptr) {
    sizes_kernel<<<blocks, block_size, 0, stream(context)>>>(row_ptr, csr.values, p.rows, p.nonzeros,
                                                             size.data());
    mirrors_kernel<<<blocks, block_size, 0, stream(context)>>>(row_ptr, p.col, csr.values, p.rows, p.nonzeros,
                                                               size.data(), scratch.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  copy_out(context, &found, scratch.data(), sizeof found);
  return {.asymmetry = std::bit_cast<double>(found.unequal),
          .not_positive = p.rows - static_cast<std::int64_t>(found.positive)};
}
template detail::SymmetryFacts symmetry_facts<float>(const Context&, const CsrMatrix<float>&);
template detail::SymmetryFacts symmetry_facts<double>(const Context&, const CsrMatrix<double>&);

}  // namespace protean::device
