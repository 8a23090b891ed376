// Products whose work is balanced for varying row lengths: a warp takes whole rows with about tile_step rows + entries. It
// multiplies its entries side by side into shared memory, then sums the rows there: a lane for a row of up to lane_row
// entries, the whole warp for a longer one. Nothing is exchanged between warps, and no block waits at a barrier. A row too
// long for a tile is cut into pieces of its own; the last warp that finishes a piece adds all of them in their order.
//
// tile  [tiles]: the rows whose row_ptr[r] + r lies in [t, t + 1) tile_step; a long row, which can only be the last one
//       of its tile, is left out.
// piece [pieces]: row_piece entries of a long row each, the pieces of a row side by side.
//
// Source: J. Greathouse, M. Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage format, SC 2014,
// doi:10.1109/SC.2014.68 (products through shared memory, there for blocks); D. Merrill, M. Garland, Merge-based parallel
// sparse matrix-vector multiplication, SC 2016, doi:10.1109/SC.2016.57 (rows + entries as the measure).
#pragma once
#include <algorithm>

#include "core/device/primitives.hpp"
#include "formats/private/csr_arrays.cuh"
#include "formats/private/expand.cuh"

namespace protean::formats {

// A tile has fewer than tile_step + tile_size entries, mostly fewer than tile_size, which a warp loads at once.
constexpr int tile_loads = 8, tile_size = 32 * tile_loads, tile_step = tile_size - 24;
constexpr int lane_row = 24, row_piece = 4 * tile_size;
constexpr int tile_warps = 4;  // of a block

struct alignas(16) WarpTile {
  std::int64_t entry;
  std::int32_t row;
  std::uint16_t rows, entries;
};
struct LongRowPiece {
  std::int64_t entry;
  std::int32_t row, entries;
  std::int32_t first, count;  // the pieces of this row
};

template <class T>
struct WarpTilesView {
  const WarpTile* tile;
  const LongRowPiece* piece;
  std::int64_t tiles, pieces;
  T* partial;         // [pieces]
  unsigned* arrived;  // [pieces], 0 between products
};

__host__ __device__ inline std::int64_t pieces_of_long_row(std::int64_t length) {
  return length >= tile_size ? (length + row_piece - 1) / row_piece : 0;
}

template <class P>
__global__ void count_long_pieces(std::int64_t rows, const P* row_ptr, unsigned long long* count) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  if (const std::int64_t pieces = pieces_of_long_row(row_ptr[row + 1] - row_ptr[row]))
    atomicAdd(count, static_cast<unsigned long long>(pieces));
}

// The first row r with row_ptr[r] + r >= step.
template <class P>
__device__ inline std::int64_t first_row_of_step(std::int64_t rows, const P* row_ptr, std::int64_t step) {
  std::int64_t low = 0, high = rows;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (row_ptr[middle] + middle < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class P>
__global__ void fill_warp_tiles(std::int64_t rows, const P* row_ptr, std::int64_t tiles, WarpTile* tile) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= tiles) return;
  const std::int64_t row = first_row_of_step(rows, row_ptr, t * tile_step);
  std::int64_t end = first_row_of_step(rows, row_ptr, (t + 1) * tile_step);
  if (end > row && row_ptr[end] - row_ptr[end - 1] >= tile_size) --end;
  tile[t] = {static_cast<std::int64_t>(row_ptr[row]), static_cast<std::int32_t>(row),
             static_cast<std::uint16_t>(end - row), static_cast<std::uint16_t>(row_ptr[end] - row_ptr[row])};
}

// The place of a row's pieces among all pieces differs from run to run. The sums do not depend on it.
template <class P>
__global__ void fill_long_pieces(std::int64_t rows, const P* row_ptr, unsigned long long* next,
                                 LongRowPiece* piece) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const std::int64_t begin = row_ptr[row], end = row_ptr[row + 1], count = pieces_of_long_row(end - begin);
  if (count == 0) return;
  const auto first = static_cast<std::int64_t>(atomicAdd(next, static_cast<unsigned long long>(count)));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t entry = begin + i * row_piece;
    piece[first + i] = {entry, static_cast<std::int32_t>(row),
                        static_cast<std::int32_t>(min(end - entry, std::int64_t{row_piece})),
                        static_cast<std::int32_t>(first), static_cast<std::int32_t>(count)};
  }
}

