// Products with CSR arrays in device memory in tiles of whole rows, a block of threads each. Private to formats/.
//
//   entries   | 1 2 3 4 | 5 6 7 8 | 9         distance 4
//   rows      | 0 0 0 1 | 1 1 1 1 | 2
//   tiles     | 0 0 0 0   0 0 0 0 | 1         tile t has the rows that begin at the entries 4t to 4t + 3
//
//   1. Each thread multiplies `steps` entries by their x, neighbours at the same time, into shared memory.
//   2. Groups of threads add the products of the rows. The more rows a tile has, the fewer threads a row gets.
//   3. The last row may be longer than what fits: all threads add the rest of it, in a fixed order.
//
// No row is cut between two tiles, so there are no carries to add in a second launch, as in entry_tiles.cuh. That
// launch takes 1.6 to 2 microseconds, a third of the product of a matrix with a million entries. But a block does a
// long row alone, and matrices far beyond the second-level cache take up to 1.2 times as long on an H200.
//
// The last loop is the loop of entry_tiles.cuh without carries. With one function for both, products took 1.06 to 1.2
// times as long on an H200 (docs/results/gpu-products.md).
#pragma once
#include "core/device/cache.hpp"
#include "formats/engines/rows/row_tables.hpp"
#include "formats/engines/runs/entry_tiles.cuh"

namespace protean::formats {

// Whether the arrays of a matrix are still in the second-level cache when the next product begins, with some vectors
// next to them. If they are not, they are loaded as what is read once, so that x stays there. In a smaller matrix
// such loads were slow (docs/results/gpu-products.md), probably since what lies in the cache from before has
// precedence.
inline bool stays_in_cache(const Context& context, const SparsityPattern& pattern, std::size_t value_bytes) {
  return csr_bytes(pattern, value_bytes) <= device::cache_bytes(context) / 10 * 7;
}
template <bool cached, class V>
__device__ inline V load_entry(const V* from) {
  return cached ? __ldg(from) : __ldcs(from);
}

constexpr int most_tile_steps = 6;
// A longer row takes one block longer than all others need for theirs (docs/results/gpu-products.md).
constexpr std::int64_t longest_of_whole_row_tiles = 3000;

// The numbers of a division into tiles of whole rows.
struct WholeRowTilesPlan {
  int steps = 4;
  std::int64_t distance = 0, tiles = 0;  // between the entries where tiles begin

  std::size_t bytes() const {
    return tiles == 0 ? 0 : static_cast<std::size_t>(tiles + 1) * sizeof(TileStart);
  }
};

// With that many steps. If rows are short, they end within what a block multiplies at once.
inline WholeRowTilesPlan whole_row_tiles(std::int64_t nonzeros, std::int64_t longest, int steps) {
  const std::int64_t at_once = std::int64_t{tile_threads} * steps;
  const std::int64_t distance = at_once - std::min(longest, at_once / 4);
  return {steps, distance, (nonzeros + distance - 1) / distance};
}

// As few steps as let all tiles run at the same time. If they do not, four were the fastest of 2 to 6 on most of 120
// matrices on an H100 and an H200, six if rows are long.
inline WholeRowTilesPlan whole_row_tiles(const Context& context, const SparsityPattern& pattern,
                                         std::int64_t longest) {
  constexpr std::int64_t tiles_of_processor = 8, long_rows = 48;
  const std::int64_t at_once = context.device_state().processors * tiles_of_processor;
  for (const int steps : {2, 3, 4, most_tile_steps})
    if (const WholeRowTilesPlan plan = whole_row_tiles(pattern.nonzeros, longest, steps);
        plan.tiles <= at_once)
      return plan;
  return whole_row_tiles(pattern.nonzeros, longest,
                         pattern.nonzeros > long_rows * pattern.rows ? most_tile_steps : 4);
}

template <class P>
__global__ void start_whole_row_tiles(const P* row_ptr, std::int64_t rows, std::int64_t nonzeros,
                                      std::int64_t distance, std::int64_t tiles, TileStart* start) {
  device::wait_for_stream();
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t > tiles) return;
  const std::int64_t row = t == 0 ? 0 : t == tiles ? rows : first_not_below(row_ptr, rows, t * distance);
  start[t] = {row, t == tiles ? nonzeros : static_cast<std::int64_t>(row_ptr[row])};
}

