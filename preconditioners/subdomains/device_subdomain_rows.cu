// The kernels of device_subdomain_rows.hpp.
#include <algorithm>
#include <type_traits>

#include "core/device/cache.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/common/shared_arrays.cuh"
#include "preconditioners/subdomains/device_subdomain_rows.hpp"

namespace protean::device {
namespace {

using detail::InspectedRows;
using detail::OrderedRows;
using detail::RowsFound;
using detail::SubdomainInspection;
using detail::SubdomainNeeds;
using detail::SubdomainSizes;
using detail::SubdomainsOrdered;
using detail::SubdomainTargets;

constexpr unsigned whole_warp = 0xffffffffu;
// Rows that a warp inspects before it adds its counts to the counts of their subdomains.
constexpr int rows_of_warp = 32;
constexpr int order_threads = 512;  // at most

__device__ inline void add_to(std::uint64_t* to, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
// Most calls find a larger value there, and are done.
template <class U>
__device__ inline void keep_most(U* to, U value) {
  static_assert(sizeof(U) == 8);
  using Wide = std::conditional_t<std::is_signed_v<U>, long long, unsigned long long>;
  auto* const where = reinterpret_cast<Wide*>(to);
  if (static_cast<Wide>(value) > __ldcg(where)) atomicMax(where, static_cast<Wide>(value));
}
__device__ inline std::uint64_t bits_of(double value) {
  return static_cast<std::uint64_t>(__double_as_longlong(value));
}
template <class U>
__device__ inline U most_of_warp(U value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const U other = __shfl_xor_sync(whole_warp, value, step);
    if (other > value) value = other;
  }
  return value;
}

// A group of lanes for each row, warps take rows_of_warp rows at once.
template <int lanes, class T, class Pointer>
__global__ void __launch_bounds__(block_size)
    inspect_kernel(InspectedRows<Pointer> rows, const T* a, SubdomainSizes sizes, bool symmetric,
                   std::uint64_t* counts, SubdomainInspection* seen) {
  wait_for_stream();
  const int lane_of_warp = static_cast<int>(threadIdx.x) % 32, lane = lane_of_warp % lanes;
  const std::int64_t pieces = (std::int64_t{rows.n} + rows_of_warp - 1) / rows_of_warp,
                     stride = std::int64_t{gridDim.x} * (block_size / 32);
  const auto put = [&](std::int32_t row, int k, std::int32_t lower, std::int32_t upper) {
    std::uint64_t* const own = counts + sizes.first[k] + 2 * (row / sizes.size[k]);
    if (lower > 0) add_to(own, static_cast<std::uint64_t>(lower));
    if (upper > 0) add_to(own + 1, static_cast<std::uint64_t>(upper));
  };
  RowsFound found;
  for (std::int64_t piece = (std::int64_t{blockIdx.x} * block_size + threadIdx.x) / 32; piece < pieces;
       piece += stride) {
    const auto first = static_cast<std::int32_t>(piece * rows_of_warp);
    detail::SubdomainBorders borders = detail::borders_of(sizes, first, rows.n);
#pragma unroll
    for (int k = 0; k < SubdomainSizes::most; ++k) found.lower[k] = found.upper[k] = 0;
    for (int step = 0; step < rows_of_warp; step += 32 / lanes) {
      const std::int32_t i = first + step + lane_of_warp / lanes;
      const bool there = i < rows.n;
      if (there && !sizes.whole_warps) borders = detail::borders_of(sizes, i, rows.n);
      found.largest = 0;
      if (there) rows.inspect(i, a, symmetric, borders, lane, lanes, found);
      if (symmetric) {
        double largest = found.largest;
#pragma unroll
        for (int other = lanes / 2; other > 0; other /= 2)
          largest = fmax(largest, __shfl_xor_sync(whole_warp, largest, other, lanes));
        if (there) found.least_row = fmin(found.least_row, largest);
      }
      if (sizes.whole_warps) continue;
#pragma unroll
      for (int k = 0; k < SubdomainSizes::most; ++k) {
        const std::int32_t lower = sum_lanes<lanes>(found.lower[k]), upper = sum_lanes<lanes>(found.upper[k]);
        if (there && lane == 0 && k < sizes.count) put(i, k, lower, upper);
        found.lower[k] = found.upper[k] = 0;
      }
    }
    if (!sizes.whole_warps) continue;
#pragma unroll
    for (int k = 0; k < SubdomainSizes::most; ++k) {
      const std::int32_t lower = warp_sum(found.lower[k]), upper = warp_sum(found.upper[k]);
      if (lane_of_warp == 0 && k < sizes.count) put(first, k, lower, upper);
    }
  }
  const unsigned trouble = static_cast<unsigned>(combine_warp(
      static_cast<std::int32_t>(found.trouble), [](std::int32_t x, std::int32_t y) { return x | y; }));
  const double least_row = -most_of_warp(-found.least_row), difference = most_of_warp(found.difference);
  const auto above = sum_lanes(static_cast<long long>(found.above));
  if (lane_of_warp != 0) return;
  if (trouble != 0) atomicOr(reinterpret_cast<unsigned long long*>(&seen->trouble), trouble);
  if (above != 0) add_to(&seen->above, static_cast<std::uint64_t>(above));
  atomicMin(reinterpret_cast<unsigned long long*>(&seen->least_row), bits_of(least_row));
  keep_most(&seen->difference, bits_of(difference));
}

__host__ __device__ constexpr std::int64_t whole_words(std::int64_t entries) { return (entries + 3) / 4 * 4; }

__device__ inline void keep_needs(SubdomainNeeds* to, const SubdomainNeeds& needs) {
  for (int k = 0; k < 3; ++k) keep_most(to->columns + k, needs.columns[k]);
  keep_most(&to->factors, needs.factors);
}

// Every sizes.count-th block takes subdomains of the same size.
__global__ void __launch_bounds__(block_size)
    needs_kernel(std::int64_t n, SubdomainSizes sizes, std::int64_t value, const std::uint64_t* counts,
                 SubdomainInspection* seen) {
  wait_for_stream();
  const int k = static_cast<int>(blockIdx.x) % sizes.count;
  const std::int64_t blocks = gridDim.x / sizes.count, size = sizes.size[k];
  SubdomainNeeds needs;
  long long entries = 0, most = 0;
  for (std::int64_t s = std::int64_t{blockIdx.x} / sizes.count * block_size + threadIdx.x;
       s < sizes.subdomains[k]; s += blocks * block_size) {
    const auto lower = static_cast<std::int64_t>(counts[sizes.first[k] + 2 * s]),
               upper = static_cast<std::int64_t>(counts[sizes.first[k] + 2 * s + 1]);
    const std::int64_t rows = size < n - s * size ? size : n - s * size;
    needs.add({rows, whole_words(lower), whole_words(upper), 1}, value);
    entries += lower + upper;
    if (lower + upper > most) most = lower + upper;
  }
  for (std::int64_t& one : needs.columns) one = most_of_warp(one);
  needs.factors = most_of_warp(needs.factors);
  entries = sum_lanes(entries), most = most_of_warp(most);
  if (threadIdx.x % 32 != 0) return;
  if (entries > 0)
    add_to(reinterpret_cast<std::uint64_t*>(seen->entries + k), static_cast<std::uint64_t>(entries));
  keep_most(seen->most + k, static_cast<std::int64_t>(most)), keep_needs(seen->needs + k, needs);
}

// The sum of `value` over the lanes of a warp up to this one.
__device__ inline std::int32_t sum_up_to(std::int32_t value, int lane) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const std::int32_t before = __shfl_up_sync(whole_warp, value, step);
    if (lane >= step) value += before;
  }
  return value;
}

