// Products whose work is balanced for any row lengths. Blocks get tiles of whole rows with about the same
// number of rows + entries each; rows count because an empty one must be written, too. A row too long for a
// tile is cut into pieces of its own. The block of a tile multiplies its entries side by side into shared
// memory, then sums the rows there: one thread for a short row, one warp for a longer one. The last block
// that finishes a piece of a long row adds the pieces in their order. So every sum has a fixed order,
// whatever runs first, and no block waits for another.
//
// tile  [tiles + 1]: tile t holds the rows whose row_ptr[r] + r lies in [t, t + 1) tile_items; a long row,
//       which can only be the last of its tile, is left out.
// piece [pieces]: piece_entries of a long row each, the pieces of a row side by side.
//
// Source: J. Greathouse, M. Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
// format, SC 2014, doi:10.1109/SC.2014.68 (tiles in shared memory); D. Merrill, M. Garland, Merge-based
// parallel sparse matrix-vector multiplication, SC 2016, doi:10.1109/SC.2016.57 (rows + entries as the
// measure).
#pragma once
#include <algorithm>

#include "core/bisect.hpp"
#include "core/device/primitives.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/runs.cuh"

namespace protean::formats {

constexpr int tile_threads = 128, tile_items = 1024, piece_entries = 2 * tile_items;
// Rows up to this length are summed by one thread.
constexpr int short_row = 16;

struct alignas(16) RowTile {
  std::int64_t entry;
  std::int32_t row;
  std::uint16_t rows, entries;
};

template <class T>
struct RowTilesView {
  const RowTile* tile;
  const RowPiece* piece;
  std::int64_t tiles, pieces;
  T* partial;         // [pieces]
  unsigned* arrived;  // [pieces], 0 between products
};

__host__ __device__ inline std::int64_t pieces_of_row(std::int64_t length) {
  return length > tile_items ? (length + piece_entries - 1) / piece_entries : 0;
}

template <class P>
__global__ void count_pieces(std::int64_t rows, const P* row_ptr, unsigned long long* count) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  if (const std::int64_t pieces = pieces_of_row(row_ptr[row + 1] - row_ptr[row]))
    atomicAdd(count, static_cast<unsigned long long>(pieces));
}

template <class P>
__global__ void fill_tiles(std::int64_t rows, const P* row_ptr, std::int64_t tiles, RowTile* tile) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= tiles) return;
  const auto first_row = [&](std::int64_t step) {
    return first_where(std::int64_t{0}, rows, [&](std::int64_t r) { return row_ptr[r] + r >= step; });
  };
  const std::int64_t row = first_row(t * tile_items);
  std::int64_t end = first_row((t + 1) * tile_items);
  if (end > row && row_ptr[end] - row_ptr[end - 1] > tile_items) --end;
  tile[t] = {static_cast<std::int64_t>(row_ptr[row]), static_cast<std::int32_t>(row),
             static_cast<std::uint16_t>(end - row), static_cast<std::uint16_t>(row_ptr[end] - row_ptr[row])};
}

// The place of a row's pieces among all pieces differs from run to run. The sums do not depend on it.
template <class P>
__global__ void fill_pieces(std::int64_t rows, const P* row_ptr, unsigned long long* next, RowPiece* piece) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const std::int64_t begin = row_ptr[row], end = row_ptr[row + 1], count = pieces_of_row(end - begin);
  if (count == 0) return;
  const auto first = static_cast<std::int64_t>(atomicAdd(next, static_cast<unsigned long long>(count)));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t entry = begin + i * piece_entries;
    piece[first + i] = {entry, static_cast<std::int32_t>(row),
                        static_cast<std::int32_t>(end - entry < piece_entries ? end - entry : piece_entries),
                        static_cast<std::int32_t>(first), static_cast<std::int32_t>(count)};
  }
}

inline std::int64_t tiles_of(std::int64_t rows, std::int64_t entries) {
  return (rows + entries + tile_items - 1) / tile_items;
}
inline std::size_t tile_bytes(std::int64_t rows, std::int64_t entries, std::int64_t pieces,
                              std::size_t value_bytes) {
  return static_cast<std::size_t>(tiles_of(rows, entries)) * sizeof(RowTile) +
         static_cast<std::size_t>(pieces) * (sizeof(RowPiece) + value_bytes + sizeof(unsigned));
}

