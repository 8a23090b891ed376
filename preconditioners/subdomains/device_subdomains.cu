// The kernels of device_subdomains.hpp.
#include <algorithm>
#include <climits>

#include "core/device/cache.hpp"
#include "core/device/kernel_tools.cuh"
#include "preconditioners/common/lanes.cuh"
#include "preconditioners/common/shared_arrays.cuh"
#include "preconditioners/subdomains/device_subdomains.hpp"

namespace protean::device {
namespace {

using detail::FactorRules;
using detail::SubdomainLaunch;
using detail::SubdomainRows;
using detail::SubdomainStatus;
using Place = std::uint16_t;
template <class T>
using View = detail::SubdomainView<T, Place>;

constexpr int most_threads = 256;
// Lanes of a row from which on a factorization has tables of its entries, if they have room, and divides the search of
// mirrored ones. Short rows wait for other things.
constexpr int many_lanes = 16;

// By all threads of the block.
template <class Word>
__device__ inline void copy_words(Word* to, const Word* from, std::int32_t words) {
#pragma unroll 8
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < words;
       i += static_cast<std::int32_t>(blockDim.x))
    to[i] = from[i];
}
// entries: a multiple of 4.
template <class T>
__device__ inline void copy_triangle(T* values, Place* col, std::int32_t* ptr,
                                     const detail::SubdomainTriangleView<T, Place>& from, std::int64_t s,
                                     std::int64_t first_ptr, std::int32_t rows) {
  const std::int64_t begin = from.first[s];
  const auto entries = static_cast<std::int32_t>(from.first[s + 1] - begin);
  copy_words(reinterpret_cast<uint4*>(values), reinterpret_cast<const uint4*>(from.values + begin),
             entries * static_cast<std::int32_t>(sizeof(T)) / 16);
  copy_words(reinterpret_cast<uint2*>(col), reinterpret_cast<const uint2*>(from.col + begin), entries / 4);
  copy_words(ptr, from.ptr + first_ptr, rows + 1);
}

// What a thread needs of its row of the next level: bounds, and its first entries.
template <int lanes, class T>
struct RowAhead {
  static constexpr int most = 4;
  std::int32_t place = 0, end_of_level = 0, entry = 0, end = 0;
  std::int32_t col[most];
  T value[most];