// By one warp, when all rows have a level: places of the rows, lengths of L and U. count: of the rows of each level.
// at: room for the row of each place.
template <class Pointer>
__device__ inline void put_places(const OrderedRows<Pointer>& one, std::int64_t s, std::int32_t levels,
                                  std::int64_t value, std::int32_t* count, std::uint16_t* at,
                                  const SubdomainTargets& to, SubdomainsOrdered* seen) {
  const int lane = static_cast<int>(threadIdx.x);
  std::int32_t* const level = to.levels + one.begin + s;
  std::int32_t sum = 0;
  for (std::int32_t first = 0; first < levels; first += 32) {
    const std::int32_t l = first + lane, own = l < levels ? count[l] : 0, up_to = sum_up_to(own, lane);
    if (l < levels) count[l] = level[l] = sum + up_to - own;
    sum += __shfl_sync(whole_warp, up_to, 31);
  }
  if (lane == 0) level[levels] = one.rows;
  __syncwarp();
  for (std::int32_t first = 0; first < one.rows; first += 32) {
    const std::int32_t i = first + lane;
    const bool there = i < one.rows;
    const std::int32_t own = there ? one.level[i] : OrderedRows<Pointer>::none;
    const unsigned alike = __match_any_sync(whole_warp, own);
    const int before = __popc(alike & ((1u << lane) - 1u));
    const std::int32_t begin = there ? count[own] : 0;
    __syncwarp();
    if (there) {
      if (before == 0) count[own] = begin + __popc(alike);
      at[begin + before] = static_cast<std::uint16_t>(i);
      to.place[one.begin + i] = static_cast<std::uint16_t>(begin + before);
    }
    __syncwarp();
  }
  std::int32_t *const lower = to.lower_ptr + one.begin + s, *const upper = to.upper_ptr + one.begin + s;
  if (lane == 0) lower[0] = upper[0] = 0;
  std::int32_t lowers = 0, uppers = 0;
  for (std::int32_t first = 0; first < one.rows; first += 32) {
    const std::int32_t p = first + lane;
    const bool there = p < one.rows;
    const std::int32_t i = there ? at[p] : 0;
    const std::int32_t in_l = sum_up_to(there ? one.lower[i] : 0, lane),
                       in_u = sum_up_to(there ? one.upper[i] : 0, lane);
    if (there) lower[p + 1] = lowers + in_l, upper[p + 1] = uppers + in_u;
    lowers += __shfl_sync(whole_warp, in_l, 31), uppers += __shfl_sync(whole_warp, in_u, 31);
  }
  if (lane != 0) return;
  to.first[s] = one.begin, to.level_first[s] = levels + 1;
  to.lower_first[s] = whole_words(lowers), to.upper_first[s] = whole_words(uppers);
  SubdomainNeeds needs;
  needs.add({one.rows, whole_words(lowers), whole_words(uppers), levels}, value);
  keep_needs(&seen->needs, needs), keep_most(&seen->levels, std::int64_t{levels});
}

