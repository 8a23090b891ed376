// The device side of tile_pieces.hpp: cutting rows, the arrays, and products of two launches, the sums of all pieces
// and the sums of the pieces of each row. Private to formats/.
#pragma once
#include <bit>
#include <limits>

#include "formats/engines/pieces/tile_pieces.hpp"
#include "formats/engines/view/row_view.cuh"

namespace protean::formats {

constexpr int piece_threads = 128, piece_warps = piece_threads / 32;
constexpr std::int64_t most_pieces = std::numeric_limits<std::int32_t>::max() - 1;

inline int bits_of(std::int64_t largest) { return std::bit_width(static_cast<std::uint64_t>(largest)); }

// Tiles of that many columns; if there are more than `most`, the last one has all columns that are left.
struct ColumnTiles {
  std::int64_t columns, most;
  __device__ std::int64_t operator()(std::int64_t column) const {
    const std::int64_t number = column / columns;
    return number < most ? number : most - 1;
  }
};

// Calls f(tile, first entry, entries) for what a row has in each tile.
template <class F>
__device__ inline void for_pieces_of_row(const DevicePattern& a, ColumnTiles tile_of, std::int64_t row,
                                         F&& f) {
  const std::int64_t end = a.row_ptr[row + 1];
  for (std::int64_t k = a.row_ptr[row]; k < end;) {
    const std::int64_t first = k, tile = tile_of(a.col[k]);
    while (k < end && tile_of(a.col[k]) == tile) ++k;
    f(tile, first, k - first);
  }
}

static __global__ void count_row_pieces(DevicePattern a, ColumnTiles tiles, std::int64_t* piece_ptr) {
  device::wait_for_stream();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  std::int64_t count = 0;
  for_pieces_of_row(a, tiles, row, [&](std::int64_t, std::int64_t, std::int64_t) { ++count; });
  piece_ptr[row] = count;
}

// Pieces by rows: the number of their row, first entry, number of entries and tile.
static __global__ void write_row_pieces(DevicePattern a, ColumnTiles tiles, const std::int64_t* piece_ptr,
                                        std::int32_t* piece_row, std::int64_t* from, std::int32_t* length,
                                        std::int32_t* tile) {
  device::wait_for_stream();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  std::int64_t s = piece_ptr[row];
  for_pieces_of_row(a, tiles, row, [&](std::int64_t number, std::int64_t first, std::int64_t count) {
    piece_row[s] = static_cast<std::int32_t>(row), from[s] = first;
    length[s] = static_cast<std::int32_t>(count), tile[s] = static_cast<std::int32_t>(number), ++s;
  });
}

static __global__ void number_items(std::int64_t size, std::int32_t* item) {
  device::wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) item[i] = static_cast<std::int32_t>(i);
}

// A launch of one thread for each of `size` items, if there are any.
template <class Kernel, class... Arguments>
void launch_items(const Context& context, Kernel kernel, std::int64_t size, const Arguments&... arguments) {
  if (size > 0)
    device::launch(context.device_state(), kernel, blocks_of(size), device::block_size, size, arguments...);
}

// What the rows have in each tile.
struct RowPieces {
  RowPieces(const Context& context, const SparsityPattern& pattern, ColumnTiles tiles)
      : piece_ptr(context, pattern.rows + 1),
        found(count(context, pattern, tiles)),
        size(found <= most_pieces ? found : 0),
        row(context, size),
        length(context, size),
        tile(context, size),
        from(context, size) {
    if (size > 0)
      device::launch(context.device_state(), write_row_pieces, blocks_of(pattern.rows), device::block_size,
                     device_pattern(pattern), tiles, piece_ptr.data(), row.data(), from.data(), length.data(),
                     tile.data());
  }
  const device::Scratch<std::int64_t> piece_ptr;  // [rows + 1]
  const std::int64_t found, size;  // the pieces; none are written if there are more than most_pieces
  const device::Scratch<std::int32_t> row, length, tile;
  const device::Scratch<std::int64_t> from;

 private:
  std::int64_t count(const Context& context, const SparsityPattern& pattern, ColumnTiles tiles) const {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(piece_ptr.data(), 0, piece_ptr.bytes(), device::stream(context)));
    if (pattern.rows == 0) return 0;
    device::launch(context.device_state(), count_row_pieces, blocks_of(pattern.rows), device::block_size,
                   device_pattern(pattern), tiles, piece_ptr.data());
    device::exclusive_scan(context, piece_ptr.data(), pattern.rows + 1);
    return read_back(context, piece_ptr.data() + pattern.rows);
  }
};

