// Products with coded columns and rows on a device (bro.hpp). Every kernel writes a row of y once and adds in a fixed
// order. Private to formats/.
//
//   slices   a thread a position. All threads of a warp read fields of the same widths, unless 32 does not divide h.
//   rows     2 to 32 threads a row: each decodes the difference of one entry, and a prefix sum over the threads makes
//            columns.
//   entries  a warp an interval, in two launches: the sum of an interval's first row is a carry, because that row may
//            begin in another interval; the second launch adds the carries in their order
//            (engines/runs/coo_segments.cuh).
#pragma once
#include "formats/engines/bits/bro.hpp"
#include "formats/engines/rows/rows.cuh"
#include "formats/engines/runs/coo_segments.cuh"

namespace protean::formats {

// As FieldReader; the next symbol is read before it is needed.
class StreamAhead {
 public:
  __device__ StreamAhead(const std::uint32_t* symbols, std::int64_t lanes, std::int64_t count)
      : next_(symbols), lanes_(lanes), left_(count) {
    fetch();
  }
  __device__ std::uint32_t take(int width) {
    if (have_ < width) {
      waiting_ |= static_cast<std::uint64_t>(ahead_) << (symbol_bits - have_);
      have_ += symbol_bits;
      fetch();
    }
    const auto number = static_cast<std::uint32_t>((waiting_ >> 1) >> (63 - width));
    waiting_ <<= width, have_ -= width;
    return number;
  }

 private:
  __device__ void fetch() {
    if (left_ > 0) ahead_ = __ldcs(next_);
    next_ += lanes_, --left_;
  }
  const std::uint32_t* next_;
  std::int64_t lanes_, left_;
  std::uint64_t waiting_ = 0;
  std::uint32_t ahead_ = 0;
  int have_ = 0;
};

template <class T>
__global__ void __launch_bounds__(device::block_size)
    bro_slice_product(BroView<T> a, T alpha, const T* __restrict__ x, T beta, T* y, const int* stop) {
  device::wait_for_stream();
  const bool ended = stop && *stop;  // not read until y is written
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t s = p / a.h, lane = p % a.h, lanes = a.lanes(s);
  const std::int64_t first = __ldg(a.col_ptr + s), symbol = __ldg(a.symbol_ptr + s);
  const int slots = static_cast<int>(__ldg(a.col_ptr + s + 1) - first);
  StreamAhead stream(a.symbols + a.h * symbol + lane, lanes, __ldg(a.symbol_ptr + s + 1) - symbol);
  const std::uint8_t* const widths = a.bit_alloc + first;
  const T* const values = a.values + a.h * first + lane;
  constexpr int batch = 4;  // the loads of a batch are in flight together
  T sum = 0;
  std::int32_t at = -1;
  for (int k = 0; k < slots; k += batch) {
    std::int32_t col[batch];
    T v[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const std::uint32_t step = k + j < slots ? stream.take(__ldg(widths + k + j)) : 0u;
      at += static_cast<std::int32_t>(step);
      col[j] = step > 0 ? at : -1;
    }
    if (col[0] < 0) break;  // padding follows the entries
#pragma unroll
    for (int j = 0; j < batch; ++j) v[j] = col[j] >= 0 ? __ldcs(values + (k + j) * lanes) : T(0);
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (col[j] >= 0) sum += v[j] * __ldg(x + col[j]);
  }
  if (!ended) store(alpha, sum, beta, y + a.row(p));
}

// Steps that a thread loads together.
constexpr int bro_row_batch = 4;

template <int lanes, class T>
__global__ void __launch_bounds__(device::block_size)
    bro_row_product(BroView<T> a, bool adding, T alpha, const T* __restrict__ x, T beta, T* y,
                    const int* stop) {
  device::wait_for_stream();
  const bool ended = stop && *stop;
  const std::int64_t p = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x % lanes);
  std::int64_t begin = 0;
  std::int32_t length = 0, at = 0;
  int width = 0;
  const std::uint32_t* stream = a.tail_symbols;
  if (p < a.rows) {
    begin = a.row_ptr[p], length = static_cast<std::int32_t>(a.row_ptr[p + 1] - begin);
    if (length > 0) {
      stream += a.row_symbol[p];
      at = static_cast<std::int32_t>(__ldg(stream));
      width = __ldg(a.width + p);
    }
  }
  // All threads of a warp take part in its shuffles, until its longest row ends.
  const std::int32_t longest = device::warp_max(length);
  const T* const values = a.values + a.tail_at + begin;
  T sum = 0;
  for (std::int32_t k = 0; k < longest; k += lanes * bro_row_batch) {
    std::int32_t step[bro_row_batch];
    T v[bro_row_batch], from_x[bro_row_batch];
#pragma unroll
    for (int j = 0; j < bro_row_batch; ++j) {
      // The field of an entry lies in one symbol or in two (field_at).
      const std::int32_t mine = k + j * lanes + lane;
      const bool coded = mine > 0 && mine < length && width > 0;
      const std::int64_t bit = coded ? std::int64_t{mine - 1} * width : 0;
      const int skip = static_cast<int>(bit % symbol_bits);
      const bool both = skip + width > symbol_bits;
      const std::uint32_t* const symbol = stream + (coded ? 1 + bit / symbol_bits : 0);
      const std::uint64_t high = coded ? __ldg(symbol) : 0u, low = coded && both ? __ldg(symbol + 1) : 0u;
      v[j] = mine < length ? __ldcs(values + mine) : T(0);
      step[j] = coded ? static_cast<std::int32_t>((high << symbol_bits | low) << skip >> (64 - width)) : 0;
    }
#pragma unroll
    for (int d = 1; d < lanes; d *= 2) {
#pragma unroll
      for (int j = 0; j < bro_row_batch; ++j) {
        const std::int32_t other = __shfl_up_sync(0xffffffffu, step[j], d, lanes);
        if (lane >= d) step[j] += other;
      }
    }
#pragma unroll
    for (int j = 0; j < bro_row_batch; ++j) {
      const std::int32_t all = __shfl_sync(0xffffffffu, step[j], lanes - 1, lanes);
      from_x[j] = k + j * lanes + lane < length ? __ldg(x + (at + step[j])) : T(0);
      at += all;
    }
#pragma unroll
    for (int j = 0; j < bro_row_batch; ++j)
      if (k + j * lanes + lane < length) sum += v[j] * from_x[j];
  }
  sum = device::sum_lanes<lanes>(sum);
  if (p < a.rows && lane == 0 && !ended && (length > 0 || !adding)) store(alpha, sum, beta, y + a.row(p));
}

