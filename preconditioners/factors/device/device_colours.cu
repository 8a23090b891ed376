// The kernels of device_colours.hpp.
#include <algorithm>
#include <bit>

#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/transfer.hpp"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/common/shared_arrays.cuh"
#include "preconditioners/factors/device/device_colours.hpp"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::device {
namespace {

using detail::ColouredRows;
using detail::ColouringRows;
constexpr int lanes = 4;  // of a row, if lanes share one

struct ColourStatus {
  int given_up = 0;  // the host must colour
  std::int32_t count = 0;
  unsigned ticket = 0;           // of the next block
  unsigned long long begin = 0;  // nanoseconds, of the first block
};

// After this time the chains of rows that wait for each other are too long for a device. The result does not depend on
// it: the host finds the same colours.
constexpr unsigned long long patience(std::int64_t rows) {
  return 2'000'000 + 5 * static_cast<unsigned long long>(rows);
}

__device__ inline unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
// Colours travel through the memory that all processors share, without other data: -1 is not a colour.
__device__ inline std::int32_t load_shared(const std::int32_t* where) {
  std::int32_t value;
  asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(value) : "l"(where) : "memory");
  return value;
}
__device__ inline void store_shared(std::int32_t* where, std::int32_t value) {
  asm volatile("st.relaxed.gpu.s32 [%0], %1;" ::"l"(where), "r"(value) : "memory");
}

template <class Pointer>
__global__ void __launch_bounds__(block_size)
    mirrored_kernel(ColouringRows<Pointer> rows, ColourStatus* status) {
  wait_for_stream();
  const std::int64_t i = place_of_thread<lanes>();
  if (i < rows.rows && !rows.is_mirrored(i, static_cast<int>(threadIdx.x) % lanes, lanes))
    status->given_up = 1;
}

constexpr int seen_at_a_time = 4;

// A row on its way to its colour: what the coupled rows before it have left, as far as they have a colour.
template <class Rule, class Pointer>
struct WaitingRow {
  Pointer next = 0, end = 0;
  Rule rule;

  // Goes on over the rows that have a colour. The row for which it waits, or -1 if it has seen all.
  __device__ std::int32_t go_on(std::int64_t i, const std::int32_t* __restrict__ columns,
                                const std::int32_t* colour) {
    for (;;) {
      std::int32_t column[seen_at_a_time], other[seen_at_a_time];
#pragma unroll
      for (int q = 0; q < seen_at_a_time; ++q) {
        column[q] = next + q < end ? __ldg(columns + next + q) : -1;
        if (column[q] >= i) column[q] = -1;  // columns ascend
      }
#pragma unroll
      for (int q = 0; q < seen_at_a_time; ++q)
        other[q] = column[q] >= 0 ? load_shared(colour + column[q]) : 0;
#pragma unroll
      for (int q = 0; q < seen_at_a_time; ++q) {
        if (column[q] < 0) return -1;
        if (other[q] < 0) return column[q];
        rule.see(other[q]), ++next;
      }
    }
  }
};

// A thread for each `rows_of_thread` rows, blocks in the order of their tickets, so that a row waits for rows that are
// on the device. The threads of a warp look at the neighbours of all their rows in turn until these have a colour: none
// keeps back another one.
template <int rows_of_thread, class Rule, class Pointer>
__global__ void __launch_bounds__(block_size, 5)
    colour_kernel(ColouringRows<Pointer> rows, std::int32_t most, unsigned long long longest,
                  std::int32_t* colour, ColourStatus* status) {
  wait_for_stream();
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) {
    ticket = atomicAdd(&status->ticket, 1u);
    if (ticket == 0) atomicExch(&status->begin, nanoseconds());
  }
  __syncthreads();
  const std::int64_t first = std::int64_t{ticket} * block_size * rows_of_thread + threadIdx.x;
  WaitingRow<Rule, Pointer> row[rows_of_thread];
  std::int32_t waits_for[rows_of_thread];  // -1: for nothing
  std::int32_t largest = 0;
  const auto go_on = [&](int r) {
    const std::int64_t i = first + r * block_size;
    waits_for[r] = row[r].go_on(i, rows.columns, colour);
    if (waits_for[r] >= 0) return;
    const std::int32_t own = row[r].rule.own();
    if (own < 0 || own >= most)
      atomicExch(&status->given_up, 1);
    else
      store_shared(colour + i, own);
    largest = own + 1 > largest ? own + 1 : largest;
  };
