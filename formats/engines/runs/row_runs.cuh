// Products whose work is balanced for any row lengths, for entries sorted by row. A warp takes the rows that
// begin among run_step entries, multiplies up to run_most entries side by side and adds the runs of rows by
// shuffles, all in registers. One bit for each entry marks where rows begin, and a list has the rows with
// entries, so neither row pointers nor row indices are read. A row that would make the share of a warp too
// long is cut into separate pieces; the last warp that finishes a piece adds all pieces in their order. Rows without
// entries are written from a list. So every sum has a fixed order, whatever runs first, and no warp waits for another.
//
// tile: the entries of a warp and the number, among the rows with entries, of its first row.
//
// begin: bit k is 1 when entry k is the first of its row. The bit after the last entry is 1 as well.
//
// used: the rows with entries. unused: a bit for each row, 1 if it has none. Both are absent when all rows
// have entries.
//
// piece: piece_size() entries of a long row each, the pieces of a row one after another.
//
// Source: G. Blelloch, M. Heroux, M. Zagha, Segmented operations for sparse matrix computation on vector
// multiprocessors, CMU-CS-93-173, 1993; D. Merrill, M. Garland, Merge-based parallel sparse matrix-vector
// multiplication, SC 2016, doi:10.1109/SC.2016.57 (equal shares).
#pragma once
#include <algorithm>

#include "core/device/primitives.hpp"
#include "formats/device_support.cuh"
#include "formats/engines/runs/runs.cuh"
#include "formats/engines/view/expand.cuh"

namespace protean::formats {

constexpr int run_words = 8, run_most = 32 * run_words, run_step = 240;
// The compiler limits the registers of a thread so that a processor can hold this many blocks.
constexpr int run_blocks_held = 20;
constexpr int run_threads = 64, rows_a_warp = 1024;  // rows without entries that a warp writes

struct alignas(16) RunTile {
  std::int64_t entry;
  std::int32_t first, entries;
};

struct RunCounts {
  unsigned long long used, pieces;  // rows with entries, pieces of long rows
};

// The matrix as a product reads it. T: values.
template <class T>
struct RunView {
  const std::int32_t* col;
  const T* values;
  std::int64_t rows;  // of the matrix, one bit of `unused` each
  std::int64_t pieces, tiles;
  const RunTile* tile;
  const std::uint32_t *begin, *unused;
  const std::int32_t* used;
  const RowPiece* piece;
  T* partial;         // [pieces]
  unsigned* arrived;  // [pieces], 0 between products
};

// The number of entries of a piece. It is small in a small matrix, so that the product ends soon, and larger
// in a very long row, because one warp adds up all of its pieces.
__device__ inline std::int64_t piece_size(std::int64_t length, std::int64_t tiles) {
  return run_most * min(std::int64_t{8}, max(std::int64_t{1}, max(tiles / 2048, length / (run_most * 256))));
}
__device__ inline std::int64_t pieces_of_row(std::int64_t length, std::int64_t tiles) {
  return (length + piece_size(length, tiles) - 1) / piece_size(length, tiles);
}

inline std::int64_t run_tiles(std::int64_t entries) { return (entries + run_step - 1) / run_step; }
inline std::size_t run_bytes(std::int64_t rows, std::int64_t entries, const RunCounts& counts,
                             std::size_t value_bytes) {
  return static_cast<std::size_t>(run_tiles(entries)) * sizeof(RunTile) +
         static_cast<std::size_t>(entries / 32 + 11) * 4 +
         (static_cast<std::int64_t>(counts.used) < rows
              ? static_cast<std::size_t>(counts.used + (rows + 31) / 32) * 4
              : 0) +
         static_cast<std::size_t>(counts.pieces) * (sizeof(RowPiece) + value_bytes + sizeof(unsigned));
}

// Rows [row, end) begin in a tile's window. `longer` is the last of these with entries when it has to be left
// out.
struct RunWindow {
  std::int64_t row, entry, entries, longer;
};
template <class P>
__device__ inline RunWindow run_window(std::int64_t rows, const P* row_ptr, std::int64_t t) {
  const std::int64_t row = first_not_below(row_ptr, rows, t * run_step);
  const std::int64_t row_end = first_not_below(row_ptr, rows, (t + 1) * run_step);
  const std::int64_t begin = row_ptr[row], end = row_ptr[row_end];
  if (end - begin <= run_most) return {row, begin, end - begin, -1};
  const std::int64_t longer = slice_of(row_ptr, row, row_end - 1, end - 1);
  return {row, begin, row_ptr[longer] - begin, longer};
}

template <class P>
__global__ void count_runs(std::int64_t rows, std::int64_t tiles, const P* row_ptr, RunCounts* counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const unsigned used = __ballot_sync(0xffffffffu, i < rows && row_ptr[i + 1] > row_ptr[i]);
  if (threadIdx.x % 32 == 0 && used) atomicAdd(&counts->used, static_cast<unsigned long long>(__popc(used)));
  if (i >= tiles) return;
  if (const std::int64_t row = run_window(rows, row_ptr, i).longer; row >= 0)
    atomicAdd(&counts->pieces,
              static_cast<unsigned long long>(pieces_of_row(row_ptr[row + 1] - row_ptr[row], tiles)));
}

// number[r] := 1 for rows with entries. Marks where rows begin.
template <class P>
__global__ void mark_rows(std::int64_t rows, const P* row_ptr, std::int32_t* number, std::uint32_t* begin) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > rows) return;
  const bool used = r < rows && row_ptr[r] < row_ptr[r + 1];
  number[r] = used;
  if (used || r == rows) atomicOr(begin + row_ptr[r] / 32, 1u << (row_ptr[r] % 32));
}