  __device__ void load(const std::int32_t* level, int l, int group, int lane, const std::int32_t* ptr,
                       const Place* cols, const T* values) {
    place = level[l] + group, end_of_level = level[l + 1];
    if (place >= end_of_level) return;
    entry = ptr[place] + lane, end = ptr[place + 1];
#pragma unroll
    for (int u = 0; u < most; ++u)
      if (entry + u * lanes < end) col[u] = cols[entry + u * lanes], value[u] = values[entry + u * lanes];
  }
};

// x_p -= sum_q t_pq x_q, level after level from `first` to before `last`. A group of lanes x columns neighbouring
// threads has a row: thread `lane * columns + c` of it every `lanes`-th entry for column c. Each row is summed in one
// order, whatever the number of columns and threads.
template <int lanes, int columns, class T, class Sync>
__device__ inline void solve_levels(const std::int32_t* level, int first, int last, int step, int threads,
                                    const std::int32_t* ptr, const Place* cols, const T* values, T* x,
                                    Sync sync) {
  constexpr int of_row = lanes * columns;
  const int group = static_cast<int>(threadIdx.x) / of_row, groups = threads / of_row,
            lane = static_cast<int>(threadIdx.x) % of_row / columns,
            c = static_cast<int>(threadIdx.x) % columns;
  if (first == last) return;
  const unsigned mask = lanes_of_row<of_row>();
  RowAhead<lanes, T> now;
  now.load(level, first, group, lane, ptr, cols, values);
  for (int l = first; l != last; l += step) {
    // The loads of this level are begun, then the loads of the next one, before their results are used.
    T here[RowAhead<lanes, T>::most], own = 0;
    const bool there = now.place < now.end_of_level;
    if (there) {
#pragma unroll
      for (int u = 0; u < RowAhead<lanes, T>::most; ++u)
        here[u] = now.entry + u * lanes < now.end ? x[now.col[u] * columns + c] : T(0);
      if (lane == 0) own = x[now.place * columns + c];
    }
    RowAhead<lanes, T> next;
    if (l + step != last) next.load(level, l + step, group, lane, ptr, cols, values);
    if (there) {
      T sum = 0;
#pragma unroll
      for (int u = 0; u < RowAhead<lanes, T>::most; ++u)
        if (now.entry + u * lanes < now.end) sum += now.value[u] * here[u];
      for (std::int32_t e = now.entry + RowAhead<lanes, T>::most * lanes; e < now.end; e += lanes)
        sum += values[e] * x[cols[e] * columns + c];
#pragma unroll
      for (int distance = of_row / 2; distance >= columns && lanes > 1; distance /= 2)
        sum += __shfl_xor_sync(mask, sum, distance, of_row);
      if (lane == 0) x[now.place * columns + c] = own - sum;
      for (std::int32_t p = now.place + groups; p < now.end_of_level; p += groups) {
        T more = 0;
        for (std::int32_t e = ptr[p] + lane; e < ptr[p + 1]; e += lanes)
          more += values[e] * x[cols[e] * columns + c];
#pragma unroll
        for (int distance = of_row / 2; distance >= columns && lanes > 1; distance /= 2)
          more += __shfl_xor_sync(mask, more, distance, of_row);
        if (lane == 0) x[p * columns + c] -= more;
      }
    }
    sync();
    now = next;
  }
}

// A view of several vectors as a kernel takes it.
template <class T>
struct Vectors {
  T* data;
  std::int64_t row_step, column_step;
  __device__ T* at(std::int64_t row, int column) const {
    return data + row * row_step + column * column_step;
  }
};

template <int lanes, int columns, class T>
__global__ void __launch_bounds__(most_threads)
    solve_kernel(View<T> view, T alpha, Vectors<const T> r, T beta, Vectors<T> z, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t s = blockIdx.x, begin = view.first[s];
  const auto rows = static_cast<std::int32_t>(view.first[s + 1] - begin);
  const std::int64_t begin_levels = view.level_first[s];
  const auto levels = static_cast<int>(view.level_first[s + 1] - begin_levels) - 1;
  const std::int64_t lower = view.lower.first[s + 1] - view.lower.first[s],
                     upper = view.upper.first[s + 1] - view.upper.first[s],
                     entries = lower > upper ? lower : upper;
  SharedArrays arrays;
  T* const x = arrays.take<T>(std::int64_t{rows} * columns);
  T* const values = arrays.take<T>(entries);
  Place* const cols = arrays.take<Place>(entries);
  auto* const ptr = arrays.take<std::int32_t>(rows + 1);
  auto* const level = arrays.take<std::int32_t>(levels + 1);
  const auto thread = static_cast<std::int32_t>(threadIdx.x), threads = static_cast<std::int32_t>(blockDim.x);
  copy_triangle(values, cols, ptr, view.lower, s, begin + s, rows);
  copy_words(level, view.level + begin_levels, levels + 1);
#pragma unroll 4
  for (std::int32_t i = thread; i < rows * columns; i += threads) {
    const std::int32_t k = i / columns, c = i % columns, row = view.row[begin + k];
    x[view.place[begin + k] * columns + c] = *r.at(row < 0 ? ~row : row, c);
  }
  __syncthreads();
  // If the rows of a level fill no more than a warp, one warp goes alone: its barrier is the cheaper one.
  const bool one_warp = std::int64_t{rows} * lanes * columns <= std::int64_t{levels} * 32;
  const auto solve = [&](int first, int last, int step) {
    if (!one_warp)
      solve_levels<lanes, columns>(level, first, last, step, threads, ptr, cols, values, x,
                                   [] { __syncthreads(); });
    else if (thread < 32)
      solve_levels<lanes, columns>(level, first, last, step, 32, ptr, cols, values, x, [] { __syncwarp(); });
    __syncthreads();
  };
  solve(1, levels < 1 ? 1 : levels, 1);  // the first level has no entries in L
  copy_triangle(values, cols, ptr, view.upper, s, begin + s, rows);
#pragma unroll 4
  for (std::int32_t i = thread; i < rows * columns; i += threads) x[i] *= view.d[begin + i / columns];
  __syncthreads();
  solve(levels - 2 < 0 ? -1 : levels - 2, -1, -1);  // nor has the last one in U
#pragma unroll 4
  for (std::int32_t i = thread; i < rows * columns; i += threads) {
    const std::int32_t k = i / columns, c = i % columns, row = view.row[begin + k];
    if (row < 0) continue;
    const T value = alpha * x[view.place[begin + k] * columns + c];
    T* const to = z.at(row, c);
    *to = beta == T(0) ? value : value + beta * *to;
  }
}

__device__ inline void keep_largest(unsigned long long* to, double value) {
  atomicMax(to, static_cast<unsigned long long>(__double_as_longlong(value)));
}

template <int lanes, class T, class Pointer>
__global__ void __launch_bounds__(most_threads)
    factor_kernel(View<T> view, const Pointer* row_ptr, const std::int32_t* columns, const T* a,
                  FactorRules rules, T smallest_part, bool with_table, SubdomainStatus* status) {
  wait_for_stream();
  with_table = with_table && lanes >= many_lanes;
  const std::int64_t s = blockIdx.x, begin = view.first[s];
  const std::int64_t begin_levels = view.level_first[s];
  const auto levels = static_cast<int>(view.level_first[s + 1] - begin_levels) - 1;
  const SubdomainRows<T, Place> there = view.of(s);
  const std::int32_t rows = there.rows;
  const auto lower = static_cast<std::int32_t>(view.lower.first[s + 1] - view.lower.first[s]),
             upper = static_cast<std::int32_t>(view.upper.first[s + 1] - view.upper.first[s]);
  SharedArrays arrays;
  SubdomainRows<T, Place> here;
  T* const l = arrays.take<T>(lower);
  T* const u = arrays.take<T>(upper);
  Place* const lower_col = arrays.take<Place>(lower);
  Place* const upper_col = arrays.take<Place>(upper);
  auto* const lower_ptr = arrays.take<std::int32_t>(rows + 1);
  auto* const upper_ptr = arrays.take<std::int32_t>(rows + 1);
  auto* const row = arrays.take<std::int32_t>(rows);
  Place* const place = arrays.take<Place>(rows);
  T* const d = arrays.take<T>(rows);
  auto* const level = arrays.take<std::int32_t>(levels + 1);
  // Of each place the number of its entry in the row that the lanes factor, from 1 on.
  Place* const where = arrays.take<Place>(with_table ? std::int64_t{rows} * (most_threads / lanes) : 0) +
                       (with_table ? rows * (static_cast<std::int32_t>(threadIdx.x) / lanes) : 0);
  here.rows = rows, here.row = row, here.place = place, here.lower = lower_ptr, here.upper = upper_ptr;
  here.lower_col = lower_col, here.upper_col = upper_col, here.l = l, here.u = u, here.d = d;
  copy_words(lower_col, there.lower_col, lower), copy_words(upper_col, there.upper_col, upper);
  copy_words(lower_ptr, there.lower, rows + 1), copy_words(upper_ptr, there.upper, rows + 1);
  copy_words(row, there.row, rows), copy_words(place, there.place, rows);
  copy_words(level, view.level + begin_levels, levels + 1);
  __shared__ unsigned trouble;
  __shared__ std::int32_t bad;  // the smallest row with a bad pivot
  __shared__ unsigned long long least_row, largest_difference;
  const auto thread = static_cast<std::int32_t>(threadIdx.x), threads = static_cast<std::int32_t>(blockDim.x);
  const int group = thread / lanes, groups = threads / lanes, lane = thread % lanes;
  const unsigned mask = lanes_of_row<lanes>();
  const auto sync = [mask] { __syncwarp(mask); };
  if (with_table)
    for (std::int32_t i = lane; i < rows; i += lanes) where[i] = 0;
  if (thread == 0) trouble = 0, least_row = ~0ull >> 1, largest_difference = 0;
  constexpr unsigned no_matrix =
      detail::entry_not_finite | detail::diagonal_unusable | detail::diagonal_negative;
  int shift = 0;
  for (;; ++shift) {
    for (std::int32_t i = thread; i < lower; i += threads) l[i] = 0;
    for (std::int32_t i = thread; i < upper; i += threads) u[i] = 0;
    for (std::int32_t i = thread; i < rows; i += threads) d[i] = 0;
    if (thread == 0) bad = INT_MAX;
    __syncthreads();
    unsigned found = 0;
    for (std::int32_t k = group; k < rows; k += groups) {
      double most = 0;
      found |= here.load_row(row_ptr, columns, a, k, lane, lanes, most);
      if (shift > 0) continue;
#pragma unroll
      for (int step = lanes / 2; step > 0; step /= 2)
        most = fmax(most, __shfl_xor_sync(mask, most, step, lanes));
      if (lane == 0) atomicMin(&least_row, static_cast<unsigned long long>(__double_as_longlong(most)));
    }
    if (found) atomicOr(&trouble, found);
    __syncthreads();
    if (shift == 0 && rules.symmetric) {
      double difference = 0;
      for (std::int32_t p = group; p < rows; p += groups)
        difference = fmax(difference, here.difference_of_row(p, lane, lanes));
      if (difference > 0) keep_largest(&largest_difference, difference);
      __syncthreads();
    }
    for (int step = 0; step < levels; ++step) {
      for (std::int32_t p = level[step] + group; p < level[step + 1]; p += groups) {
        const std::int32_t first_l = lower_ptr[p], end_l = lower_ptr[p + 1], first_u = upper_ptr[p];
        const auto note = [&](bool set) {
          for (std::int32_t e = first_l + lane; e < end_l; e += lanes)
            where[lower_col[e]] = static_cast<Place>(set ? 1 + e - first_l : 0);
          for (std::int32_t e = first_u + lane; e < upper_ptr[p + 1]; e += lanes)
            where[upper_col[e]] = static_cast<Place>(set ? 1 + e - first_u : 0);
          sync();
        };
        const auto find = [&](std::int32_t other, std::int32_t after) -> T* {
          const bool in_l = other < p;
          std::int32_t at = -1;
          if (with_table) {
            at = static_cast<std::int32_t>(where[other]) - 1;
            if (at >= 0) at += in_l ? first_l : first_u;
          } else {
            at = in_l ? detail::find_place(lower_col, after + 1, end_l, other)
                      : detail::find_place(upper_col, first_u, upper_ptr[p + 1], other);
          }
          return at < 0 ? nullptr : (in_l ? l : u) + at;
        };
        // Each of many lanes looks for the mirrored place of another entry.
        std::int32_t mirrors = -1;
        const auto mirror = [&](std::int32_t e) {
          if constexpr (lanes < many_lanes) return here.mirror(p, e);
          const std::int32_t x = (e - first_l) % lanes;
          if (x == 0) mirrors = e + lane < end_l ? here.mirror(p, e + lane) : -1;
          return __shfl_sync(mask, mirrors, x, lanes);
        };
        bool good = true;
        if (with_table) note(true);
        const unsigned one = here.factor_row(rules, p, static_cast<T>(detail::subdomain_shift(shift)),
                                             smallest_part, lane, lanes, mirror, find, sync, good);
        if (with_table) note(false);
        if (one && lane == 0) atomicOr(&trouble, one);
        if (!good && lane == 0) {
          std::int32_t k = 0;
          while (static_cast<std::int32_t>(place[k]) != p) ++k;
          atomicMin(&bad, here.global(k));
        }
      }
      __syncthreads();
    }
    if (bad == INT_MAX || (trouble & no_matrix) || shift + 1 == detail::most_shifts) break;
    __syncthreads();  // before `bad` is set
  }
  unsigned overflow = 0;
  for (std::int32_t p = group; p < rows; p += groups) overflow |= here.finish_row(rules, p, lane, lanes);
  if (overflow) atomicOr(&trouble, overflow);
  __syncthreads();
  copy_words(there.l, l, lower), copy_words(there.u, u, upper), copy_words(there.d, d, rows);
  if (thread != 0) return;
  if (trouble) atomicOr(&status->trouble, trouble);
  if (shift > 0) atomicMax(&status->shift, shift), atomicAdd(&status->shifted, 1);
  if (bad != INT_MAX)
    atomicMin(&status->broken, static_cast<unsigned long long>(bad) << 32 | static_cast<unsigned>(s));
  atomicMin(&status->least_row, least_row), atomicMax(&status->largest_difference, largest_difference);
}

// Calls f with the constants lanes and columns.
template <class F>
void with_row(int lanes, std::int64_t columns, F f) {
  const auto with_columns = [&](auto n) {
    if (columns >= 4)
      f(n, std::integral_constant<int, 4>());
    else if (columns >= 2)
      f(n, std::integral_constant<int, 2>());
    else
      f(n, std::integral_constant<int, 1>());
  };
  if (lanes >= 8)
    with_columns(std::integral_constant<int, 8>());
  else if (lanes >= 4)
    with_columns(std::integral_constant<int, 4>());
  else if (lanes >= 2)
    with_columns(std::integral_constant<int, 2>());
  else
    with_columns(std::integral_constant<int, 1>());
}

}  // namespace

