// Products with CSR arrays in device memory in tiles of the same number of entries, a block each. Private to formats/.
//
//   entries   | 1 2 3 4 | 5 6 7 8 | 9         tiles of 4 entries
//   rows      | 0 0 0 1 | 1 1 1 1 | 2
//   start.row   0         2         2  3      the first row that begins in each tile
//
//   1. Each thread multiplies `tile_steps` entries by their x. The entries of a step are neighbours, so they are loaded
//      together whatever the row lengths are. The products go to shared memory.
//   2. Groups of threads add the products of the rows. The more rows a tile has, the fewer threads a row gets.
//   3. A tile writes the rows that begin in it. Of the row that began before, it leaves a carry: the sum of its part. A
//      second launch adds the carries in the order of the tiles (runs.cuh). So the order of the sums is fixed.
//
// If very many rows without entries lie in one tile, tiles are `weighted`: rows_an_entry rows then count as much as an
// entry. Entry k of row r has position k + r / rows_an_entry, and tile t has the entries at positions t tile_entries
// and up.
#pragma once
#include <algorithm>

#include "core/bisect.hpp"
#include "formats/engines/rows/csr_arrays.cuh"
#include "formats/engines/runs/runs.cuh"
#include "formats/engines/view/expand.cuh"

namespace protean::formats {

// Of 64 to 256 threads and 2 to 10 steps, these were the fastest on most of 27 matrices on an H200.
constexpr int tile_threads = 128, tile_steps = 5, tile_entries = tile_threads * tile_steps;
constexpr int rows_an_entry = 8;
// The most rows that a tile may have before tiles are weighted.
constexpr std::int64_t most_tile_rows = 16 * tile_entries;

// Where a tile begins. Without weights, entry is t tile_entries.
struct alignas(16) TileStart {
  std::int64_t row, entry;
};

inline std::int64_t entry_tile_count(std::int64_t rows, std::int64_t nonzeros, bool weighted) {
  return weighted ? (nonzeros + rows / rows_an_entry) / tile_entries + 1
                  : (nonzeros + tile_entries - 1) / tile_entries;
}
inline std::size_t entry_tile_bytes(std::int64_t rows, std::int64_t nonzeros, bool weighted,
                                    std::size_t value_bytes) {
  const auto tiles = static_cast<std::size_t>(entry_tile_count(rows, nonzeros, weighted));
  return (tiles + 1) * sizeof(TileStart) + tiles * value_bytes;
}

template <bool weighted, class P>
__device__ inline TileStart start_of_tile(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros,
                                          std::int64_t tiles, std::int64_t t) {
  if (t == 0) return {0, 0};
  if (t == tiles) return {rows, nonzeros};
  const std::int64_t position = t * tile_entries;
  if (!weighted) return {first_not_below(row_ptr, rows, position), position};
  const std::int64_t row = first_where(
      std::int64_t{0}, rows, [&](std::int64_t r) { return row_ptr[r] + r / rows_an_entry >= position; });
  // The tile may begin within the row before.
  const std::int64_t entry = position - (row - 1) / rows_an_entry;
  return {row, min(max(entry, static_cast<std::int64_t>(row_ptr[row - 1])),
                   static_cast<std::int64_t>(row_ptr[row]))};
}

template <bool weighted, class P>
__global__ void start_tiles(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros, std::int64_t tiles,
                            TileStart* start) {
  device::wait_for_stream();
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t <= tiles) start[t] = start_of_tile<weighted>(row_ptr, rows, nonzeros, tiles, t);
}

// *most := the largest number of rows that begin in a tile without weights.
template <class P>
__global__ void count_tile_rows(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros,
                                std::int64_t tiles, unsigned long long* most) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= tiles) return;
  const auto count =
      static_cast<unsigned long long>(start_of_tile<false>(row_ptr, rows, nonzeros, tiles, t + 1).row -
                                      start_of_tile<false>(row_ptr, rows, nonzeros, tiles, t).row);
  if (count > *most) atomicMax(most, count);
}

// The matrix as a product reads it. There is at least one entry.
template <class T, class P>
struct EntryTileView {
  CsrArrays<T, P> csr;
  std::int64_t nonzeros;
  const TileStart* start;
  T* carry;  // [tiles]
};