template <class P>
__global__ void list_rows(std::int64_t rows, const P* row_ptr, const std::int32_t* number, std::int32_t* used,
                          std::uint32_t* unused) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool empty = r < rows && row_ptr[r] == row_ptr[r + 1];
  if (r < rows && !empty) used[number[r]] = static_cast<std::int32_t>(r);
  const unsigned word = __ballot_sync(0xffffffffu, empty);
  if (threadIdx.x % 32 == 0 && r < rows) unused[r / 32] = word;
}

// The place of a row's pieces among all pieces differs from run to run. The sums do not depend on it.
// list: the rows of y; null if they are the rows of row_ptr.
template <class P>
__global__ void fill_runs(std::int64_t rows, std::int64_t tiles, const P* row_ptr, const std::int32_t* number,
                          const std::int32_t* list, unsigned long long* next, RunTile* tile,
                          RowPiece* piece) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= tiles) return;
  const RunWindow window = run_window(rows, row_ptr, t);
  tile[t] = {window.entry, number[window.row], static_cast<std::int32_t>(window.entries)};
  if (window.longer < 0) return;
  const std::int64_t begin = row_ptr[window.longer], end = row_ptr[window.longer + 1];
  const std::int64_t size = piece_size(end - begin, tiles), count = pieces_of_row(end - begin, tiles);
  const auto first = static_cast<std::int64_t>(atomicAdd(next, static_cast<unsigned long long>(count)));
  const std::int64_t row = list ? list[window.longer] : window.longer;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t entry = begin + i * size;
    piece[first + i] = {entry, static_cast<std::int32_t>(row),
                        static_cast<std::int32_t>(min(end - entry, size)), static_cast<std::int32_t>(first),
                        static_cast<std::int32_t>(count)};
  }
}

// The host waits for the result.
inline RunCounts run_counts(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {};
  device::Scratch<RunCounts> counts(context, 1);
  const cudaStream_t stream = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), stream));
  const std::int64_t tiles = run_tiles(pattern.nonzeros);
  pattern.row_ptr.visit([&](auto* row_ptr) {
    count_runs<<<blocks_of(std::max(pattern.rows, tiles)), device::block_size, 0, stream>>>(
        pattern.rows, tiles, row_ptr, counts.data());
  });
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return read_back(context, counts.data());
}