// The levels of the rows of a block, each entry of which has its mirrored one; returns how many. If few rows are ready,
// one warp goes alone: its barrier is the cheaper one.
template <class Pointer>
__device__ inline std::int32_t release_rows(const OrderedRows<Pointer>& one, int lanes) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x), threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t few = 4 * 32 / lanes;
  // Numbers of rows that the rounds find, in turn: of the next one, of this one, and one that is set to 0.
  __shared__ std::int32_t found[3], state[3];
  std::uint16_t* const ready = one.next;
  std::int32_t begin = 0, end = 0, round = 0;
  const auto release = [&](std::int32_t size) {
    if (thread == 0) found[(round + 2) % 3] = 0;
    for (std::int32_t k = begin + thread / lanes; k < end; k += size / lanes)
      one.release(ready[k], round, ready + end, found + (round + 1) % 3, thread % lanes, lanes);
  };
  const auto go_on = [&] { begin = end, end += found[++round % 3]; };
  if (thread < 3) found[thread] = 0;
  __syncthreads();
  for (std::int32_t i = thread; i < one.rows; i += threads)
    if (one.waiting[i] == 0) ready[atomicAdd(found, 1)] = static_cast<std::uint16_t>(i);
  __syncthreads();
  for (;;) {
    if (thread < 32) {
      if (round == 0 && end == 0) end = found[0];
      while (begin < end && end - begin <= few) {
        release(32);
        __syncwarp();
        go_on();
      }
      if (thread == 0) state[0] = begin, state[1] = end, state[2] = round;
    }
    __syncthreads();
    begin = state[0], end = state[1], round = state[2];
    if (begin == end) return round;
    release(threads);
    __syncthreads();
    if (thread < 32) go_on();  // the others hear of it
  }
}

