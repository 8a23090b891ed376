// Products of csr in which a group of threads has a row, or two. Private to csr.cu.
#pragma once
#include <cstdint>
#include <type_traits>

#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/rows/rows.cuh"

namespace protean::formats {

constexpr int csr_threads = 128;

// What a group of threads computes at a time. sums() gives the sums of the rows first, first + stride, ..., in every
// lane of the group; 0 for rows past the end. All threads of a warp call it. With few lanes the loads stay in the
// first-level cache, because the next row begins in the sector in which this one ends.

// One row: the entries of three steps are loaded before the group waits for the first.
constexpr int row_steps = 3;
template <bool cached>
struct OneRow {
  static constexpr int rows = 1, steps = row_steps;
  template <int lanes, class T, class P>
  static __device__ void sums(const CsrArrays<T, P>& a, std::int64_t row, std::int64_t, const T* x,
                              T (&sums)[rows]) {
    P k = 0, end = 0;
    if (row < a.rows)
      k = __ldg(a.row_ptr + row) + static_cast<P>(threadIdx.x % lanes), end = __ldg(a.row_ptr + row + 1);
    T sum = 0;
    for (; k < end; k += lanes * steps) {
      std::int32_t col[steps];
      T value[steps];
#pragma unroll
      for (int j = 0; j < steps; ++j) {
        col[j] = -1;
        if (k + j * lanes < end)
          col[j] = load_entry<cached>(a.col + k + j * lanes),
          value[j] = load_entry<cached>(a.values + k + j * lanes);
      }
#pragma unroll
      for (int j = 0; j < steps; ++j)
        if (col[j] >= 0) sum += value[j] * __ldg(x + col[j]);
    }
    sums[0] = device::sum_lanes<lanes>(sum);
  }
};

// Two rows side by side: while the group waits for one, it loads the other.
struct TwoRows {
  static constexpr int rows = 2;
  template <int lanes, class T, class P>
  static __device__ void sums(const CsrArrays<T, P>& a, std::int64_t first, std::int64_t stride, const T* x,
                              T (&sums)[rows]) {
    P k[rows], end[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const std::int64_t row = first + i * stride;
      const bool there = row < a.rows;
      k[i] = there ? __ldg(a.row_ptr + row) + static_cast<P>(threadIdx.x % lanes) : 0;
      end[i] = there ? __ldg(a.row_ptr + row + 1) : 0;
      sums[i] = 0;
    }
    for (bool more = true; more;) {
      more = false;
      std::int32_t col[rows];
      T value[rows];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        col[i] = -1;
        if (k[i] < end[i]) col[i] = __ldg(a.col + k[i]), value[i] = __ldg(a.values + k[i]);
        k[i] += lanes;
        more = more || k[i] < end[i];
      }
#pragma unroll
      for (int i = 0; i < rows; ++i)
        if (col[i] >= 0) sums[i] += value[i] * __ldg(x + col[i]);
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) sums[i] = device::sum_lanes<lanes>(sums[i]);
  }
};

template <int lanes, class Group, class T, class P>
__global__ void __launch_bounds__(csr_threads)
    csr_product(CsrArrays<T, P> a, T alpha, const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int groups = csr_threads / lanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * groups * Group::rows + threadIdx.x / lanes;
  T sums[Group::rows];
  Group::template sums<lanes>(a, first, groups, x, sums);
#pragma unroll
  for (int i = 0; i < Group::rows; ++i)
    if (const std::int64_t row = first + i * groups; row < a.rows && threadIdx.x % lanes == 0)
      store(alpha, sums[i], beta, y + row);
}

template <int lanes, class Group, class T, class P>
__global__ void __launch_bounds__(csr_threads)
    csr_product_dot(CsrArrays<T, P> a, const T* x, T* y, double* partials, unsigned* arrived, T* result,
                    const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int groups = csr_threads / lanes;
  T dots[1] = {};
  for (std::int64_t begin = std::int64_t{blockIdx.x} * groups * Group::rows; begin < a.rows;
       begin += std::int64_t{gridDim.x} * groups * Group::rows) {
    const std::int64_t first = begin + threadIdx.x / lanes;
    T sums[Group::rows];
    Group::template sums<lanes>(a, first, groups, x, sums);
#pragma unroll
    for (int i = 0; i < Group::rows; ++i)
      if (const std::int64_t row = first + i * groups; row < a.rows && threadIdx.x % lanes == 0)
        y[row] = sums[i], dots[0] += x[row] * sums[i];
  }
  device::finish_reduction<1>(dots, partials, arrived, result);
}

// Calls f(lanes, group) with the types of a kernel.
template <class F>
void with_row_group(int lanes, bool two_rows, bool cached, F&& f) {
  const auto one_row = [&](auto lanes_too) {
    return cached ? f(lanes_too, OneRow<true>()) : f(lanes_too, OneRow<false>());
  };
  switch (lanes) {
    case 4:
      return two_rows ? f(std::integral_constant<int, 4>(), TwoRows())
                      : f(std::integral_constant<int, 4>(), OneRow<true>());
    case 8:
      return one_row(std::integral_constant<int, 8>());
    case 16:
      return one_row(std::integral_constant<int, 16>());
    default:
      return one_row(std::integral_constant<int, 32>());
  }
}

}  // namespace protean::formats