// The kernels may have what any preconditioner of this process needs: what a device gives.
template <class T>
void prepare_subdomains(const Context& context, const SubdomainLaunch& how) {
  const std::int64_t most = shared_memory_of_block(context);
  for (const std::int64_t columns : {1, 2, 4})
    with_row(how.lower_lanes, columns,
             [&](auto lanes, auto n) { allow_memory(solve_kernel<lanes(), n(), T>, most); });
  with_lanes(how.factor_lanes, [&](auto lanes) {
    allow_memory(factor_kernel<lanes(), T, std::int32_t>, most),
        allow_memory(factor_kernel<lanes(), T, std::int64_t>, most);
  });
}

template <class T>
void solve_subdomains(const Context& context, const View<T>& view, const SubdomainLaunch& how, T alpha,
                      const MultiVectorView<const T>& R, T beta, const MultiVectorView<T>& Z) {
  if (view.count == 0) return;
  const DeviceState& state = context.device_state();
  for (std::int64_t j = 0; j < R.columns;) {
    const std::int64_t left = std::min(R.columns - j, how.most_columns);
    with_row(how.lower_lanes, left, [&](auto lanes, auto columns) {
      constexpr int n = columns();
      launch_with_memory(state, solve_kernel<lanes(), n, T>, view.count,
                         n == 1 ? most_threads / 2 : most_threads, how.shared_columns[n / 2], view, alpha,
                         Vectors<const T>{R.from_column(j), R.row_step(), R.column_step()}, beta,
                         Vectors<T>{Z.from_column(j), Z.row_step(), Z.column_step()}, state.stop);
      j += n;
    });
  }
}

