// The device side of multi_rows.hpp. A thread multiplies a row, or every `split`-th of its entries, by V = 2, 4 or 8
// neighbouring vectors; neighbouring threads take the next vectors, then the next part of the row, then the next row:
//
//   V 4, 8 vectors, split 2:   thread     0    1    2    3    4    5    6    7    ...
//                              row        p    p    p    p    p+1  p+1  p+1  p+1
//                              entries    even even odd  odd  even even odd  odd
//                              vectors    0-3  4-7  0-3  4-7  0-3  4-7  0-3  4-7
//
// So a thread reads and decodes an entry once for V vectors, whose entries of X lie side by side in interleaved vectors
// and come with loads of 16 bytes. The entries of a part are added one after another, and the parts in a fixed order.
// Private to formats/.
#pragma once
#include <bit>

#include "core/device/kernel_tools.cuh"
#include "core/multi_vector.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/rows/csr_arrays.cuh"

namespace protean::formats {

template <class T>
struct BlockGrid;  // blocks.hpp
template <class T>
struct SliceView;  // slice_view.hpp

template <class T>
struct MultiDeviceTask {
  T alpha, beta;
  const T* x;
  T* y;
  std::int64_t x_row, x_column, y_row, y_column;
  int columns;
  const int* stop;
};

// for_products(view, p, part, split, f) calls f(column, value) for the entries of the row at position p, including
// padding if a format stores it. Thread `part` of `split` takes its share of the entries; if a view cannot divide a
// row, split is 1.

// By the view of the rows (row_view.hpp).
template <class View, class F>
__device__ inline void for_products(const View& a, std::int64_t p, int, int, F&& f) {
  a.for_entries(p, [&](std::int32_t col, std::int64_t place) { f(col, __ldg(a.values + place)); });
}

template <class T, class P>
struct MultiCsrRows : CsrArrays<T, P> {
  explicit MultiCsrRows(const CsrArrays<T, P>& arrays) : CsrArrays<T, P>(arrays) {}
  __host__ __device__ std::int64_t positions() const { return this->rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p; }
};
template <class T, class P, class F>
__device__ inline void for_products(const MultiCsrRows<T, P>& a, std::int64_t p, int part, int split, F&& f) {
  const P end = __ldg(a.row_ptr + p + 1);
#pragma unroll 4
  for (P k = __ldg(a.row_ptr + p) + static_cast<P>(part); k < end; k += static_cast<P>(split))
    f(__ldg(a.col + k), __ldg(a.values + k));
}

constexpr int bytes_of_load = 16;

// `count` neighbouring entries from x on. aligned: x is a multiple of 16 bytes.
template <int count, class T>
__device__ inline void load_side_by_side(const T* x, T (&to)[count]) {
  static_assert(count * sizeof(T) % bytes_of_load == 0 || count * sizeof(T) == 8);
  if constexpr (count * sizeof(T) == 8) {
    const float2 both = __ldg(reinterpret_cast<const float2*>(x));
    to[0] = static_cast<T>(both.x), to[1] = static_cast<T>(both.y);
  } else if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int v = 0; v < count; v += 2) {
      const double2 both = __ldg(reinterpret_cast<const double2*>(x + v));
      to[v] = both.x, to[v + 1] = both.y;
    }
  } else {
#pragma unroll
    for (int v = 0; v < count; v += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(x + v));
      to[v] = four.x, to[v + 1] = four.y, to[v + 2] = four.z, to[v + 3] = four.w;
    }
  }
}

