// Kernel merge of csr on the device, on the arrays of csr.cu. The row ends and the entries are merged into one list of
// rows + nonzeros steps, which is cut into tiles of merge_tile steps for a block and of merge_steps steps for a thread.
// So neither long rows nor many empty rows delay a thread.
//
// A product takes three launches: the search finds the row in which each tile begins; the product writes the rows that
// end in a tile; the fix-up adds the parts of rows that began in earlier tiles (engines/runs/runs.cuh). The order of
// the sums is fixed.
//
// Workspace of a matrix, part of bytes() but not of what csr admits: 4 bytes and a value for each tile.
// Source: D. Merrill, M. Garland, Merge-based parallel sparse matrix-vector multiplication, SC 2016,
//   doi:10.1109/SC.2016.57.
#include <algorithm>

#include "core/bisect.hpp"
#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/runs/runs.cuh"

namespace protean::formats {
namespace {

constexpr int merge_threads = 128, merge_steps = 7, merge_tile = merge_threads * merge_steps;

// first_row[t] := the rows that have ended before tile t, for t = 0 .. tiles.
template <class P>
__global__ void merge_search(std::int64_t rows, std::int64_t nonzeros, const P* row_ptr, std::int64_t tiles,
                             std::int32_t* first_row, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t > tiles) return;
  const std::int64_t step = min(t * merge_tile, rows + nonzeros);
  first_row[t] = static_cast<std::int32_t>(merged_rows(row_ptr, rows, nonzeros, step));
}

// The row that is open where a tile ends, if some of its entries have passed.
template <class P>
struct MergeCarryRow {
  const std::int32_t* first_row;
  const P* row_ptr;
  std::int64_t rows, nonzeros;
  __device__ std::int64_t operator()(std::int64_t t) const {
    const std::int64_t row = first_row[t + 1];
    if (row >= rows) return -1;
    return row_ptr[row] < min((t + 1) * merge_tile, rows + nonzeros) - row ? row : -1;
  }
};

template <class T, class P>
__global__ void __launch_bounds__(merge_threads)
    merge_product(CsrArrays<T, P> a, std::int64_t nonzeros, const std::int32_t* first_row, T* carry, T alpha,
                  const T* __restrict__ x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  // ends[r]: the entries of the tile before the end of its row r. The row after the last one does not end.
  __shared__ std::int32_t ends[merge_tile + 1];
  __shared__ T products[merge_tile];  // of the entries; later the sums of the rows
  const int thread = threadIdx.x;
  const std::int64_t tile = blockIdx.x, row = first_row[tile], row_end = first_row[tile + 1];
  const std::int64_t entry = tile * merge_tile - row;
  const int rows = static_cast<int>(row_end - row);
  const int entries = static_cast<int>(min((tile + 1) * merge_tile, a.rows + nonzeros) - row_end - entry);
  for (int r = thread; r < rows; r += merge_threads)
    ends[r] = static_cast<std::int32_t>(__ldg(a.row_ptr + row + 1 + r) - entry);
  if (thread == 0) ends[rows] = merge_tile + 1;
  std::int32_t c[merge_steps];
  T v[merge_steps];
#pragma unroll
  for (int j = 0; j < merge_steps; ++j)
    if (const int i = j * merge_threads + thread; i < entries)
      c[j] = __ldcs(a.col + entry + i), v[j] = __ldcs(a.values + entry + i);
#pragma unroll
  for (int j = 0; j < merge_steps; ++j)
    if (const int i = j * merge_threads + thread; i < entries) products[i] = v[j] * __ldg(x + c[j]);
  __syncthreads();

  // This thread's steps. sums[j] is the sum of the row that ends in step j.
  const int steps = rows + entries, step = min(thread * merge_steps, steps);
  const int count = min(merge_steps, steps - step);
  const int first_ended = first_where(max(0, step - entries), min(step, rows),
                                      [&](int row) { return ends[row] > step - row - 1; });
  int r = first_ended, k = step - r;
  T sum = 0, sums[merge_steps];
  unsigned ended = 0;
#pragma unroll
  for (int j = 0; j < merge_steps; ++j) {
    sums[j] = 0;
    if (j >= count) continue;
    if (k < ends[r]) {
      sum += products[k++];
    } else {
      sums[j] = sum, sum = 0, ended |= 1u << j, ++r;
    }
  }
  // After this call all threads have read their products.
  const BlockCarry<T> open = carry_in_block<merge_threads>(sum, threads_since_end<merge_threads>(ended != 0));
  r = first_ended;
#pragma unroll
  for (int j = 0; j < merge_steps; ++j)
    if (ended >> j & 1) {
      products[r] = r == first_ended ? open.before + sums[j] : sums[j];
      ++r;
    }
  __syncthreads();
  for (int i = thread; i < rows; i += merge_threads) store(alpha, products[i], beta, y + row + i);
  if (thread == 0) carry[tile] = open.last;
}

template <class T>
class CsrMerge final : public CsrOnDevice<T> {
 public:
  explicit CsrMerge(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request),
        first_row_(request.context, tiles_of(request.csr) + 1),
        carry_(request.context, tiles_of(request.csr)) {}
  std::size_t bytes() const noexcept override {
    return this->csr_.bytes() + first_row_.bytes() + carry_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::int64_t tiles = carry_.size();
    if (tiles == 0) return;
    const DeviceState& state = this->context()->device_state();
    auto* const first_row = const_cast<std::int32_t*>(first_row_.data());
    T* const carry = const_cast<T*>(carry_.data());
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& a) {
      device::launch(state, merge_search<P>, blocks_of(tiles + 1), device::block_size, a.rows,
                     this->nonzeros(), a.row_ptr, tiles, first_row, state.stop);
      device::launch(state, merge_product<T, P>, tiles, merge_threads, a, this->nonzeros(), first_row, carry,
                     alpha, x.data, beta, y.data, state.stop);
      if (tiles > 1)
        launch_add_carries(state, MergeCarryRow<P>{first_row, a.row_ptr, a.rows, this->nonzeros()}, tiles,
                           carry, alpha, y.data);
    });
  }

 private:
  static std::int64_t tiles_of(const CsrMatrix<T>& csr) {
    return (csr.rows() + csr.nonzeros() + merge_tile - 1) / merge_tile;
  }
  // Written by each product.
  Buffer<std::int32_t> first_row_;
  Buffer<T> carry_;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_csr_merge(const BuildRequest<T>& request) {
  return std::make_unique<CsrMerge<T>>(request);
}
template std::unique_ptr<AssembledMatrix<double>> make_csr_merge<double>(const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_csr_merge<float>(const BuildRequest<float>&);

}  // namespace protean::formats
