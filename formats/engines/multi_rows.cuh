// The device side of multi_rows.hpp: neighbouring threads multiply one row by neighbouring vectors. They read the same entry,
// which is one access for all of them, and the entries of X in its row, which lie side by side in interleaved vectors. A thread
// has one sum, so the number of vectors costs no registers. The entries of a row are added one after another, or in `split`
// parts of fixed order. Private to formats/.
#pragma once
#include "core/device/kernel_tools.cuh"
#include "core/multi_vector.hpp"
#include "formats/device_support.cuh"
#include "formats/private/csr_arrays.cuh"

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

// for_products(view, p, part, split, f) calls f(column, value) for the row at position p, with fill where a format stores it.
// Thread `part` of `split` takes its share of the entries; where a view cannot divide a row, split is 1.

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

template <class T, class View>
__global__ void __launch_bounds__(device::block_size)
    multi_rows_kernel(View view, int split, MultiDeviceTask<T> task) {
  if (device::stopped(task.stop)) return;
  const int threads = task.columns * split, rows = device::block_size / threads;
  const int r = static_cast<int>(threadIdx.x) / threads, inner = static_cast<int>(threadIdx.x) % threads;
  const int part = inner / task.columns, j = inner % task.columns;
  const T* const x = task.x + j * task.x_column;
  const std::int64_t positions = view.positions();
  // All threads of a block do the same number of rounds, since the lanes of a warp exchange sums.
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows; first < positions;
       first += std::int64_t{gridDim.x} * rows) {
    const std::int64_t p = first + r;
    const std::int64_t row = r < rows && p < positions ? view.row(p) : -1;
    T sum = 0;
    if (row >= 0)
      for_products(view, p, part, split,
                   [&](std::int32_t col, T value) { sum += value * __ldg(x + col * task.x_row); });
    for (int step = threads / 2; step >= task.columns && split > 1; step /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (row >= 0 && part == 0)
      store(task.alpha, sum, task.beta, task.y + row * task.y_row + j * task.y_column);
  }
}

// split: a power of two. It is used where columns * split is one too, and at most a warp.
template <class T, class View>
void multi_rows_on_device(const Context& context, const View& view, int split, T alpha,
                          const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  const DeviceState& state = context.device_state();
  const std::int64_t positions = view.positions();
  if (positions == 0) return;
  for (std::int64_t first = 0; first < X.columns; first += device::block_size) {
    const int columns = static_cast<int>(std::min<std::int64_t>(device::block_size, X.columns - first));
    const MultiVectorView<const T> x = X.part(first, columns);
    const MultiVectorView<T> y = Y.part(first, columns);
    const bool power = (columns & (columns - 1)) == 0;
    int share = power ? split : 1;
    while (share > 1 && share * columns > 32) share /= 2;
    const int rows = device::block_size / (columns * share);
    const std::int64_t pieces = (positions + rows - 1) / rows;
    device::launch(state, multi_rows_kernel<T, View>, product_blocks(state, pieces, false),
                   device::block_size, view, share,
                   MultiDeviceTask<T>{alpha, beta, x.data, y.data, x.row_step(), x.column_step(),
                                      y.row_step(), y.column_step(), columns, state.stop});
  }
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