// The order of the stored pieces: item[p] is the number by rows of the piece at position p; keys ascend.
inline void sort_pieces(const Context& context, std::int64_t size, std::uint64_t* key, std::int32_t* item,
                        int bits) {
  launch_items(context, number_items, size, item);
  if (size > 0) device::sort_pairs(context, key, item, size, bits);
}

// From the order of the rows to the order of the positions; before[p] is the length of the piece at p.
static __global__ void place_pieces(std::int64_t size, const std::int32_t* item, const std::int32_t* row,
                                    const std::int64_t* from, const std::int32_t* length, std::int32_t* piece,
                                    std::int32_t* piece_row, std::int64_t* piece_from,
                                    std::int32_t* piece_length, std::int64_t* before) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= size) return;
  const std::int32_t s = item[p];
  piece[s] = static_cast<std::int32_t>(p), piece_row[p] = row[s], piece_from[p] = from[s];
  piece_length[p] = length[s], before[p] = length[s];
}

// The columns of a piece and its padding, by a warp.
template <class T, class Place>
__global__ void __launch_bounds__(piece_threads)
    fill_piece_columns(PieceView<T, Place> a, std::int64_t pieces, const std::int64_t* from,
                       const std::int32_t* length, const std::int32_t* source, std::int32_t* col) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * piece_warps + threadIdx.x / 32;
  if (p >= pieces) return;
  const PieceSpan span = a.place.padded(p);
  const std::int64_t last = length[p] - 1;
  for (std::int64_t k = threadIdx.x % 32; k < span.count; k += 32)
    col[span.begin + k * span.stride] = source[from[p] + min(k, last)];
}

template <class T>
__device__ inline T sum_of_span(const T* values, const std::int32_t* col, std::int64_t count, const T* x) {
  T sum = 0;
#pragma unroll 4
  for (std::int64_t k = threadIdx.x % 32; k < count; k += 32)
    sum += __ldcs(values + k) * __ldg(x + __ldcs(col + k));
  return device::sum_lanes(sum);
}

// The sums of all pieces: by a block for each workload.
template <class T>
__global__ void __launch_bounds__(piece_threads)
    sum_pieces(PieceView<T, CompositePlace> a, std::int64_t, const T* x, T* partial, const int* stop) {
  device::wait_for_stream();
  const std::int64_t w = blockIdx.x, slot = a.place.work_slot[w];
  const std::int32_t first = a.place.work_piece[w], h = a.place.work_piece[w + 1] - first;
  const std::int32_t width = a.place.extent[first];
  const bool ended = stop && *stop;
  if (CompositePlace::is_csr(width, h)) {
    for (std::int32_t i = threadIdx.x / 32; i < h; i += piece_warps) {  // the same in all lanes of a warp
      const std::int32_t begin = i > 0 ? a.place.extent[first + i - 1] : 0;
      const T sum = sum_of_span(a.values + slot + begin, a.col + slot + begin,
                                std::int64_t{a.place.extent[first + i]} - begin, x);
      if (threadIdx.x % 32 == 0 && !ended) partial[first + i] = sum;
    }
    return;
  }
  for (std::int32_t i = threadIdx.x; i < h; i += piece_threads) {
    const std::int32_t length = a.place.extent[first + i];
    const T* const values = a.values + slot + i;
    const std::int32_t* const col = a.col + slot + i;
    T sum = 0;
#pragma unroll 4
    for (std::int32_t k = 0; k < length; ++k)
      sum += __ldcs(values + std::int64_t{k} * h) * __ldg(x + __ldcs(col + std::int64_t{k} * h));
    if (!ended) partial[first + i] = sum;
  }
}
// By a warp for each piece.
template <class T>
__global__ void __launch_bounds__(piece_threads)
    sum_pieces(PieceView<T, VslPlace> a, std::int64_t pieces, const T* x, T* partial, const int* stop) {
  device::wait_for_stream();
  const std::int64_t p = std::int64_t{blockIdx.x} * piece_warps + threadIdx.x / 32;
  if (p >= pieces) return;  // the whole warp
  const PieceSpan span = a.place.span(p);
  const bool ended = stop && *stop;
  const T sum = sum_of_span(a.values + span.begin, a.col + span.begin, span.count, x);
  if (threadIdx.x % 32 == 0 && !ended) partial[p] = sum;
}
inline std::int64_t blocks_of_pieces(const CompositePlace& place, std::int64_t) { return place.workloads; }
inline std::int64_t blocks_of_pieces(const VslPlace&, std::int64_t pieces) {
  return blocks_of(pieces, piece_warps);
}