// The number of pieces of the long rows of a pattern. The host waits for the result.
template <class P>
std::int64_t pieces_of(const Context& context, std::int64_t rows, const P* row_ptr) {
  if (rows == 0) return 0;
  device::Scratch<unsigned long long> count(context, 1);
  const cudaStream_t stream = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(count.data(), 0, count.bytes(), stream));
  count_pieces<<<blocks_of(rows, 256), 256, 0, stream>>>(rows, row_ptr, count.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return static_cast<std::int64_t>(read_back(context, count.data()));
}

template <class T>
class RowTiles {
 public:
  RowTiles() = default;
  template <class P>
  RowTiles(const ContextPtr& context, std::int64_t rows, std::int64_t entries, const P* row_ptr,
           std::int64_t pieces)
      : tile_(context, tiles_of(rows, entries)),
        piece_(context, pieces),
        partial_(context, pieces),
        arrived_(context, pieces) {
    const cudaStream_t stream = device::stream(*context);
    if (!tile_.empty())
      fill_tiles<<<blocks_of(tile_.size(), 128), 128, 0, stream>>>(rows, row_ptr, tile_.size(), tile_.data());
    if (pieces > 0) {
      device::Scratch<unsigned long long> next(*context, 1);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(next.data(), 0, next.bytes(), stream));
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), stream));
      fill_pieces<<<blocks_of(rows, 256), 256, 0, stream>>>(rows, row_ptr, next.data(), piece_.data());
    }
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::size_t bytes() const noexcept {
    return tile_.bytes() + piece_.bytes() + partial_.bytes() + arrived_.bytes();
  }
  // A product writes to the workspace, but leaves it as it was before.
  RowTilesView<T> view() const {
    return {tile_.data(),
            piece_.data(),
            tile_.size(),
            piece_.size(),
            const_cast<T*>(partial_.data()),
            const_cast<unsigned*>(arrived_.data())};
  }

 private:
  Buffer<RowTile> tile_;
  Buffer<RowPiece> piece_;
  Buffer<T> partial_;
  Buffer<unsigned> arrived_;
};