// Tables do not change while products run.
__device__ inline std::int64_t first_row(const TileStart* start, std::int64_t t) {
  return __ldg(reinterpret_cast<const long long*>(start + t));
}

// The row of the carry of a tile.
template <bool weighted, class T, class P>
struct TileCarryRow {
  EntryTileView<T, P> a;
  __device__ std::int64_t operator()(std::int64_t t) const {
    const std::int64_t row = a.start[t].row, entry = weighted ? a.start[t].entry : t * tile_entries;
    return row > 0 && a.csr.row_ptr[row] > entry ? row - 1 : -1;
  }
};

// All threads of the block call it. False when the solve has ended: nothing has been written then. The flag is read
// late: read at the beginning, it took a tenth of the time of a product.
template <bool weighted, bool dot, class T, class P>
__device__ inline bool multiply_entry_tile(const EntryTileView<T, P>& a, std::int64_t t,
                                           const ProductTask<T>& task, T (&dots)[1]) {
  __shared__ T products[tile_entries];
  const int thread = threadIdx.x;
  const std::int64_t begin = weighted ? a.start[t].entry : t * tile_entries;
  const std::int64_t end = weighted ? a.start[t + 1].entry : min(begin + tile_entries, a.nonzeros);
  const int count = static_cast<int>(end - begin);
  // Past the end of the last tile, the last entry is loaded again, so that no load waits for a condition. A weighted
  // tile may have no entry at all.
  const std::int64_t first = weighted ? min(begin, a.nonzeros - 1) : begin;
  const int last = weighted ? max(count - 1, 0) : count - 1;
  const std::int32_t* const col = a.csr.col + first;
  const T* const values = a.csr.values + first;
  std::int32_t c[tile_steps];
  T v[tile_steps];
#pragma unroll
  for (int j = 0; j < tile_steps; ++j) {
    const int k = min(thread + j * tile_threads, last);
    c[j] = __ldcs(col + k), v[j] = __ldcs(values + k);
  }
  // Number 0 is the row that began before; before row 0 there is no such row.
  const std::int64_t row_before = first_row(a.start, t) - 1;
  const auto rows = static_cast<int>(first_row(a.start, t + 1) - row_before);
  int lanes = 1;
  while (lanes < 32 && 2 * lanes * rows <= tile_threads) lanes *= 2;
  const int lane = thread % lanes;
  int number = thread / lanes, k = 0, row_end = 0;
  const auto find_row = [&] {
    const std::int64_t row = row_before + number;
    k = row_end = 0;
    if (number >= rows || row < 0) return;
    k = static_cast<int>(max(static_cast<std::int64_t>(__ldg(a.csr.row_ptr + row)) - begin, std::int64_t{0}));
    row_end = static_cast<int>(
        min(static_cast<std::int64_t>(__ldg(a.csr.row_ptr + row + 1)) - begin, std::int64_t{count}));
  };
  find_row();
#pragma unroll
  for (int j = 0; j < tile_steps; ++j) v[j] *= __ldg(task.x + c[j]);
#pragma unroll
  for (int j = 0; j < tile_steps; ++j) products[thread + j * tile_threads] = v[j];
  const bool ended = task.stop && *task.stop;
  __syncthreads();
  if (ended) return false;
  for (int done = 0;;) {
    T sum = 0;
    for (int i = k + lane; i < row_end; i += lanes) sum += products[i];
    // All threads take part in the shuffles.
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (number < rows && lane == 0) {
      const std::int64_t row = row_before + number;
      if (number == 0)
        a.carry[t] = sum;
      else
        store(task.alpha, sum, task.beta, task.y + row);
      // Every part of a row adds its part of x . y.
      if (dot && row >= 0) dots[0] += __ldg(task.x + row) * sum;
    }
    done += tile_threads / lanes;
    if (done >= rows) return true;
    number += tile_threads / lanes;
    find_row();
  }
}

template <bool weighted, class T, class P>
__global__ void __launch_bounds__(tile_threads)
    entry_tile_product(EntryTileView<T, P> a, ProductTask<T> task) {
  device::wait_for_stream();
  T dots[1];
  multiply_entry_tile<weighted, false>(a, blockIdx.x, task, dots);
}