// A thread has V vectors, and `across` threads (a power of two) have all vectors. side_by_side: the entries of a row of
// X lie side by side and start at multiples of V entries, there are a multiple of V vectors, and a load of V entries is
// aligned.
template <int V, bool side_by_side, class T, class View>
__global__ void __launch_bounds__(device::block_size)
    multi_rows_kernel(View view, int across, int split, MultiDeviceTask<T> task) {
  if (device::stopped(task.stop)) return;
  const int threads = across * split, rows = device::block_size / threads;
  const int r = static_cast<int>(threadIdx.x) / threads, inner = static_cast<int>(threadIdx.x) % threads;
  const int part = inner / across, j = inner % across * V;
  const int mine = min(V, task.columns - j);
  const T* const x = task.x + j * task.x_column;
  const std::int64_t positions = view.positions();
  // All threads of a block do the same number of rounds, since the lanes of a warp exchange sums.
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows; first < positions;
       first += std::int64_t{gridDim.x} * rows) {
    const std::int64_t p = first + r;
    const std::int64_t row = mine > 0 && p < positions ? view.row(p) : -1;
    T sums[V] = {};
    if (row >= 0)
      for_products(view, p, part, split, [&](std::int32_t col, T value) {
        const T* const from = x + col * task.x_row;
        T entries[V];
        if constexpr (side_by_side) {
          load_side_by_side(from, entries);
        } else {
#pragma unroll
          for (int v = 0; v < V; ++v) entries[v] = v < mine ? __ldg(from + v * task.x_column) : T(0);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) sums[v] += value * entries[v];
      });
    for (int step = threads / 2; step >= across; step /= 2)
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += __shfl_xor_sync(0xffffffffu, sums[v], step);
    if (row >= 0 && part == 0) {
      T* const y = task.y + row * task.y_row + j * task.y_column;
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (side_by_side || v < mine) store(task.alpha, sums[v], task.beta, y + v * task.y_column);
    }
  }
}

// split: the parts of a row, a power of two up to 32. It does not depend on the number of vectors, so that the bits of
// a vector do not either. most: the most vectors of a thread, 4 or 8. Eight pay if reading or decoding an entry costs
// much.
template <int most, class T, class View>
void multi_rows_on_device(const Context& context, const View& view, int split, T alpha,
                          const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  const DeviceState& state = context.device_state();
  const std::int64_t positions = view.positions();
  if (positions == 0 || X.columns == 0) return;
  const auto pass = [&](auto vectors, auto side_by_side, const MultiDeviceTask<T>& task) {
    constexpr int V = decltype(vectors)::value;
    const int across = std::bit_ceil(static_cast<unsigned>(task.columns + V - 1) / V);
    const int rows = device::block_size / (across * split);
    const std::int64_t pieces = (positions + rows - 1) / rows;
    device::launch(state, multi_rows_kernel<V, decltype(side_by_side)::value, T, View>,
                   product_blocks(state, pieces, false), device::block_size, view, across, split, task);
  };
  const auto passes = [&](auto vectors) {
    constexpr int V = decltype(vectors)::value;
    constexpr std::size_t bytes = std::min<std::size_t>(bytes_of_load, V * sizeof(T));
    const std::int64_t width = V * (32 / split);
    for (std::int64_t first = 0; first < X.columns; first += width) {
      const int columns = static_cast<int>(std::min(width, X.columns - first));
      const MultiVectorView<const T> x = X.part(first, columns);
      const MultiVectorView<T> y = Y.part(first, columns);
      const MultiDeviceTask<T> task{alpha,           beta,         x.data,          y.data,  x.row_step(),
                                    x.column_step(), y.row_step(), y.column_step(), columns, state.stop};
      if (x.column_step() == 1 && columns % V == 0 && x.row_step() % V == 0 &&
          reinterpret_cast<std::uintptr_t>(x.data) % bytes == 0)
        pass(vectors, std::true_type(), task);
      else
        pass(vectors, std::false_type(), task);
    }
  };
  if (X.columns > 4 && most > 4)
    passes(std::integral_constant<int, most>());
  else if (X.columns > 2)
    passes(std::integral_constant<int, 4>());
  else
    passes(std::integral_constant<int, 2>());
}

// In multi_rows.cu.
template <class T, class P>
void multi_csr_on_device(const Context& context, const CsrArrays<T, P>& csr, std::int64_t nonzeros, T alpha,
                         const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y);
template <class T>
void multi_slices_on_device(const Context& context, const SliceView<T>& slices, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y);
template <class T>
void multi_blocks_on_device(const Context& context, const BlockGrid<T>& blocks, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y);

}  // namespace protean::formats