// The matrix as a product reads it. There is at least one entry.
template <class T, class P>
struct WholeRowTilesView {
  CsrArrays<T, P> csr;
  std::int64_t nonzeros;
  const TileStart* start;
};

// All threads of the block call it. False when the solve has ended: nothing has been written then. The flag is read
// late, as in entry_tiles.cuh.
template <int steps, bool cached, bool dot, class T, class P>
__device__ inline bool multiply_whole_row_tile(const WholeRowTilesView<T, P>& a, std::int64_t t,
                                               const ProductTask<T>& task, T (&dots)[1]) {
  constexpr int at_once = tile_threads * steps, warps = tile_threads / 32;
  __shared__ T products[at_once];
  __shared__ T of_warp[warps];  // of the rest of the last row
  const int thread = threadIdx.x;
  const std::int64_t begin = a.start[t].entry, entries = a.start[t + 1].entry - begin;
  const int count = static_cast<int>(min(entries, std::int64_t{at_once}));
  // Past the end, the last entry is loaded again, so that no load waits for a condition. A tile may have no entry.
  const std::int64_t first = min(begin, a.nonzeros - 1);
  const int last = max(count - 1, 0);
  const std::int32_t* const col = a.csr.col + first;
  const T* const values = a.csr.values + first;
  std::int32_t c[steps];
  T v[steps];
#pragma unroll
  for (int j = 0; j < steps; ++j) {
    const int k = min(thread + j * tile_threads, last);
    c[j] = load_entry<cached>(col + k), v[j] = load_entry<cached>(values + k);
  }
  const std::int64_t first_row = a.start[t].row;
  const auto rows = static_cast<int>(a.start[t + 1].row - first_row);
  int lanes = 1;
  while (lanes < 32 && 2 * lanes * rows <= tile_threads) lanes *= 2;
  const int lane = thread % lanes;
  int number = thread / lanes, k = 0, row_end = 0;
  const auto find_row = [&] {
    k = row_end = 0;
    if (number >= rows) return;
    const P* const pointer = a.csr.row_ptr + first_row + number;
    k = static_cast<int>(static_cast<std::int64_t>(__ldg(pointer)) - begin);
    row_end =
        static_cast<int>(min(static_cast<std::int64_t>(__ldg(pointer + 1)) - begin, std::int64_t{count}));
  };
  find_row();
#pragma unroll
  for (int j = 0; j < steps; ++j) v[j] *= __ldg(task.x + c[j]);
#pragma unroll
  for (int j = 0; j < steps; ++j) products[thread + j * tile_threads] = v[j];
  const bool goes_on = entries > at_once;
  if (goes_on) {
    T rest = 0;
    for (std::int64_t at = at_once + thread; at < entries; at += at_once) {
#pragma unroll
      for (int j = 0; j < steps; ++j) {
        c[j] = -1;
        if (at + j * tile_threads < entries)
          c[j] = load_entry<cached>(col + at + j * tile_threads),
          v[j] = load_entry<cached>(values + at + j * tile_threads);
      }
#pragma unroll
      for (int j = 0; j < steps; ++j)
        if (c[j] >= 0) rest += v[j] * __ldg(task.x + c[j]);
    }
    rest = device::sum_lanes(rest);
    if (thread % 32 == 0) of_warp[thread / 32] = rest;
  }
  const bool ended = task.stop && *task.stop;
  __syncthreads();
  if (ended) return false;
  for (int done = 0;;) {
    T sum = 0;
    for (int i = k + lane; i < row_end; i += lanes) sum += products[i];
    // All threads take part in the shuffles.
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (number < rows && lane == 0) {
      if (goes_on && number == rows - 1)
#pragma unroll
        for (int w = 0; w < warps; ++w) sum += of_warp[w];
      task.template finish<dot>(first_row + number, sum, dots);
    }
    done += tile_threads / lanes;
    if (done >= rows) return true;
    number += tile_threads / lanes;
    find_row();
  }
}