template <bool weighted, class T, class P>
__global__ void __launch_bounds__(tile_threads)
    entry_tile_product_dot(EntryTileView<T, P> a, std::int64_t tiles, ProductTask<T> task) {
  device::wait_for_stream();
  T dots[1] = {};
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    if (!multiply_entry_tile<weighted, true>(a, t, task, dots)) return;
    __syncthreads();  // the products of this tile have been read
  }
  device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// The blocks of a product that reduces: as many as the device holds, each of which leaves a partial sum.
inline std::int64_t reducing_tile_blocks(const DeviceState& state, std::int64_t tiles) {
  constexpr int threads_of_processor = 2048;
  return std::min({tiles, std::int64_t{DeviceState::max_blocks},
                   std::int64_t{state.processors} * (threads_of_processor / tile_threads)});
}

// The starts and carries of the tiles of a CSR matrix with entries.
template <class T>
class EntryTiles {
 public:
  EntryTiles() = default;
  EntryTiles(const ContextPtr& context, const SparsityPattern& pattern, bool weighted)
      : tiles_(entry_tile_count(pattern.rows, pattern.nonzeros, weighted)),
        start_(context, tiles_ + 1),
        carry_(context, tiles_),
        weighted_(weighted) {
    pattern.row_ptr.visit([&](auto* row_ptr) {
      with_weights([&](auto weighted_too) {
        using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
        device::launch(context->device_state(), start_tiles<weighted_too(), P>, blocks_of(tiles_ + 1),
                       device::block_size, row_ptr, pattern.rows, pattern.nonzeros, tiles_, start_.data());
      });
    });
  }
  std::size_t bytes() const noexcept { return start_.bytes() + carry_.bytes(); }

  // y := alpha A x + beta y. A product overwrites the carries.
  void multiply(const DeviceState& state, const CsrMatrix<T>& csr, T alpha, const T* x, T beta, T* y) const {
    with_view(csr, [&](auto weighted, auto view) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(view.csr.row_ptr)>>;
      device::launch(state, entry_tile_product<weighted(), T, P>, tiles_, tile_threads, view,
                     ProductTask<T>{.alpha = alpha, .x = x, .beta = beta, .y = y, .stop = state.stop});
      add_carries(state, weighted, view, alpha, y);
    });
  }
  // y := A x and *result := x . y
  void multiply_dot(const Context& context, const CsrMatrix<T>& csr, const T* x, T* y, T* result) const {
    const DeviceState& state = context.device_state();
    const std::int64_t blocks = reducing_tile_blocks(state, tiles_);
    const auto sums = device::sums_into<1>(context, blocks, result);
    with_view(csr, [&](auto weighted, auto view) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(view.csr.row_ptr)>>;
      device::launch(state, entry_tile_product_dot<weighted(), T, P>, blocks, tile_threads, view, tiles_,
                     ProductTask<T>{T(1), x, T(0), y, sums.parts, sums.arrived, sums.result, state.stop});
      add_carries(state, weighted, view, T(1), y);
    });
  }

 private:
  template <class F>
  void with_weights(F&& f) const {
    if (weighted_)
      f(std::true_type());
    else
      f(std::false_type());
  }
  template <class F>
  void with_view(const CsrMatrix<T>& csr, F&& f) const {
    with_weights([&](auto weighted) {
      csr.pattern.row_ptr.visit([&](auto* row_ptr) {
        using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
        const CsrArrays<T, P> arrays{csr.rows(), row_ptr, csr.pattern.col, csr.values};
        // The carries are workspace of the product.
        f(weighted,
          EntryTileView<T, P>{arrays, csr.nonzeros(), start_.data(), const_cast<T*>(carry_.data())});
      });
    });
  }
  template <class Weighted, class P>
  void add_carries(const DeviceState& state, Weighted, const EntryTileView<T, P>& view, T alpha, T* y) const {
    if (tiles_ > 1)
      launch_add_carries(state, TileCarryRow<Weighted::value, T, P>{view}, tiles_, view.carry, alpha, y);
  }

  std::int64_t tiles_ = 0;
  Buffer<TileStart> start_;
  Buffer<T> carry_;
  bool weighted_ = false;
};

}  // namespace protean::formats