// The same for any pattern.
template <class Pointer>
__device__ inline std::int32_t settle_rows(const OrderedRows<Pointer>& one) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x), threads = static_cast<std::int32_t>(blockDim.x);
  std::int32_t round = 0;
  for (bool again = true; again; ++round) {
    for (std::int32_t i = thread; i < one.rows; i += threads) one.look(i);
    __syncthreads();
    bool waits = false;
    for (std::int32_t i = thread; i < one.rows; i += threads) waits |= one.settle(i, round);
    again = __syncthreads_or(waits) != 0;
  }
  return round;
}

// A block for each subdomain. lanes: of a row.
template <class Pointer>
__global__ void __launch_bounds__(order_threads)
    order_kernel(InspectedRows<Pointer> matrix, std::int32_t size, std::int64_t entries, std::int64_t value,
                 int lanes, SubdomainTargets to, SubdomainsOrdered* seen) {
  wait_for_stream();
  const auto thread = static_cast<std::int32_t>(threadIdx.x), threads = static_cast<std::int32_t>(blockDim.x);
  const std::int64_t s = blockIdx.x;
  OrderedRows<Pointer> one;
  one.matrix = matrix, one.begin = static_cast<std::int32_t>(s * size);
  one.rows = min(size, matrix.n - one.begin);
  SharedArrays arrays;
  one.start = arrays.take<std::int32_t>(one.rows), one.waiting = arrays.take<std::int32_t>(one.rows);
  one.lower = arrays.take<std::uint16_t>(one.rows), one.upper = arrays.take<std::uint16_t>(one.rows);
  one.next = arrays.take<std::uint16_t>(one.rows), one.level = arrays.take<std::uint16_t>(one.rows);
  one.col = arrays.take<std::uint16_t>(entries);
  __shared__ std::int32_t used;
  if (thread == 0) used = 0;
  for (std::int32_t i = thread; i < one.rows; i += threads)
    one.clear(i), to.row[one.begin + i] = one.begin + i;
  __syncthreads();
  // Rows take room for their entries as they come: where it is has no effect on what is found.
  for (std::int32_t first = 0; first < one.rows; first += threads / lanes) {
    const std::int32_t i = first + thread / lanes;
    detail::RowWithin row{};
    if (i < one.rows) row = one.within(i);
    std::int32_t at = 0;
    if (thread % lanes == 0 && i < one.rows)
      at = atomicAdd(&used, static_cast<std::int32_t>(row.lower_end - row.lower + row.upper_end - row.upper));
    at = __shfl_sync(whole_warp, at, 0, lanes);
    if (i < one.rows) one.load(i, row, at, thread % lanes, lanes);
  }
  __syncthreads();
  bool mirrored = true;
  for (std::int32_t i = thread / lanes; i < one.rows && mirrored; i += threads / lanes)
    mirrored = one.is_mirrored(i, thread % lanes, lanes);
  const bool all_mirrored = __syncthreads_and(mirrored) != 0;
  const std::int32_t levels = all_mirrored ? release_rows(one, lanes) : settle_rows(one);
  // Nobody waits any more: all numbers are 0.
  for (std::int32_t i = thread; i < one.rows; i += threads) atomicAdd(one.waiting + one.level[i], 1);
  __syncthreads();
  if (thread < 32) put_places(one, s, levels, value, one.waiting, one.next, to, seen);
  if (thread == 0 && blockIdx.x == gridDim.x - 1) to.first[s + 1] = matrix.n;
}