template <int steps, bool cached, class T, class P>
__global__ void __launch_bounds__(tile_threads)
    whole_row_tile_product(WholeRowTilesView<T, P> a, ProductTask<T> task) {
  device::wait_for_stream();
  T dots[1];
  multiply_whole_row_tile<steps, cached, false>(a, blockIdx.x, task, dots);
}

template <int steps, bool cached, class T, class P>
__global__ void __launch_bounds__(tile_threads)
    whole_row_tile_product_dot(WholeRowTilesView<T, P> a, std::int64_t tiles, ProductTask<T> task) {
  device::wait_for_stream();
  T dots[1] = {};
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    if (!multiply_whole_row_tile<steps, cached, true>(a, t, task, dots)) return;
    __syncthreads();  // the products of this tile have been read
  }
  device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// Where the tiles of a CSR matrix with entries begin.
template <class T>
class WholeRowTiles {
 public:
  WholeRowTiles() = default;
  WholeRowTiles(const ContextPtr& context, const SparsityPattern& pattern, const WholeRowTilesPlan& plan,
                bool cached)
      : plan_(plan), cached_(cached), start_(context, plan.tiles + 1) {
    pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      device::launch(context->device_state(), start_whole_row_tiles<P>, blocks_of(plan.tiles + 1),
                     device::block_size, row_ptr, pattern.rows, pattern.nonzeros, plan.distance, plan.tiles,
                     start_.data());
    });
  }
  std::size_t bytes() const noexcept { return start_.bytes(); }

  // y := alpha A x + beta y
  void multiply(const DeviceState& state, const CsrMatrix<T>& csr, T alpha, const T* x, T beta, T* y) const {
    with_view(csr, [&]<int steps, bool cached, class P>(Kind<steps, cached>, const auto& view, P) {
      device::launch(state, whole_row_tile_product<steps, cached, T, P>, plan_.tiles, tile_threads, view,
                     ProductTask<T>{.alpha = alpha, .x = x, .beta = beta, .y = y, .stop = state.stop});
    });
  }
  // y := A x and *result := x . y
  void multiply_dot(const Context& context, const CsrMatrix<T>& csr, const T* x, T* y, T* result) const {
    const DeviceState& state = context.device_state();
    const std::int64_t blocks = reducing_tile_blocks(state, plan_.tiles);
    const auto sums = device::sums_into<1>(context, blocks, result);
    with_view(csr, [&]<int steps, bool cached, class P>(Kind<steps, cached>, const auto& view, P) {
      device::launch(state, whole_row_tile_product_dot<steps, cached, T, P>, blocks, tile_threads, view,
                     plan_.tiles,
                     ProductTask<T>{T(1), x, T(0), y, sums.parts, sums.arrived, sums.result, state.stop});
    });
  }

 private:
  template <int steps, bool cached>
  struct Kind {};
  // Calls f(Kind, view, P()).
  template <class F>
  void with_view(const CsrMatrix<T>& csr, F&& f) const {
    csr.pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      const WholeRowTilesView<T, P> view{
          {csr.rows(), row_ptr, csr.pattern.col, csr.values}, csr.nonzeros(), start_.data()};
      // All tiles of few steps run at the same time, so their matrix is small.
      switch (plan_.steps) {
        case 2:
          return f(Kind<2, true>(), view, P());
        case 3:
          return f(Kind<3, true>(), view, P());
        case 4:
          return cached_ ? f(Kind<4, true>(), view, P()) : f(Kind<4, false>(), view, P());
        default:
          return cached_ ? f(Kind<most_tile_steps, true>(), view, P())
                         : f(Kind<most_tile_steps, false>(), view, P());
      }
    });
  }

  WholeRowTilesPlan plan_;
  bool cached_ = false;  // see stays_in_cache()
  Buffer<TileStart> start_;
};

}  // namespace protean::formats