// Calls body(i, values[entry + i] * x[col[entry + i]]) for i in 0..count-1. The threads of a block share the
// work, with several loads of each in flight.
template <class T, class Body>
__device__ inline void each_entry(const std::int32_t* col, const T* values, int count, const T* x,
                                  Body body) {
  constexpr int batch = 8;
  for (int first = threadIdx.x; first < count; first += batch * tile_threads) {
    std::int32_t c[batch];
    T v[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (const int i = first + j * tile_threads; i < count)
        c[j] = __ldcs(col + i), v[j] = __ldcs(values + i);
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (const int i = first + j * tile_threads; i < count) v[j] *= __ldg(x + c[j]);
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (const int i = first + j * tile_threads; i < count) body(i, v[j]);
  }
}

// A source of entries has `col` and `values`; find_rows(tile, start), called by all threads of a block, which
// sets start[r] to the first entry of the tile's row r, counted from the tile's first, for r = 0 ..
// tile.rows; and more(row, first, step, x), the sum that lane `first` of `step` adds to a row besides.
template <bool with_dot, class T, class Source>
__global__ void __launch_bounds__(tile_threads)
    tile_product(Source A, RowTilesView<T> tiles, T alpha, const T* x, T beta, T* y, double* partials,
                 unsigned* arrived, T* result, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T products[2 * tile_items];
  __shared__ std::uint16_t start[tile_items + 1];
  __shared__ std::uint16_t longer[2 * tile_items / short_row];
  __shared__ int longer_count;
  __shared__ bool last;
  T dots[1] = {};
  const int thread = threadIdx.x, lane = thread % 32;
  for (std::int64_t item = blockIdx.x; item < tiles.pieces + tiles.tiles; item += gridDim.x) {
    if (item < tiles.pieces) {
      const RowPiece piece = tiles.piece[item];
      T sum[1] = {};
      each_entry(A.col + piece.entry, A.values + piece.entry, piece.entries, x,
                 [&](int, T product) { sum[0] += product; });
      if (item == piece.first) sum[0] += A.more(piece.row, thread, tile_threads, x);
      device::sum_block<1>(sum);
      if (thread == 0) {
        if constexpr (with_dot) dots[0] += x[piece.row] * sum[0];
        tiles.partial[item] = sum[0];
        __threadfence();
        last = atomicAdd(tiles.arrived + piece.first, 1u) == static_cast<unsigned>(piece.count) - 1;
      }
      __syncthreads();
      if (last) {
        __threadfence();
        sum[0] = 0;
        for (int i = thread; i < piece.count; i += tile_threads)
          sum[0] += __ldcg(tiles.partial + piece.first + i);
        device::sum_block<1>(sum);
        if (thread == 0) {
          tiles.arrived[piece.first] = 0;
          store(alpha, sum[0], beta, y + piece.row);
        }
      }
    } else {
      const RowTile tile = tiles.tile[item - tiles.pieces];
      if (thread == 0) longer_count = 0;
      A.find_rows(tile, start);
      each_entry(A.col + tile.entry, A.values + tile.entry, tile.entries, x,
                 [&](int i, T product) { products[i] = product; });
      __syncthreads();
      for (int r = thread; r < tile.rows; r += tile_threads) {
        const int begin = start[r], end = start[r + 1];
        if (end - begin > short_row) {
          longer[atomicAdd(&longer_count, 1)] = static_cast<std::uint16_t>(r);
          continue;
        }
        const std::int64_t row = tile.row + r;
        T sum = A.more(row, 0, 1, x);
        for (int i = begin; i < end; ++i) sum += products[i];
        store(alpha, sum, beta, y + row);
        if constexpr (with_dot) dots[0] += x[row] * sum;
      }
      __syncthreads();
      for (int k = thread / 32; k < longer_count; k += tile_threads / 32) {
        const int r = longer[k], begin = start[r], end = start[r + 1];
        T sum = A.more(tile.row + r, lane, 32, x);
        for (int i = begin + lane; i < end; i += 32) sum += products[i];
        sum = device::sum_lanes(sum);
        if (lane == 0) {
          store(alpha, sum, beta, y + tile.row + r);
          if constexpr (with_dot) products[begin] = x[tile.row + r] * sum;
        }
      }
      if constexpr (with_dot) {
        // The order of `longer` differs from run to run, so its rows are added by row.
        __syncthreads();
        for (int r = thread; r < tile.rows; r += tile_threads)
          if (start[r + 1] - start[r] > short_row) dots[0] += products[start[r]];
      }
    }
    __syncthreads();
  }
  if constexpr (with_dot) device::finish_reduction<1>(dots, partials, arrived, result);
}

template <class T, class Source>
void multiply_tiles(const Context& context, const Source& A, const RowTilesView<T>& tiles, T alpha,
                    const T* x, T beta, T* y) {
  const DeviceState& state = context.device_state();
  const std::int64_t items = tiles.tiles + tiles.pieces;
  if (items == 0) return;
  tile_product<false><<<static_cast<unsigned>(items), tile_threads, 0, state.stream>>>(
      A, tiles, alpha, x, beta, y, nullptr, nullptr, static_cast<T*>(nullptr), state.stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// y := A x, result[0] := x . y
template <class T, class Source>
void multiply_tiles_dot(const Context& context, const Source& A, const RowTilesView<T>& tiles, const T* x,
                        T* y, T* result) {
  const DeviceState& state = context.device_state();
  const std::int64_t most =
      std::min<std::int64_t>(std::int64_t{state.processors} * 12, DeviceState::max_blocks);
  const std::int64_t blocks = std::clamp<std::int64_t>(tiles.tiles + tiles.pieces, 1, most);
  const auto sums = device::sums_into<1>(context, blocks, result);
  device::launch(state, tile_product<true, T, Source>, blocks, tile_threads, A, tiles, T(1), x, T(0), y,
                 sums.parts, sums.arrived, sums.result, state.stop);
}

}  // namespace protean::formats