__global__ void sums_kernel(std::int64_t count, SubdomainTargets to, SubdomainsOrdered* seen) {
  wait_for_stream();
  seen->level = to.level_first[count], seen->lower = to.lower_first[count],
  seen->upper = to.upper_first[count];
}

template <class Pointer>
__global__ void __launch_bounds__(order_threads)
    fill_kernel(InspectedRows<Pointer> matrix, int lanes, SubdomainTargets to) {
  wait_for_stream();
  const auto thread = static_cast<std::int32_t>(threadIdx.x), threads = static_cast<std::int32_t>(blockDim.x);
  const std::int64_t s = blockIdx.x;
  const auto begin = static_cast<std::int32_t>(to.first[s]), end = static_cast<std::int32_t>(to.first[s + 1]);
  const std::int32_t rows = end - begin;
  SharedArrays arrays;
  auto* const place = arrays.take<std::uint16_t>(rows);
  for (std::int32_t i = thread; i < rows; i += threads) place[i] = to.place[begin + i];
  const std::int64_t first_level = to.level_first[s];
  const auto levels = static_cast<std::int32_t>(to.level_first[s + 1] - first_level);
  for (std::int32_t l = thread; l < levels; l += threads)
    to.level[first_level + l] = to.levels[begin + s + l];
  const std::int32_t *const lower_ptr = to.lower_ptr + begin + s, *const upper_ptr = to.upper_ptr + begin + s;
  std::uint16_t *const lower = to.lower_col + to.lower_first[s], *const upper =
                                                                     to.upper_col + to.upper_first[s];
  // The gap before the next subdomain.
  const auto clear = [&](std::uint16_t* col, std::int32_t used, std::int64_t all) {
    if (used + thread < static_cast<std::int32_t>(all)) col[used + thread] = 0;
  };
  if (thread < 4) {
    clear(lower, lower_ptr[rows], to.lower_first[s + 1] - to.lower_first[s]);
    clear(upper, upper_ptr[rows], to.upper_first[s + 1] - to.upper_first[s]);
  }
  __syncthreads();
  for (std::int32_t i = thread / lanes; i < rows; i += threads / lanes) {
    const detail::RowWithin row = matrix.within(begin + i, begin, end);
    const std::int32_t p = place[i];
    detail::fill_places(matrix.columns, row.lower, row.lower_end, begin, place, lower + lower_ptr[p],
                        thread % lanes, lanes);
    detail::fill_places(matrix.columns, row.upper, row.upper_end, begin, place, upper + upper_ptr[p],
                        thread % lanes, lanes);
  }
}

template <class Pointer>
InspectedRows<Pointer> rows_of(const SparsityPattern& pattern, const Pointer* ptr) {
  return {static_cast<std::int32_t>(pattern.rows), ptr, pattern.col};
}
// Lanes of a row, 1, 2, 4 or 8: each has some entries.
int lanes_for(const SparsityPattern& pattern, std::int64_t entries_of_lane) {
  int lanes = 1;
  while (lanes < 8 && pattern.nonzeros > entries_of_lane * lanes * pattern.rows) lanes *= 2;
  return lanes;
}
int threads_for(std::int64_t size, std::int64_t n) {
  const std::int64_t rows = std::min(size, n);
  return static_cast<int>(std::min<std::int64_t>(order_threads, (rows + 31) / 32 * 32));
}

// Calls f with a U on the device, at first as on the host, and returns what it is then.
template <class U, class F>
U filled_in(const Context& context, F f) {
  U here;
  const Scratch<U> there(context, 1);
  copy_in(context, there.data(), &here, sizeof here);
  f(there.data());
  copy_out(context, &here, there.data(), sizeof here);
  return here;
}

}  // namespace