inline std::int64_t warp_tiles_of(std::int64_t rows, std::int64_t entries) {
  return (rows + entries + tile_step - 1) / tile_step;
}
inline std::size_t warp_tile_bytes(std::int64_t rows, std::int64_t entries, std::int64_t pieces,
                                   std::size_t value_bytes) {
  return static_cast<std::size_t>(warp_tiles_of(rows, entries)) * sizeof(WarpTile) +
         static_cast<std::size_t>(pieces) * (sizeof(LongRowPiece) + value_bytes + sizeof(unsigned));
}

// The number of pieces of all long rows. The host waits for the result.
template <class P>
std::int64_t long_pieces_of(const Context& context, std::int64_t rows, const P* row_ptr) {
  const device::Scratch<unsigned long long> count(context, 1);
  const cudaStream_t stream = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(count.data(), 0, count.bytes(), stream));
  count_long_pieces<<<blocks_of(rows, 256), 256, 0, stream>>>(rows, row_ptr, count.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return static_cast<std::int64_t>(read_back(context, count.data()));
}

template <class T>
class WarpTiles {
 public:
  WarpTiles() = default;
  template <class P>
  WarpTiles(const ContextPtr& context, std::int64_t rows, std::int64_t entries, const P* row_ptr,
            std::int64_t pieces)
      : tile_(context, warp_tiles_of(rows, entries)),
        piece_(context, pieces),
        partial_(context, pieces),
        arrived_(context, pieces) {
    const cudaStream_t stream = device::stream(*context);
    if (!tile_.empty())
      fill_warp_tiles<<<blocks_of(tile_.size(), 128), 128, 0, stream>>>(rows, row_ptr, tile_.size(),
                                                                        tile_.data());
    if (pieces > 0) {
      const device::Scratch<unsigned long long> next(*context, 1);
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(next.data(), 0, next.bytes(), stream));
      PROTEAN_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), stream));
      fill_long_pieces<<<blocks_of(rows, 256), 256, 0, stream>>>(rows, row_ptr, next.data(), piece_.data());
    }
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept {
    return tile_.bytes() + piece_.bytes() + partial_.bytes() + arrived_.bytes();
  }
  // A product writes to the workspace, but leaves it as it was before.
  WarpTilesView<T> view() const {
    return {tile_.data(),
            piece_.data(),
            tile_.size(),
            piece_.size(),
            const_cast<T*>(partial_.data()),
            const_cast<unsigned*>(arrived_.data())};
  }

 private:
  Buffer<WarpTile> tile_;
  Buffer<LongRowPiece> piece_;
  Buffer<T> partial_;
  Buffer<unsigned> arrived_;
};

// The products of up to tile_size entries: entry 32 j + lane in v[j], 0 past the end.
template <class T>
__device__ inline void products_of_tile(const std::int32_t* col, const T* values, int count, const T* x,
                                        T (&v)[tile_loads]) {
  const int lane = threadIdx.x % 32;
  std::int32_t c[tile_loads];
#pragma unroll
  for (int j = 0; j < tile_loads; ++j) {
    const int i = 32 * j + lane;
    c[j] = i < count ? __ldcs(col + i) : -1;
    v[j] = i < count ? __ldcs(values + i) : T(0);
  }
#pragma unroll
  for (int j = 0; j < tile_loads; ++j)
    if (c[j] >= 0) v[j] *= __ldg(x + c[j]);
}

// A product goes to place i + i / 16: lanes that read rows of 8 or 16 entries use different banks.
__device__ inline int tile_place(int i) { return i + (i >> 4); }