template <class T>
class RowRuns {
 public:
  RowRuns() = default;
  // With a list row r of the pattern is row list[r] of y. All rows of the pattern have entries then, and the caller
  // sets RunView::used to the list.
  RowRuns(const ContextPtr& context, const SparsityPattern& pattern, const RunCounts& counts,
          const std::int32_t* list = nullptr)
      : tile_(context, run_tiles(pattern.nonzeros)),
        rows_(pattern.rows),
        begin_(context, pattern.nonzeros / 32 + 11),
        piece_(context, static_cast<std::int64_t>(counts.pieces)),
        partial_(context, static_cast<std::int64_t>(counts.pieces)),
        arrived_(context, static_cast<std::int64_t>(counts.pieces)) {
    const std::int64_t rows = pattern.rows, tiles = tile_.size();
    if (const auto used = static_cast<std::int64_t>(counts.used); used < rows)
      used_ = Buffer<std::int32_t>(context, used), unused_ = Buffer<std::uint32_t>(context, (rows + 31) / 32);
    const cudaStream_t stream = device::stream(*context);
    Buffer<std::int32_t> number(context, rows + 1);
    Buffer<unsigned long long> next(context, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(begin_.data(), 0, begin_.bytes(), stream));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(next.data(), 0, next.bytes(), stream));
    if (!arrived_.empty()) PROTEAN_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), stream));
    pattern.row_ptr.visit([&](auto* row_ptr) {
      mark_rows<<<blocks_of(rows + 1), device::block_size, 0, stream>>>(rows, row_ptr, number.data(),
                                                                        begin_.data());
      device::exclusive_scan(*context, number.data(), number.size());
      if (!unused_.empty())
        list_rows<<<blocks_of(rows), device::block_size, 0, stream>>>(rows, row_ptr, number.data(),
                                                                      used_.data(), unused_.data());
      if (tiles > 0)
        fill_runs<<<blocks_of(tiles), device::block_size, 0, stream>>>(
            rows, tiles, row_ptr, number.data(), list, next.data(), tile_.data(), piece_.data());
    });
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  std::size_t bytes() const noexcept {
    return tile_.bytes() + begin_.bytes() + used_.bytes() + unused_.bytes() + piece_.bytes() +
           partial_.bytes() + arrived_.bytes();
  }
  // A product writes to the workspace, but leaves it as it was before.
  RunView<T> view(const std::int32_t* col, const T* values) const {
    return {col,
            values,
            unused_.empty() ? 0 : rows_,
            piece_.size(),
            tile_.size(),
            tile_.data(),
            begin_.data(),
            unused_.data(),
            unused_.empty() ? nullptr : used_.data(),
            piece_.data(),
            const_cast<T*>(partial_.data()),
            const_cast<unsigned*>(arrived_.data())};
  }

 private:
  Buffer<RunTile> tile_;
  std::int64_t rows_ = 0;
  Buffer<std::uint32_t> begin_, unused_;
  Buffer<std::int32_t> used_;
  Buffer<RowPiece> piece_;
  Buffer<T> partial_;
  Buffer<unsigned> arrived_;
};

// The products of up to run_most entries: entry 32 j + lane in v[j], 0 past the end.
template <class T>
__device__ inline void entry_products(const std::int32_t* col, const T* values, int count, const T* x,
                                      T (&v)[run_words]) {
  const int lane = threadIdx.x % 32;
  std::int32_t c[run_words];
#pragma unroll
  for (int j = 0; j < run_words; ++j) {
    const int i = 32 * j + lane;
    c[j] = i < count ? __ldcs(col + i) : -1;
    v[j] = i < count ? __ldcs(values + i) : T(0);
  }
#pragma unroll
  for (int j = 0; j < run_words; ++j)
    if (c[j] >= 0) v[j] *= __ldg(x + c[j]);
}

// Computes one piece of a long row. The last piece to finish adds all pieces. Returns the sum of the piece in lane 0.
template <class T>
__device__ inline T product_of_piece(const RunView<T>& A, std::int64_t item, T alpha, const T* x, T beta,
                                     T* y) {
  const RowPiece piece = A.piece[item];
  const int lane = threadIdx.x % 32;
  T sum = 0;
  for (int first = 0; first < piece.entries; first += run_most) {
    T v[run_words];
    entry_products(A.col + piece.entry + first, A.values + piece.entry + first, piece.entries - first, x, v);
#pragma unroll
    for (int j = 0; j < run_words; ++j) sum += v[j];
  }
  sum = device::sum_lanes(sum);
  if (piece.count == 1) {
    if (lane == 0) store(alpha, sum, beta, y + piece.row);
    return sum;
  }
  int last = 0;
  if (lane == 0) {
    A.partial[item] = sum;
    __threadfence();
    last = atomicAdd(A.arrived + piece.first, 1u) == static_cast<unsigned>(piece.count) - 1;
  }
  if (__shfl_sync(0xffffffffu, last, 0)) {
    __threadfence();
    T whole = 0;
#pragma unroll 8
    for (int i = lane; i < piece.count; i += 32) whole += __ldcg(A.partial + piece.first + i);
    whole = device::sum_lanes(whole);
    if (lane == 0) {
      A.arrived[piece.first] = 0;
      store(alpha, whole, beta, y + piece.row);
    }
  }
  return sum;
}