template <class T>
void factor_subdomains(const Context& context, const View<T>& view, const SubdomainLaunch& how,
                       const CsrMatrix<T>& csr, const FactorRules& rules, T smallest_part,
                       SubdomainStatus* status) {
  if (view.count == 0) return;
  csr.pattern.row_ptr.visit([&](const auto* ptr) {
    using Pointer = std::remove_cvref_t<decltype(*ptr)>;
    with_lanes(how.factor_lanes, [&](auto lanes) {
      // One for each row that a block factors at the same time.
      const std::int64_t tables = detail::in_words(2 * how.most_rows * (most_threads / lanes()));
      const bool with_table =
          lanes() >= many_lanes && how.shared_factors + tables <= shared_memory_of_block(context);
      launch_with_memory(context.device_state(), factor_kernel<lanes(), T, Pointer>, view.count, most_threads,
                         how.shared_factors + (with_table ? tables : 0), view, ptr, csr.pattern.col,
                         csr.values, rules, smallest_part, with_table, status);
    });
  });
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template void prepare_subdomains<T>(const Context&, const SubdomainLaunch&);                      \
  template void solve_subdomains<T>(const Context&, const View<T>&, const SubdomainLaunch&, T,      \
                                    const MultiVectorView<const T>&, T, const MultiVectorView<T>&); \
  template void factor_subdomains<T>(const Context&, const View<T>&, const SubdomainLaunch&,        \
                                     const CsrMatrix<T>&, const FactorRules&, T, SubdomainStatus*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::device