template <class T>
SubdomainInspection inspect_subdomains(const Context& context, const CsrMatrix<T>& csr,
                                       const SubdomainSizes& sizes, bool symmetric, std::uint64_t* counts) {
  const DeviceState& state = context.device_state();
  const std::int64_t n = csr.rows(), last = sizes.count - 1;
  const auto pairs = static_cast<std::size_t>(sizes.first[last] / 2 + sizes.subdomains[last]);
  return filled_in<SubdomainInspection>(context, [&](SubdomainInspection* seen) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts, 0, pairs * 2 * sizeof *counts, state.stream));
    const int lanes = lanes_for(csr.pattern, 1);
    csr.pattern.row_ptr.visit([&](const auto* ptr) {
      using Pointer = std::remove_cvref_t<decltype(*ptr)>;
      const auto rows = rows_of(csr.pattern, ptr);
      const auto with = [&](auto of_row) {
        launch(state, inspect_kernel<of_row(), T, Pointer>, blocks_for(state, n), block_size, rows,
               static_cast<const T*>(csr.values), sizes, symmetric, counts, seen);
      };
      if (lanes >= 8)
        with(std::integral_constant<int, 8>());
      else if (lanes >= 4)
        with(std::integral_constant<int, 4>());
      else
        with(std::integral_constant<int, 1>());
    });
    const std::int64_t most = *std::max_element(sizes.subdomains, sizes.subdomains + sizes.count);
    const std::int64_t blocks = std::min<std::int64_t>(64, (most + block_size - 1) / block_size);
    launch(state, needs_kernel, blocks * sizes.count, block_size, n, sizes,
           static_cast<std::int64_t>(sizeof(T)), static_cast<const std::uint64_t*>(counts), seen);
  });
}

SubdomainsOrdered order_subdomains(const Context& context, const SparsityPattern& pattern, std::int32_t size,
                                   std::int64_t entries, std::int64_t value, const SubdomainTargets& to) {
  const DeviceState& state = context.device_state();
  const std::int64_t n = pattern.rows, count = (n + size - 1) / size;
  return filled_in<SubdomainsOrdered>(context, [&](SubdomainsOrdered* seen) {
    pattern.row_ptr.visit([&](const auto* ptr) {
      using Pointer = std::remove_cvref_t<decltype(*ptr)>;
      allow_memory(order_kernel<Pointer>, shared_memory_of_block(context));
      launch_with_memory(state, order_kernel<Pointer>, count, threads_for(size, n),
                         detail::shared_for_order(std::min<std::int64_t>(size, n), entries),
                         rows_of(pattern, ptr), size, entries, value, lanes_for(pattern, 4), to, seen);
    });
    exclusive_scan(context, to.level_first, count + 1);
    exclusive_scan(context, to.lower_first, count + 1);
    exclusive_scan(context, to.upper_first, count + 1);
    launch(state, sums_kernel, 1, 1, count, to, seen);
  });
}

void fill_subdomains(const Context& context, const SparsityPattern& pattern, std::int32_t size,
                     const SubdomainTargets& to) {
  const std::int64_t n = pattern.rows, count = (n + size - 1) / size, rows = std::min<std::int64_t>(size, n);
  pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    allow_memory(fill_kernel<Pointer>, shared_memory_of_block(context));
    launch_with_memory(context.device_state(), fill_kernel<Pointer>, count, threads_for(size, n),
                       detail::in_words(2 * rows), rows_of(pattern, ptr), lanes_for(pattern, 4), to);
  });
}

template SubdomainInspection inspect_subdomains<float>(const Context&, const CsrMatrix<float>&,
                                                       const SubdomainSizes&, bool, std::uint64_t*);
template SubdomainInspection inspect_subdomains<double>(const Context&, const CsrMatrix<double>&,
                                                        const SubdomainSizes&, bool, std::uint64_t*);

}  // namespace protean::device