// Returns each lane's part of x . A x when `with_dot`.
template <bool with_dot, class T>
__device__ inline T product_of_tile(const RunView<T>& A, std::int64_t item, T alpha, const T* x, T beta,
                                    T* y) {
  const RunTile tile = A.tile[item];
  const int lane = threadIdx.x % 32, count = tile.entries;
  if (count == 0) return T(0);
  // heads[j]: which of entries 32 j .. 32 j + 31 begin a row.
  const std::uint32_t word = lane < run_words + 2 ? __ldg(A.begin + tile.entry / 32 + lane) : 0;
  T v[run_words];
  entry_products(A.col + tile.entry, A.values + tile.entry, count, x, v);
  std::uint32_t heads[run_words + 1];
#pragma unroll
  for (int j = 0; j <= run_words; ++j)
    heads[j] = __funnelshift_r(__shfl_sync(0xffffffffu, word, j), __shfl_sync(0xffffffffu, word, j + 1),
                               static_cast<unsigned>(tile.entry % 32));
  const std::uint32_t up_to_me = 0xffffffffu >> (31 - lane);
  T carry = 0, dot = 0;
  std::int32_t number = tile.first - 1;
#pragma unroll
  for (int j = 0; j < run_words; ++j) {
    if (32 * j < count) {
      const std::uint32_t before = heads[j] & up_to_me;
      const int start = before ? 31 - __clz(before) : 0;
      // Adds entries of the same row one, then two, four, ... places before. If no entry has such a partner, all rows
      // are added up.
      std::uint32_t within = ~heads[j];
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        if (within == 0) break;
        const T other = __shfl_up_sync(0xffffffffu, v[j], step);
        if (lane - step >= start) v[j] += other;
        within &= within << step;
      }
      if (!before) v[j] += carry;
      carry = __shfl_sync(0xffffffffu, v[j], 31);
      const std::uint32_t ends = heads[j] >> 1 | heads[j + 1] << 31;
      if (32 * j + lane < count && ends >> lane & 1) {
        std::int32_t row = number + __popc(before);
        if (A.used) row = __ldg(A.used + row);
        store(alpha, v[j], beta, y + row);
        if constexpr (with_dot) dot += x[row] * v[j];
      }
      number += __popc(heads[j]);
    }
  }
  return dot;
}

template <bool with_dot, class T>
__global__ void __launch_bounds__(run_threads, run_blocks_held)
    run_product(RunView<T> A, T alpha, const T* x, T beta, T* y, double* partials, unsigned* arrived,
                T* result, const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int warps = run_threads / 32;
  const std::int64_t lists = (A.rows + rows_a_warp - 1) / rows_a_warp;
  const std::int64_t items = A.pieces + A.tiles + lists;
  const int lane = threadIdx.x % 32;
  T dots[1] = {};
  for (std::int64_t item = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; item < items;
       item += std::int64_t{gridDim.x} * warps) {
    if (item < A.pieces) {
      const T sum = product_of_piece(A, item, alpha, x, beta, y);
      if (with_dot && lane == 0) dots[0] += x[A.piece[item].row] * sum;
    } else if (item < A.pieces + A.tiles) {
      dots[0] += product_of_tile<with_dot>(A, item - A.pieces, alpha, x, beta, y);
    } else {
      const std::int64_t begin = (item - A.pieces - A.tiles) * rows_a_warp;
      static_assert(rows_a_warp == 32 * 32);
      const std::uint32_t mine = begin + 32 * lane < A.rows ? __ldcs(A.unused + begin / 32 + lane) : 0;
#pragma unroll 4
      for (int w = 0; w < 32; ++w)
        if (__shfl_sync(0xffffffffu, mine, w) >> lane & 1)
          store(alpha, T(0), beta, y + begin + 32 * w + lane);
    }
  }
  if constexpr (with_dot) device::finish_reduction<1>(dots, partials, arrived, result);
}

template <class T>
std::int64_t run_blocks(const RunView<T>& A) {
  return (A.pieces + A.tiles + (A.rows + rows_a_warp - 1) / rows_a_warp + run_threads / 32 - 1) /
         (run_threads / 32);
}

// y := alpha A x + beta y
template <class T>
void multiply_runs(const Context& context, const RunView<T>& A, T alpha, const T* x, T beta, T* y) {
  const DeviceState& state = context.device_state();
  const std::int64_t blocks = run_blocks(A);
  if (blocks == 0) return;
  run_product<false><<<static_cast<unsigned>(blocks), run_threads, 0, state.stream>>>(
      A, alpha, x, beta, y, nullptr, nullptr, static_cast<T*>(nullptr), state.stop);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// y := A x, result[0] := x . y
template <class T>
void multiply_runs_dot(const Context& context, const RunView<T>& A, const T* x, T* y, T* result) {
  const DeviceState& state = context.device_state();
  const std::int64_t most =
      std::min<std::int64_t>(std::int64_t{state.processors} * 12, DeviceState::max_blocks);
  const std::int64_t blocks = std::clamp<std::int64_t>(run_blocks(A), 1, most);
  const auto sums = device::sums_into<1>(context, blocks, result);
  device::launch(state, run_product<true, T>, blocks, run_threads, A, T(1), x, T(0), y, sums.parts,
                 sums.arrived, sums.result, state.stop);
}

}  // namespace protean::formats