#pragma unroll
  for (int r = 0; r < rows_of_thread; ++r) {
    waits_for[r] = -1;
    const std::int64_t i = first + r * block_size;
    if (i >= rows.rows) continue;
    row[r].next = rows.ptr[i], row[r].end = rows.ptr[i + 1];
    go_on(r);
  }
  for (unsigned turn = 0;; ++turn) {
    bool done = true;
    std::int32_t seen[rows_of_thread];
#pragma unroll
    for (int r = 0; r < rows_of_thread; ++r) {
      seen[r] = waits_for[r] >= 0 ? load_shared(colour + waits_for[r]) : -1;
      done = done && waits_for[r] < 0;
    }
    if (__all_sync(0xffffffffu, done)) break;
#pragma unroll
    for (int r = 0; r < rows_of_thread; ++r)
      if (seen[r] >= 0) row[r].rule.see(seen[r]), ++row[r].next, go_on(r);
    if (turn % 32 == 31) {
      bool stop = load_shared(&status->given_up) != 0;
      const auto begin = *static_cast<volatile unsigned long long*>(&status->begin);
      if (!stop && begin != 0 && nanoseconds() > begin + longest) {
        atomicExch(&status->given_up, 1);
        stop = true;
      }
      if (__any_sync(0xffffffffu, stop)) break;
    }
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0 && largest > load_shared(&status->count)) atomicMax(&status->count, largest);
}

__global__ void __launch_bounds__(block_size) number_kernel(std::int32_t* row, std::int64_t n) {
  wait_for_stream();
  const std::int64_t i = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (i < n) row[i] = static_cast<std::int32_t>(i);
}

__global__ void __launch_bounds__(block_size)
    place_kernel(const std::int32_t* row, const std::uint32_t* key, std::int64_t n, std::int32_t* place,
                 std::int64_t* first) {
  wait_for_stream();
  const std::int64_t k = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (k >= n) return;
  place[row[k]] = static_cast<std::int32_t>(k);
  if (k == 0 || key[k - 1] != key[k]) first[key[k]] = k;
}

// The lengths of L from `lengths` on, followed by the lengths of U.
template <int lanes, class Pointer>
__global__ void __launch_bounds__(block_size)
    count_kernel(ColouringRows<Pointer> rows, std::int64_t* lengths) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= rows.rows) return;
  std::int64_t in_l, in_u;
  rows.count(k, in_l, in_u, static_cast<int>(threadIdx.x) % lanes, lanes);
  const unsigned all = lanes_of_row<lanes>();
  for (int next = lanes / 2; next > 0; next /= 2)
    in_l += __shfl_xor_sync(all, in_l, next), in_u += __shfl_xor_sync(all, in_u, next);
  if (threadIdx.x % lanes == 0) lengths[k] = in_l, lengths[rows.rows + k] = in_u;
}

// For each colour, and behind the last one: lower[first] and upper[first] - upper[0].
__global__ void __launch_bounds__(block_size)
    entries_kernel(const std::int64_t* first, std::int32_t count, std::int64_t n, const std::int64_t* both,
                   std::int64_t* entries) {
  wait_for_stream();
  const std::int64_t c = std::int64_t{blockIdx.x} * block_size + threadIdx.x;
  if (c > count) return;
  const std::int64_t k = c < count ? first[c] : n;
  entries[c] = both[k], entries[count + 1 + c] = both[n + k] - both[n];
}