// y := alpha (sums of the pieces of each row) + beta y, in their order.
template <class T>
__global__ void add_pieces(std::int64_t rows, const std::int64_t* piece_ptr, const std::int32_t* piece,
                           const T* partial, ProductTask<T> task) {
  device::wait_for_stream();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const std::int64_t end = __ldg(piece_ptr + row + 1);
  T sum = 0;
  for (std::int64_t s = __ldg(piece_ptr + row); s < end; ++s) sum += partial[__ldg(piece + s)];
  if (task.stop && *task.stop) return;
  store(task.alpha, sum, task.beta, task.y + row);
}

// The arrays of pieces in device memory. Derived adds the arrays that say where a piece lies: place(), place_bytes().
// If it has sorted the columns, its order() is the order of PieceView, and sorted() puts x into it.
template <class T, class Place, class Derived>
class PiecesOnDevice : public RowViewOnDevice<T, Derived> {
 public:
  PiecesOnDevice(const BuildRequest<T>& request, const device::Scratch<std::int64_t>& piece_ptr,
                 const device::Scratch<std::int32_t>& piece, const device::Scratch<std::int32_t>& piece_row,
                 std::int64_t slots)
      : RowViewOnDevice<T, Derived>(request),
        piece_ptr_(copy_of(request.context, piece_ptr)),
        piece_(copy_of(request.context, piece)),
        piece_row_(copy_of(request.context, piece_row)),
        col_(request.context, slots),
        values_(request.context, slots),
        partial_(request.context, piece.size()) {}

  std::size_t bytes() const noexcept override {
    return piece_ptr_.bytes() + piece_.bytes() + piece_row_.bytes() + col_.bytes() + values_.bytes() +
           partial_.bytes() + self().place_bytes();
  }
  PieceView<T, Place> row_view() const noexcept {
    return {values_.data(),    col_.data(),  piece_ptr_.data(), piece_.data(),
            piece_row_.data(), this->rows(), self().place(),    self().order()};
  }
  T* mutable_values() noexcept { return values_.data(); }
  const std::int32_t* order() const noexcept { return nullptr; }
  const T* sorted(const T* x) const { return x; }

 protected:
  // Columns and values; place() is complete. `from` and `length` as in place_pieces(); `from` counts in `columns`.
  void fill(const CsrMatrix<T>& csr, const device::Scratch<std::int64_t>& from,
            const device::Scratch<std::int32_t>& length, const std::int32_t* columns) {
    const DeviceState& state = this->context()->device_state();
    if (piece_.empty()) return;
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(values_.data(), 0, values_.bytes(), state.stream));
    device::launch(state, fill_piece_columns<T, Place>, blocks_of(piece_.size(), piece_warps), piece_threads,
                   row_view(), piece_.size(), from.data(), length.data(), columns, col_.data());
    this->do_update_values(csr);
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    const PieceView<T, Place> a = row_view();
    T* const partial = const_cast<T*>(partial_.data());  // workspace
    void (*const sums)(PieceView<T, Place>, std::int64_t, const T*, T*, const int*) = sum_pieces<T>;
    if (!piece_.empty())
      device::launch(state, sums, blocks_of_pieces(a.place, piece_.size()), piece_threads, a, piece_.size(),
                     self().sorted(x.data), partial, state.stop);
    device::launch(
        state, add_pieces<T>, blocks_of(this->rows()), device::block_size, this->rows(), a.piece_ptr, a.piece,
        partial, ProductTask<T>{.alpha = alpha, .x = x.data, .beta = beta, .y = y.data, .stop = state.stop});
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  Buffer<std::int64_t> piece_ptr_;
  Buffer<std::int32_t> piece_, piece_row_, col_;
  Buffer<T> values_, partial_;
};

}  // namespace protean::formats