// Threads per row: enough that one round of the loop takes the mean row.
inline int bro_row_lanes(std::int64_t rows, std::int64_t entries) {
  int lanes = 2;
  while (lanes < 32 && entries > rows * lanes * bro_row_batch) lanes *= 2;
  return lanes;
}

// Adds to y. carry_row and carry_value [intervals] get the first row of each interval and its sum.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    bro_entry_product(BroView<T> a, std::int64_t intervals, T alpha, const T* __restrict__ x, T* y,
                      std::int32_t* carry_row, T* carry_value, const int* stop) {
  device::wait_for_stream();
  const bool ended = stop && *stop;
  const std::int64_t interval = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (interval >= intervals || ended) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x % 32);
  // If W < 32, the other lanes go along with the last one, without entries.
  const int its = lane < a.W ? lane : a.W - 1;
  const std::int64_t symbol = __ldg(a.interval_symbol + interval);
  const int width = __ldg(a.width + interval);
  StreamAhead stream(a.tail_symbols + symbol + its, a.W,
                     (__ldg(a.interval_symbol + interval + 1) - symbol) / a.W);
  const std::int32_t base = __ldg(a.base + interval);
  std::int32_t row = base, open = base;  // of this lane; of the entry before the step
  T sum = 0;                             // of the open row
  const auto flush = [&](std::int32_t r, T value) {
    if (r == base)
      carry_row[interval] = r, carry_value[interval] = value;
    else
      y[r] += alpha * value;
  };
  constexpr int batch = 4;
  for (int first = 0; first < a.q; first += batch) {
    T v[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const std::int64_t k = (interval * a.q + first + j) * a.W + lane;
      const bool there = lane < a.W && first + j < a.q && k < a.tail_entries;
      v[j] = there ? __ldcs(a.values + a.tail_at + k) * __ldg(x + __ldcs(a.col + k)) : T(0);
    }
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      if (first + j >= a.q) break;  // the whole warp
      row += static_cast<std::int32_t>(stream.take(width));
      T mine = v[j];
      // Each lane gets the sum of its run up to itself.
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const T other = __shfl_up_sync(0xffffffffu, mine, d);
        const std::int32_t other_row = __shfl_up_sync(0xffffffffu, row, d);
        if (lane >= d && other_row == row) mine += other;
      }
      const std::int32_t right = __shfl_down_sync(0xffffffffu, row, 1);
      const std::int32_t first_row = __shfl_sync(0xffffffffu, row, 0);
      if (row == open) mine += sum;
      if (first_row != open && lane == 0) flush(open, sum);
      if (lane < 31 && right != row) flush(row, mine);
      open = __shfl_sync(0xffffffffu, row, 31);
      sum = __shfl_sync(0xffffffffu, mine, 31);
    }
  }
  if (lane == 0) flush(open, sum);
}

// y := alpha A x + beta y. The carries are workspace.
template <class T>
void multiply_bro(const Context& context, const BroView<T>& a, std::int64_t intervals, T alpha, const T* x,
                  T beta, T* y, std::int32_t* carry_row, T* carry_value) {
  if (a.rows == 0) return;
  const DeviceState& state = context.device_state();
  if (a.slices)
    device::launch(state, bro_slice_product<T>, blocks_of(a.rows), device::block_size, a, alpha, x, beta, y,
                   state.stop);
  if (a.tail == BroTail::rows) {
    const T keep = a.slices ? T(1) : beta;
    const bool adding = a.slices;
    with_group(bro_row_lanes(a.rows, a.tail_entries), [&](auto lanes) {
      device::launch(state, bro_row_product<lanes(), T>, blocks_of(a.rows, device::block_size / lanes()),
                     device::block_size, a, adding, alpha, x, keep, y, state.stop);
    });
  }
  if (a.tail == BroTail::entries) {
    if (!a.slices) scale(context, a.rows, beta, y);
    if (intervals == 0) return;
    device::launch(state, bro_entry_product<T>, blocks_of(intervals * 32), device::block_size, a, intervals,
                   alpha, x, y, carry_row, carry_value, state.stop);
    device::launch(state, add_segment_carries<T>, blocks_of(intervals, segment_carries), segment_carries,
                   intervals, static_cast<const std::int32_t*>(carry_row), static_cast<const T*>(carry_value),
                   alpha, y, state.stop);
  }
}

}  // namespace protean::formats