// ColouringRows::fill() with the keys of the row in shared memory, entries of U behind all of L. Rows of more than
// `room` entries read them from memory.
template <int lanes, class Pointer>
__global__ void __launch_bounds__(block_size)
    fill_kernel(ColouringRows<Pointer> rows, std::int32_t room, const std::int64_t* lower,
                const std::int64_t* upper, std::int32_t* col, std::int32_t* key) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= rows.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int32_t i = rows.row[k];
  const std::int64_t begin = rows.ptr[i];
  const std::int64_t length = rows.ptr[i + 1] - begin;
  if (length > room) return rows.fill(k, lower, upper, col, key, lane, lanes);
  constexpr std::uint32_t of_upper = 1u << 31, left_out = 0xffffffffu;
  std::uint32_t* const keys = SharedArrays().take<std::uint32_t>(block_size / lanes * std::int64_t{room}) +
                              threadIdx.x / lanes * room;
  const std::int32_t own = rows.colour[i];
  for (std::int64_t e = lane; e < length; e += lanes) {
    const std::int32_t j = rows.columns[begin + e];
    const bool in_l = rows.colour[j] < own;
    keys[e] = j == i || (!in_l && !rows.with_upper)
                  ? left_out
                  : static_cast<std::uint32_t>(rows.place[j]) | (in_l ? 0 : of_upper);
  }
  __syncwarp(lanes_of_row<lanes>());
  const std::int64_t in_l = lower[k + 1] - lower[k];
  for (std::int64_t e = lane; e < length; e += lanes) {
    const std::uint32_t mine = keys[e];
    if (mine == left_out) continue;
    std::int64_t before = 0;
    for (std::int64_t other = 0; other < length; ++other) before += keys[other] < mine;
    const std::int64_t at = (mine & of_upper) != 0 ? upper[k] + before - in_l : lower[k] + before;
    col[at] = rows.columns[begin + e], key[at] = static_cast<std::int32_t>(mine & ~of_upper);
  }
}

__global__ void __launch_bounds__(block_size)
    mirror_kernel(std::int64_t n, const std::int64_t* lower, const std::int64_t* upper,
                  const std::int32_t* key, std::int32_t* mirror) {
  wait_for_stream();
  const std::int64_t k = place_of_thread<lanes>();
  if (k >= n) return;
  for (std::int64_t p = lower[k] + threadIdx.x % lanes; p < lower[k + 1]; p += lanes)
    mirror[p] = detail::mirror_of(key, upper, k, p);
}

std::int64_t blocks_of(std::int64_t items) { return (items + block_size - 1) / block_size; }

template <class Pointer>
ColouringRows<Pointer> rows_of(const SparsityPattern& pattern, const Pointer* ptr) {
  ColouringRows<Pointer> rows;
  rows.rows = pattern.rows, rows.ptr = ptr, rows.columns = pattern.col;
  return rows;
}

}  // namespace

bool find_colours(const ContextPtr& context, const SparsityPattern& pattern, bool levels, std::int32_t most,
                  std::int32_t* colour, std::int32_t& count) {
  const std::int64_t n = pattern.rows;
  count = 0;
  if (n == 0) return true;
  const DeviceState& state = context->device_state();
  Buffer<ColourStatus> there(context, 1);
  ColourStatus status;
  detail::copy_bytes(*context, there.data(), Space::device, &status, Space::host, sizeof status);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(colour, 0xff, static_cast<std::size_t>(n) * 4, state.stream));
  pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    const auto rows = rows_of(pattern, ptr);
    launch(state, mirrored_kernel<Pointer>, blocks_of_rows(n, lanes), block_size, rows, there.data());
    const auto find = [&]<int rows_of_thread>() {
      constexpr std::int64_t of_block = block_size * rows_of_thread;
      launch(state,
             levels ? colour_kernel<rows_of_thread, detail::NextLevel, Pointer>
                    : colour_kernel<rows_of_thread, detail::FreeColour, Pointer>,
             (n + of_block - 1) / of_block, block_size, rows, most, patience(n), colour, there.data());
    };
    // The wave of colours that goes through a large grid is as wide as the rows on the device, so a thread has several
    // of them then. If they have many entries, or all are there, that only makes a turn longer.
    constexpr std::int64_t threads_of_processor = 2048, entries_of_short_rows = 16;
    const bool wide =
        n > state.processors * threads_of_processor && pattern.nonzeros < entries_of_short_rows * n;
    wide ? find.template operator()<4>() : find.template operator()<1>();
  });
  detail::copy_bytes(*context, &status, Space::host, there.data(), Space::device, sizeof status);
  count = status.count;
  return status.given_up == 0;
}