template <bool dot, class T, class P>
__device__ inline void warp_tile(const CsrArrays<T, P>& a, const WarpTile& tile, T* products,
                                 const ProductTask<T>& task, T (&dots)[1]) {
  const int lane = threadIdx.x % 32;
  for (int begin = 0; begin < tile.entries; begin += tile_size) {
    T v[tile_loads];
    products_of_tile(a.col + tile.entry + begin, a.values + tile.entry + begin, tile.entries - begin, task.x,
                     v);
#pragma unroll
    for (int j = 0; j < tile_loads; ++j)
      if (begin + 32 * j < tile.entries) products[tile_place(begin + 32 * j + lane)] = v[j];
  }
  __syncwarp();
  for (int first = 0; first < tile.rows; first += 32) {
    const int r = first + lane;
    int begin = 0, end = 0;
    if (r < tile.rows) {
      begin = static_cast<int>(__ldg(a.row_ptr + tile.row + r) - tile.entry);
      end = static_cast<int>(__ldg(a.row_ptr + tile.row + r + 1) - tile.entry);
    }
    const bool mine = end - begin <= lane_row;
    if (r < tile.rows && mine) {
      T sum = 0;
      for (int i = begin; i < end; ++i) sum += products[tile_place(i)];
      task.template finish<dot>(tile.row + r, sum, dots);
    }
    unsigned longer = __ballot_sync(0xffffffffu, !mine);
    while (longer) {
      const int which = __ffs(static_cast<int>(longer)) - 1;
      longer &= longer - 1;
      const int from = __shfl_sync(0xffffffffu, begin, which), to = __shfl_sync(0xffffffffu, end, which);
      T sum = 0;
      for (int i = from + lane; i < to; i += 32) sum += products[tile_place(i)];
      sum = device::sum_lanes(sum);
      if (lane == 0) task.template finish<dot>(tile.row + first + which, sum, dots);
    }
  }
  __syncwarp();
}

template <bool dot, class T, class P>
__device__ inline void long_row_piece(const CsrArrays<T, P>& a, const WarpTilesView<T>& tiles,
                                      std::int64_t item, const ProductTask<T>& task, T (&dots)[1]) {
  const LongRowPiece piece = tiles.piece[item];
  const int lane = threadIdx.x % 32;
  T sum = 0;
  for (int first = 0; first < piece.entries; first += tile_size) {
    T v[tile_loads];
    products_of_tile(a.col + piece.entry + first, a.values + piece.entry + first,
                     min(piece.entries - first, tile_size), task.x, v);
#pragma unroll
    for (int j = 0; j < tile_loads; ++j) sum += v[j];
  }
  sum = device::sum_lanes(sum);
  int last = 0;
  if (lane == 0) {
    tiles.partial[item] = sum;
    __threadfence();
    last = atomicAdd(tiles.arrived + piece.first, 1u) == static_cast<unsigned>(piece.count) - 1;
  }
  // Each warp has its part of x . y, so that it does not depend on which one is the last.
  if (dot && lane == 0) dots[0] += task.x[piece.row] * sum;
  if (!__shfl_sync(0xffffffffu, last, 0)) return;
  __threadfence();
  T whole = 0;
  for (int i = lane; i < piece.count; i += 32) whole += __ldcg(tiles.partial + piece.first + i);
  whole = device::sum_lanes(whole);
  if (lane != 0) return;
  tiles.arrived[piece.first] = 0;
  if (dot)
    task.y[piece.row] = whole;
  else
    store(task.alpha, whole, task.beta, task.y + piece.row);
}

template <bool dot, class T, class P>
__global__ void __launch_bounds__(32 * tile_warps)
    warp_tiles_product(CsrArrays<T, P> a, WarpTilesView<T> tiles, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  __shared__ T products[tile_warps][2 * tile_size + 2 * tile_size / 16];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  T dots[1] = {};
  for (std::int64_t item = std::int64_t{blockIdx.x} * tile_warps + warp; item < tiles.pieces + tiles.tiles;
       item += std::int64_t{gridDim.x} * tile_warps) {
    if (item < tiles.pieces)
      long_row_piece<dot>(a, tiles, item, task, dots);
    else
      warp_tile<dot>(a, tiles.tile[item - tiles.pieces], products[warp], task, dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// y := alpha A x + beta y; with the dot product when `result` is not null.
template <bool dot, class T, class P>
void multiply_warp_tiles(const Context& context, const CsrArrays<T, P>& a, const WarpTilesView<T>& tiles,
                         T alpha, const T* x, T beta, T* y, T* result) {
  const DeviceState& state = context.device_state();
  const std::int64_t items = tiles.tiles + tiles.pieces;
  std::int64_t blocks = std::max<std::int64_t>(1, (items + tile_warps - 1) / tile_warps);
  if (dot)
    blocks = std::min({blocks, std::int64_t{state.processors} * 12, std::int64_t{DeviceState::max_blocks}});
  else if (items == 0)
    return;
  device::launch(state, warp_tiles_product<dot, T, P>, blocks, 32 * tile_warps, a, tiles,
                 product_task(context, blocks, alpha, x, beta, y, result));
}

}  // namespace protean::formats