void order_by_colours(const ContextPtr& context, const SparsityPattern& pattern, const std::int32_t* colour,
                      std::int32_t count, bool with_upper, ColouredRows& made) {
  const std::int64_t n = pattern.rows;
  made.first.assign(static_cast<std::size_t>(count) + 1, n);
  made.lower_first.assign(made.first.size(), 0), made.upper_first = made.lower_first;
  const DeviceState& state = context->device_state();
  if (n == 0) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(made.lower.data(), 0, sizeof(std::int64_t), state.stream));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(made.upper.data(), 0, sizeof(std::int64_t), state.stream));
    return;
  }
  const auto bytes_of = [](std::int64_t items, std::size_t item) {
    return static_cast<std::size_t>(items) * item;
  };
  Buffer<std::uint32_t> keys(context, n);
  Buffer<std::int64_t> both(context, 2 * n + 1), found(context, 3 * (std::int64_t{count} + 1));
  // The first third has one number more than there are colours. It is copied to the host, but not used.
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), state.stream));
  detail::copy_bytes(*context, keys.data(), Space::device, colour, Space::device, bytes_of(n, 4));
  std::int32_t* const row = made.row.data();
  launch(state, number_kernel, blocks_of(n), block_size, row, n);
  sort_pairs(*context, keys.data(), row, n, std::bit_width(static_cast<unsigned>(count)));
  launch(state, place_kernel, blocks_of(n), block_size, static_cast<const std::int32_t*>(row),
         static_cast<const std::uint32_t*>(keys.data()), n, made.place.data(), found.data());
  pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    auto rows = rows_of(pattern, ptr);
    rows.colour = colour, rows.row = row, rows.place = made.place.data(), rows.with_upper = with_upper;
    const auto with_lanes_of_row = [&](auto f) {
      pattern.nonzeros < 16 * n ? f(std::integral_constant<int, lanes>())
                                : f(std::integral_constant<int, 32>());
    };
    with_lanes_of_row([&](auto of) {
      launch(state, count_kernel<of(), Pointer>, blocks_of_rows(n, of()), block_size, rows, both.data());
    });
    exclusive_scan(*context, both.data(), 2 * n + 1);
    launch(state, entries_kernel, blocks_of(std::int64_t{count} + 1), block_size,
           static_cast<const std::int64_t*>(found.data()), count, n,
           static_cast<const std::int64_t*>(both.data()), found.data() + count + 1);
    detail::copy_bytes(*context, made.lower.data(), Space::device, both.data(), Space::device,
                       bytes_of(n + 1, 8));
    detail::copy_bytes(*context, made.upper.data(), Space::device, both.data() + n, Space::device,
                       bytes_of(n + 1, 8));
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(found.size()));
    detail::copy_bytes(*context, numbers.data(), Space::host, found.data(), Space::device, found.bytes());
    const auto number = [&](std::int64_t part) { return numbers.begin() + part * (count + 1); };
    std::copy(number(0), number(0) + count, made.first.begin());
    std::copy(number(1), number(2), made.lower_first.begin());
    std::copy(number(2), numbers.end(), made.upper_first.begin());
    const std::int64_t lower = made.lower_first.back(), entries = lower + made.upper_first.back();
    made.col = Buffer<std::int32_t>(context, entries), made.key = Buffer<std::int32_t>(context, entries);
    made.mirror = Buffer<std::int32_t>(context, lower);
    with_lanes_of_row([&](auto of) {
      const std::int32_t room = room_for_rows(pattern.nonzeros, n, of(), sizeof(std::uint32_t));
      launch_with_memory(state, fill_kernel<of(), Pointer>, blocks_of_rows(n, of()), block_size,
                         std::int64_t{room} * (block_size / of()) * 4, rows, room,
                         static_cast<const std::int64_t*>(made.lower.data()),
                         static_cast<const std::int64_t*>(made.upper.data()), made.col.data(),
                         made.key.data());
    });
    if (with_upper)
      launch(state, mirror_kernel, blocks_of_rows(n, lanes), block_size, n,
             static_cast<const std::int64_t*>(made.lower.data()),
             static_cast<const std::int64_t*>(made.upper.data()),
             static_cast<const std::int32_t*>(made.key.data()), made.mirror.data());
  });
}

}  // namespace protean::device
