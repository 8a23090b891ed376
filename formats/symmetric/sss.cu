// SSS on a GPU: the arrays of sss.cpp without windows and sums. Kernels:
//   native  Each entry is read once; what it adds to the row of its column is added by an atomic operation, so the order of the
//           sums is not fixed. `slices` where neighbouring rows have similar numbers of entries below the diagonal, else `rows`.
//   rows    One launch after the one that writes beta y (unless beta is 1). A block of threads has up to 512 neighbouring rows,
//           and their sums in shared memory; entries with columns in these rows are added there, others to y.
//   slices  A thread computes a row. Neighbouring threads have neighbouring rows, whose columns are mostly neighbours too, so
//           the additions of a warp go to few sectors of memory; equal columns of neighbouring rows are added up before. The
//           launch before writes beta y and the products with the diagonal. The arrays are those above, but the entries of
//           a slice, 32 rows, lie by steps: the first entries of its rows, then the second of those that have one, and so on,
//           without padding:
//
//             rows       1: a b   2: c   3: d e f      (a slice of three rows)
//             values     a c d | b e | f               begin at row_ptr of the first row of the slice
//
//   slices-near  The same; additions to rows of the same block of threads are made in shared memory.
//   turns        slices in one launch. Each block of threads writes beta y and the products with the diagonal for its own rows
//                first. A block adds to rows of other blocks only after these have done so; they come before it by number, and
//                numbers are given to blocks in the order in which they start, so no block waits for one that has not started.
//                It needs 8 (blocks + 1) bytes more, for blocks of 256 to 1024 rows:
//                  ticket  [1] the number of blocks that have started in all products.
//                  begun   [blocks] the number of products in which the block has written its rows.
//                  low     [blocks] int32: the first block with a row that the columns of this block reach.
//   turns-near   Both.
//   windows      turns, with all additions in shared memory. A block of threads has a sum for each of its rows, and four for each
//                group of four columns (4 g to 4 g + 3) that they reach before its first row. At its end it writes its own rows, and
//                adds the other sums to y when the blocks of these rows have written theirs. Instead of col, ticket, begun and
//                low it has
//                  local      [n] uint16: the place of the column among the sums of its block.
//                  group_ptr  [blocks + 1] int32: the number of groups before each block.
//                  group      [groups of all blocks] int32: g, ascending within a block.
//                  ticket     [1] and begun [blocks] as above.
//                It is refused where the rows of a block reach too many groups.
//   gather  A row is the sum over its entries below the diagonal, the diagonal, and its entries above, which an index by
//           columns finds among those below. No atomic operations, and a fixed order. Each value is read twice; the second
//           time it is often in a cache. It needs n (p + 4) + p (rows + 1) bytes more, for n entries below the diagonal:
//             upper_ptr    [rows + 1] as wide as row_ptr: nondecreasing from 0 to n.
//             upper_col    [n] int32: the columns above the diagonal, ascending within a row.
//             upper_place  [n] as wide as row_ptr: where values has the entry.
// Bytes: (v + 4) n + p (rows + 1) + v rows, with v bytes a value and p = 4 or 8 bytes a row pointer; (rows + 7) / 8 when the
//   diagonal has gaps.
// The conversion, and new values, compare each entry with its mirror by bisection; the host waits for the result.
#include <memory>
#include <string>

#include "core/bisect.hpp"
#include "formats/engines/row_view.cuh"
#include "formats/private/column_order.cuh"
#include "formats/private/expand.cuh"
#include "formats/symmetric/sss.hpp"

namespace protean::formats {
namespace {

constexpr int threads = 256, most_rows = 512;  // of a block
constexpr int most_groups = 4;                 // of `threads` rows, of a block of slices
constexpr int steps_ahead = 4;                 // entries that a thread loads before it uses the first

// The place of column c in row r; -1: there is no such entry.
__device__ inline std::int64_t find_entry(const DevicePattern& a, std::int64_t r, std::int32_t c) {
  const std::int64_t end = a.row_ptr[r + 1];
  const std::int64_t k = first_where(a.row_ptr[r], end, [&](std::int64_t j) { return a.col[j] >= c; });
  return k < end && a.col[k] == c ? k : -1;
}

struct Symmetry {
  unsigned long long first;     // the first entry without an equal mirror; all bits set: none
  unsigned long long diagonal;  // entries of the diagonal
};

// Eight threads a row. Compares the bits of values, or with null values the pattern alone.
template <class Bits>
__global__ void find_asymmetry(DevicePattern a, const Bits* values, Symmetry* found) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (r >= a.rows) return;
  const std::int64_t end = a.row_ptr[r + 1];
  for (std::int64_t k = a.row_ptr[r] + threadIdx.x % 8; k < end; k += 8) {
    const std::int32_t c = a.col[k];
    if (c == r) {
      atomicAdd(&found->diagonal, 1ull);
      continue;
    }
    const std::int64_t mirror = find_entry(a, c, static_cast<std::int32_t>(r));
    if (mirror < 0 || (values && values[mirror] != values[k]))
      atomicMin(&found->first, static_cast<unsigned long long>(k));
  }
}

// One thread: the row and the column of entry k, and whether its mirror is stored.
__global__ void describe_entry(DevicePattern a, std::int64_t k, std::int64_t* words) {
  const std::int64_t r =
      first_where(std::int64_t{0}, a.rows, [&](std::int64_t i) { return a.row_ptr[i + 1] > k; });
  words[0] = r, words[1] = a.col[k];
  words[2] = find_entry(a, a.col[k], static_cast<std::int32_t>(r)) >= 0;
}

struct Examined {
  std::string refusal;  // empty for a symmetric matrix
  std::int64_t diagonal = 0;
};

template <class Bits>
Examined examine(const Context& context, const SparsityPattern& pattern, const Bits* values) {
  if (pattern.rows == 0) return {};
  const cudaStream_t queue = device::stream(context);
  const device::Scratch<Symmetry> found(context, 1);
  const Symmetry none{~0ull, 0};
  device::copy_in(context, found.data(), &none, sizeof none);
  find_asymmetry<<<blocks_of(pattern.rows * 8, threads), threads, 0, queue>>>(device_pattern(pattern), values,
                                                                              found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const Symmetry result = read_back(context, found.data());
  if (result.first == none.first) return {{}, static_cast<std::int64_t>(result.diagonal)};
  const device::Scratch<std::int64_t> words(context, 3);
  describe_entry<<<1, 1, 0, queue>>>(device_pattern(pattern), static_cast<std::int64_t>(result.first),
                                     words.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  std::int64_t w[3];
  device::copy_out(context, w, words.data(), sizeof w);
  return {refusal_of_entry({w[0], w[1], w[2] == 0}), 0};
}

template <class T>
void require_symmetric(const Context& context, const FormatEntry& entry, const CsrMatrix<T>& csr) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const Examined found = examine(context, csr.pattern, reinterpret_cast<const Bits*>(csr.values));
  if (!found.refusal.empty()) throw FormatRefused(entry.id, found.refusal);
}

// Of the rows below the diagonal: the steps of all slices, and the longest row.
struct SliceSteps {
  unsigned long long steps = 0, longest = 0;
};

// The windows of all blocks of threads.
struct WindowSize {
  int groups = 1;          // of `threads` rows, of a block
  std::int64_t total = 0;  // groups of columns of all blocks
  std::int32_t most = 0;   // of a block
};

struct SssDevicePlan {
  std::int64_t size = 0;
  bool gaps = false;
  SliceSteps slices;
  WindowSize windows;
};

// The entries of a row below the diagonal come first.
template <class P>
__global__ void count_below(DevicePattern a, P* counts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > a.rows) return;
  if (r == a.rows) {
    counts[r] = 0;
    return;
  }
  const std::int64_t begin = a.row_ptr[r];
  counts[r] = static_cast<P>(
      first_where(begin, std::int64_t{a.row_ptr[r + 1]}, [&](std::int64_t k) { return a.col[k] >= r; }) -
      begin);
}

__global__ void count_steps(DevicePattern a, SliceSteps* found) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  long long longest = 0;
  if (r < a.rows) {
    const std::int64_t begin = a.row_ptr[r];
    longest =
        first_where(begin, std::int64_t{a.row_ptr[r + 1]}, [&](std::int64_t k) { return a.col[k] >= r; }) -
        begin;
  }
  for (int step = 16; step > 0; step /= 2)
    longest = max(longest, __shfl_xor_sync(0xffffffffu, longest, step));
  if (threadIdx.x % 32 != 0 || longest == 0) return;
  atomicAdd(&found->steps, static_cast<unsigned long long>(longest));
  atomicMax(&found->longest, static_cast<unsigned long long>(longest));
}

SliceSteps slice_steps(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {};
  const device::Scratch<SliceSteps> found(context, 1);
  const cudaStream_t queue = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), queue));
  count_steps<<<blocks_of(pattern.rows, threads), threads, 0, queue>>>(device_pattern(pattern), found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return read_back(context, found.data());
}

// Eight threads a row. col is null when only values change.
template <class T, class P>
__global__ void fill_half(DevicePattern a, const T* from, const P* row_ptr, std::int32_t* col, T* values,
                          T* diagonal) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (r >= a.rows) return;
  const std::int64_t begin = a.row_ptr[r], first = row_ptr[r], count = row_ptr[r + 1] - first;
  for (std::int64_t j = threadIdx.x % 8; j < count; j += 8) {
    if (col) col[first + j] = a.col[begin + j];
    values[first + j] = from[begin + j];
  }
  if (threadIdx.x % 8 != 0) return;
  const std::int64_t k = begin + count;
  diagonal[r] = k < a.row_ptr[r + 1] && a.col[k] == r ? from[k] : T(0);
}

// Where the entries of the rows of a slice lie (slices above). All lanes of a warp call it, each with the length of its row and
// the begin of the slice: f(k, place) for each entry.
template <class P, class F>
__device__ inline void for_slice(P length, P begin, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (P k = 0;; ++k) {
    const unsigned with = __ballot_sync(0xffffffffu, k < length);
    if (with == 0) return;
    if (k < length) f(k, begin + static_cast<P>(__popc(with & ((1u << lane) - 1))));
    begin += static_cast<P>(__popc(with));
  }
}

// One lane a row. col is null when only values change.
template <class T, class P>
__global__ void fill_slices(DevicePattern a, const T* from, const P* row_ptr, std::int32_t* col, T* values,
                            T* diagonal) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool there = r < a.rows;
  const std::int64_t first = there ? a.row_ptr[r] : 0;
  const P begin = there ? row_ptr[r] : 0, length = there ? row_ptr[r + 1] - begin : 0;
  for_slice(length, __shfl_sync(0xffffffffu, begin, 0), [&](P k, P place) {
    if (col) col[place] = a.col[first + k];
    values[place] = from[first + k];
  });
  if (!there) return;
  const std::int64_t k = first + length;
  diagonal[r] = k < a.row_ptr[r + 1] && a.col[k] == r ? from[k] : T(0);
}

// The entries of slices row by row.
template <class T, class P>
__global__ void slices_to_rows(std::int64_t rows, const P* row_ptr, const std::int32_t* col, const T* values,
                               std::int32_t* to_col, T* to_values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const P begin = r < rows ? row_ptr[r] : 0, length = r < rows ? row_ptr[r + 1] - begin : 0;
  for_slice(length, __shfl_sync(0xffffffffu, begin, 0),
            [&](P k, P place) { to_col[begin + k] = col[place], to_values[begin + k] = values[place]; });
}

// The bits of eight rows.
__global__ void mark_diagonal(DevicePattern a, std::uint8_t* stored) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (8 * b >= a.rows) return;
  unsigned bits = 0;
  for (std::int64_t r = 8 * b; r < a.rows && r < 8 * b + 8; ++r)
    bits |= static_cast<unsigned>(find_entry(a, r, static_cast<std::int32_t>(r)) >= 0) << (r - 8 * b);
  stored[b] = static_cast<std::uint8_t>(bits);
}

template <class T, class P>
struct SssView {
  std::int64_t rows;
  const P* row_ptr;
  const std::int32_t* col;
  const T *values, *diagonal;
  const std::uint8_t* stored;  // null: the whole diagonal
  const P* upper_ptr;          // null in kernel native
  const std::int32_t* upper_col;
  const P* upper_place;
  std::int64_t size;

  __device__ bool has_diagonal(std::int64_t r) const { return !stored || (stored[r / 8] >> (r % 8) & 1); }
  // The view of row_view.hpp; the diagonal lies behind the values.
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  __device__ std::int64_t length(std::int64_t p) const {
    return row_ptr[p + 1] - row_ptr[p] + has_diagonal(p) + upper_ptr[p + 1] - upper_ptr[p];
  }
  template <class F>
  __device__ void for_entries(std::int64_t p, F&& f) const {
    for (std::int64_t k = row_ptr[p]; k < row_ptr[p + 1]; ++k) f(col[k], k);
    if (has_diagonal(p)) f(static_cast<std::int32_t>(p), size + p);
    for (std::int64_t k = upper_ptr[p]; k < upper_ptr[p + 1]; ++k)
      f(upper_col[k], std::int64_t{upper_place[k]});
  }
};

// Where the entries above the diagonal are among those below it.
template <class P>
struct UpperIndex {
  UpperIndex(const ContextPtr& context, const P* row_ptr, const std::int32_t* col, std::int64_t rows,
             std::int64_t size)
      : ptr(context, rows + 1), upper_col(context, size) {
    Order<P> order(context, col, size, rows);
    compress(*context, order.keys.data(), size, rows, ptr.data());
    Buffer<std::int32_t> row(context, size);
    expand(*context, row_ptr, rows, size, row.data());
    pick(*context, size, order.items.data(), row.data(), upper_col.data());
    place = std::move(order.items);
  }
  std::size_t bytes() const noexcept { return ptr.bytes() + upper_col.bytes() + place.bytes(); }
  Buffer<P> ptr;
  Buffer<std::int32_t> upper_col;
  Buffer<P> place;
};

// `lanes` (a power of two) threads a row. y has been multiplied by beta. The flag is read at the beginning and used where
// something is written.
template <class T, class P>
__global__ void __launch_bounds__(threads)
    sss_add(SssView<T, P> a, int rows_a_block, int lanes, T alpha, const T* x, T* y, const int* stop) {
  __shared__ T sums[most_rows];
  const bool ended = stop && *stop;
  const std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block;
  const int count = static_cast<int>(min(std::int64_t{rows_a_block}, a.rows - first));
  for (int i = threadIdx.x; i < count; i += threads) sums[i] = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % lanes, groups = threads / lanes;
  // All threads of a warp take part in its shuffles, so groups without a row stay.
  for (int base = 0; base < count; base += groups) {
    const int i = base + static_cast<int>(threadIdx.x) / lanes;
    const std::int64_t r = first + i;
    T sum = 0;
    if (i < count) {
      const T factor = alpha * __ldg(x + r);
      const P end = a.row_ptr[r + 1];
      // All loads of some steps come first: none passes an atomic operation. Past the end, the last entry is loaded again, so
      // that no load waits for a condition.
      for (P k = a.row_ptr[r] + static_cast<P>(lane); k < end; k += static_cast<P>(lanes * steps_ahead)) {
        std::int32_t col[steps_ahead];
        T value[steps_ahead], xs[steps_ahead];
#pragma unroll
        for (int j = 0; j < steps_ahead; ++j) {
          const P at = min(k + static_cast<P>(j * lanes), end - 1);
          col[j] = __ldcs(a.col + at), value[j] = __ldcs(a.values + at);
        }
#pragma unroll
        for (int j = 0; j < steps_ahead; ++j) xs[j] = __ldg(x + col[j]);
#pragma unroll
        for (int j = 0; j < steps_ahead; ++j) {
          if (k + static_cast<P>(j * lanes) >= end) continue;
          sum += value[j] * xs[j];
          if (ended) continue;
          if (col[j] >= first)
            atomicAdd(sums + (col[j] - first), value[j] * factor);
          else
            atomicAdd(y + col[j], value[j] * factor);
        }
      }
      if (lane == 0 && a.has_diagonal(r)) sum += a.diagonal[r] * __ldg(x + r);
    }
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0 && i < count) atomicAdd(sums + i, alpha * sum);
  }
  __syncthreads();
  if (ended) return;
  for (int i = threadIdx.x; i < count; i += threads) atomicAdd(y + first + i, sums[i]);
}

// y := beta y + alpha D x, of row r.
template <class T, class P>
__device__ inline void begin_row(const SssView<T, P>& a, std::int64_t r, T alpha, const T* x, T beta, T* y) {
  store(alpha, a.has_diagonal(r) ? a.diagonal[r] * __ldg(x + r) : T(0), beta, y + r);
}

template <class T, class P>
__global__ void __launch_bounds__(threads)
    sss_begin(SssView<T, P> a, T alpha, const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t r = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (r < a.rows) begin_row(a, r, alpha, x, beta, y);
}

// The blocks of a product in the order in which they start (turns above).
struct SssTurns {
  unsigned long long* ticket;
  unsigned* begun;
  const std::int32_t* low;
};

__device__ inline unsigned load_acquire(const unsigned* from) {
  unsigned value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_release(unsigned* to, unsigned value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// Adds what neighbouring lanes with the same column add, into the first of them, and returns whether this lane is one. A lane
// without an entry has column -1. All lanes of a warp call it.
template <class T>
__device__ inline bool add_equal_columns(std::int32_t col, T& add) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool head = __shfl_up_sync(0xffffffffu, col, 1) != col || lane == 0;
  const unsigned heads = __ballot_sync(0xffffffffu, head);
  if (heads == 0xffffffffu) return col >= 0;
  const unsigned later = lane < 31 ? heads >> (lane + 1) : 0u;
  const int count = later ? __ffs(static_cast<int>(later)) : 32 - lane;  // lanes from this one to the last
#pragma unroll 1
  for (int step = 1; step < 32 && __any_sync(0xffffffffu, count > step); step *= 2) {
    const T other = __shfl_down_sync(0xffffffffu, add, step);
    if (count > step) add += other;
  }
  return head && col >= 0;
}

// A block has `groups` times `threads` rows. Without `turns`, sss_begin() has been launched before.
template <bool turns, bool near, class T, class P>
__global__ void __launch_bounds__(threads, 4) sss_slices(SssView<T, P> a, SssTurns work, int groups, T alpha,
                                                         const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T sums[near ? threads * most_groups : 1];
  __shared__ unsigned mine[2];  // number of this block, number of the product
  std::int64_t block = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x), rows_a_block = threads * groups;
  if constexpr (turns) {
    if (thread == 0) {
      const unsigned long long ticket = atomicAdd(work.ticket, 1ull);
      mine[0] = static_cast<unsigned>(ticket % gridDim.x),
      mine[1] = static_cast<unsigned>(ticket / gridDim.x) + 1;
    }
    __syncthreads();
    block = mine[0];
  }
  const std::int64_t first = block * rows_a_block;
  const int count = static_cast<int>(min(std::int64_t{rows_a_block}, a.rows - first));
  if constexpr (near)
    for (int i = thread; i < count; i += threads) sums[i] = 0;
  if constexpr (turns) {
    for (int i = thread; i < count; i += threads) begin_row(a, first + i, alpha, x, beta, y);
    __syncthreads();
    const unsigned turn = mine[1];
    if (thread == 0) store_release(work.begun + block, turn);
    for (std::int64_t other = work.low[block] + thread; other < block; other += threads)
      while (static_cast<int>(load_acquire(work.begun + other) - turn) < 0) __nanosleep(20);
  }
  if constexpr (turns || near) __syncthreads();
  // All lanes of a warp take part in its ballots and shuffles.
  for (int base = 0; base < count; base += threads) {
    const std::int64_t r = first + base + thread;
    const bool there = r < a.rows;
    const P begin = there ? __ldg(a.row_ptr + r) : P(0);
    const int length = there ? static_cast<int>(__ldg(a.row_ptr + r + 1) - begin) : 0;
    const int longest = device::warp_max(length);
    const T factor = there ? alpha * __ldg(x + r) : T(0);
    const unsigned below = (1u << (thread % 32)) - 1;
    const P last = static_cast<P>(a.size - 1);
    P place = __shfl_sync(0xffffffffu, begin, 0);
    T sum = 0;
    for (int k = 0; k < longest; k += steps_ahead) {
      std::int32_t col[steps_ahead];
      T value[steps_ahead], xs[steps_ahead];
#pragma unroll
      for (int j = 0; j < steps_ahead; ++j) {
        // A thread without an entry loads that of another, so that no load waits for a condition.
        const unsigned with = __ballot_sync(0xffffffffu, k + j < length);
        const P at = min(place + static_cast<P>(__popc(with & below)), last);
        place += static_cast<P>(__popc(with));
        col[j] = __ldg(a.col + at), value[j] = __ldg(a.values + at);
      }
#pragma unroll
      for (int j = 0; j < steps_ahead; ++j) xs[j] = __ldg(x + col[j]);
#pragma unroll
      for (int j = 0; j < steps_ahead; ++j) {
        const bool has = k + j < length;
        if (has) sum += value[j] * xs[j];
        T add = value[j] * factor;
        const std::int32_t c = has ? col[j] : -1;
        if (add_equal_columns(c, add)) {
          if (near && c >= first)
            atomicAdd(sums + (c - first), add);
          else
            atomicAdd(y + c, add);
        }
      }
    }
    if constexpr (near) {
      if (length > 0) atomicAdd(sums + base + thread, alpha * sum);
    } else {
      if (length > 0) atomicAdd(y + r, alpha * sum);
    }
  }
  if constexpr (near) {
    __syncthreads();
    for (int i = thread; i < count; i += threads) atomicAdd(y + first + i, sums[i]);
  }
}

// low[b] := b; then the first block that the columns of block b reach. The first column of a row is its lowest.
__global__ void own_blocks(std::int64_t blocks, std::int32_t* low) {
  const std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (b < blocks) low[b] = static_cast<std::int32_t>(b);
}
__global__ void lowest_blocks(DevicePattern a, int rows_a_block, std::int32_t* low) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= a.rows || a.length(r) == 0) return;
  const std::int32_t block = a.col[a.row_ptr[r]] / rows_a_block;
  if (block < r / rows_a_block) atomicMin(low + r / rows_a_block, block);
}

// The groups of columns that a block of threads reaches before its first row, in shared memory while they are found.
constexpr int most_window = 2000, group_columns = 4;
struct WindowFinder {
  static constexpr int slots = 4096;
  std::int32_t slot[slots];
  int found;
};

// The groups that fit beside the sums of the rows into the shared memory that every kernel gets.
inline int window_limit(int rows_a_block, std::size_t value_bytes) {
  const auto left = 48 * 1024 - 64 - static_cast<int>(value_bytes) * rows_a_block;
  return std::min(most_window, left / (group_columns * static_cast<int>(value_bytes) + 4));
}

// Finds the groups of the rows [first, first + count). All threads of the block call it. Returns their number, or more than
// `limit` where there are more.
__device__ inline int find_window(WindowFinder& f, const DevicePattern& a, std::int64_t first, int count,
                                  int limit) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < WindowFinder::slots; i += threads) f.slot[i] = -1;
  if (thread == 0) f.found = 0;
  __syncthreads();
  for (int i = thread; i < count; i += threads) {
    std::int32_t before = -1;
    for (std::int64_t k = a.row_ptr[first + i]; k < a.row_ptr[first + i + 1]; ++k) {
      if (a.col[k] >= first) break;
      const std::int32_t group = a.col[k] / group_columns;
      if (group == before) continue;
      before = group;
      if (*static_cast<volatile int*>(&f.found) > limit) break;  // so the slots never run out
      auto at = static_cast<int>(static_cast<unsigned>(group) * 2654435761u >> 20);
      for (;; at = (at + 1) % WindowFinder::slots) {
        const std::int32_t old = atomicCAS(&f.slot[at], -1, group);
        if (old == -1) atomicAdd(&f.found, 1);
        if (old == -1 || old == group) break;
      }
    }
  }
  __syncthreads();
  return f.found;
}

// counts[b] := the groups of block b, 0 where there are too many; *most := the largest number.
__global__ void __launch_bounds__(threads)
    count_window(DevicePattern a, int rows_a_block, int limit, std::int32_t* counts, std::int32_t* most) {
  __shared__ WindowFinder finder;
  const std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block;
  const int count = static_cast<int>(min(std::int64_t{rows_a_block}, a.rows - first));
  const int found = find_window(finder, a, first, count, limit);
  if (threadIdx.x != 0) return;
  counts[blockIdx.x] = found > limit ? 0 : found;
  atomicMax(most, found);
}

// The groups of each block, and the places of all columns. Lists are sorted by a bitonic network.
template <class P>
__global__ void __launch_bounds__(threads)
    fill_window(DevicePattern a, const P* row_ptr, int rows_a_block, int limit, const std::int32_t* group_ptr,
                std::int32_t* group, std::uint16_t* local) {
  __shared__ WindowFinder finder;
  __shared__ std::int32_t list[2048];
  __shared__ int listed;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block;
  const int count = static_cast<int>(min(std::int64_t{rows_a_block}, a.rows - first));
  const int found = find_window(finder, a, first, count, limit);
  if (thread == 0) listed = 0;
  for (int i = thread; i < 2048; i += threads) list[i] = 0x7fffffff;
  __syncthreads();
  for (int i = thread; i < WindowFinder::slots; i += threads)
    if (finder.slot[i] >= 0) list[atomicAdd(&listed, 1)] = finder.slot[i];
  __syncthreads();
  for (int size = 2; size <= 2048; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      for (int i = thread; i < 2048; i += threads) {
        const int other = i ^ step;
        if (other > i && (list[i] > list[other]) == ((i & size) == 0)) {
          const std::int32_t moved = list[i];
          list[i] = list[other], list[other] = moved;
        }
      }
      __syncthreads();
    }
  for (int i = thread; i < found; i += threads) group[group_ptr[blockIdx.x] + i] = list[i];
  for (int base = 0; base < count; base += threads) {
    const std::int64_t r = first + base + thread;
    const bool there = r < a.rows;
    const std::int64_t from = there ? a.row_ptr[r] : 0;
    const P begin = there ? row_ptr[r] : P(0), length = there ? row_ptr[r + 1] - begin : P(0);
    for_slice(length, __shfl_sync(0xffffffffu, begin, 0), [&](P k, P place) {
      const std::int32_t c = a.col[from + k];
      int at = static_cast<int>(c - first);
      if (c < first)
        at = rows_a_block + c % group_columns +
             group_columns * first_where(0, found, [&](int i) { return list[i] >= c / group_columns; });
      local[place] = static_cast<std::uint16_t>(at);
    });
  }
}

struct SssWindows {
  const std::uint16_t* local;
  const std::int32_t *group_ptr, *group;
  std::int32_t most;
};

// The column at place `at` of a block of `rows` rows from `first` on with these groups.
__device__ inline std::int32_t window_column(int at, int rows, std::int64_t first,
                                             const std::int32_t* group) {
  if (at < rows) return static_cast<std::int32_t>(first) + at;
  return group_columns * group[(at - rows) / group_columns] + (at - rows) % group_columns;
}

// The entries row by row, with their columns.
template <class T, class P>
__global__ void windows_to_rows(std::int64_t rows, const P* row_ptr, SssWindows w, int rows_a_block,
                                const T* values, std::int32_t* to_col, T* to_values) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const P begin = r < rows ? row_ptr[r] : P(0), length = r < rows ? row_ptr[r + 1] - begin : P(0);
  const std::int64_t block = r / rows_a_block;
  for_slice(length, __shfl_sync(0xffffffffu, begin, 0), [&](P k, P place) {
    to_col[begin + k] =
        window_column(w.local[place], rows_a_block, block * rows_a_block, w.group + w.group_ptr[block]);
    to_values[begin + k] = values[place];
  });
}

template <class T, class P>
__global__ void __launch_bounds__(threads, 4)
    sss_windows(SssView<T, P> a, SssWindows w, SssTurns work, int groups, T alpha, const T* x, T beta, T* y,
                const int* stop) {
  if (device::stopped(stop)) return;
  extern __shared__ __align__(16) unsigned char window_room[];
  __shared__ unsigned mine[2];  // number of this block, number of the product
  const int thread = static_cast<int>(threadIdx.x), rows_a_block = threads * groups;
  T* const sums = reinterpret_cast<T*>(window_room);
  auto* const group = reinterpret_cast<std::int32_t*>(sums + rows_a_block + group_columns * w.most);
  if (thread == 0) {
    const unsigned long long ticket = atomicAdd(work.ticket, 1ull);
    mine[0] = static_cast<unsigned>(ticket % gridDim.x),
    mine[1] = static_cast<unsigned>(ticket / gridDim.x) + 1;
  }
  __syncthreads();
  const std::int64_t block = mine[0], first = block * rows_a_block;
  const unsigned turn = mine[1];
  const int count = static_cast<int>(min(std::int64_t{rows_a_block}, a.rows - first));
  const std::int32_t* const listed = w.group + w.group_ptr[block];
  const int far = w.group_ptr[block + 1] - w.group_ptr[block];
  for (int i = thread; i < far; i += threads) group[i] = __ldg(listed + i);
  for (int i = thread; i < rows_a_block + group_columns * far; i += threads) sums[i] = 0;
  __syncthreads();
  // All lanes of a warp take part in its ballots and shuffles.
  for (int base = 0; base < count; base += threads) {
    const std::int64_t r = first + base + thread;
    const bool there = r < a.rows;
    const P begin = there ? __ldg(a.row_ptr + r) : P(0);
    const int length = there ? static_cast<int>(__ldg(a.row_ptr + r + 1) - begin) : 0;
    const int longest = device::warp_max(length);
    const T factor = there ? alpha * __ldg(x + r) : T(0);
    const unsigned below = (1u << (thread % 32)) - 1;
    const P last = static_cast<P>(a.size - 1);
    P place = __shfl_sync(0xffffffffu, begin, 0);
    T sum = 0;
    for (int k = 0; k < longest; k += steps_ahead) {
      int at[steps_ahead];
      T value[steps_ahead], xs[steps_ahead];
#pragma unroll
      for (int j = 0; j < steps_ahead; ++j) {
        // As in sss_slices().
        const unsigned with = __ballot_sync(0xffffffffu, k + j < length);
        const P from = min(place + static_cast<P>(__popc(with & below)), last);
        place += static_cast<P>(__popc(with));
        // The place of an entry of another block means nothing here.
        const int loaded = __ldg(w.local + from);
        at[j] = k + j < length ? loaded : -1, value[j] = __ldg(a.values + from);
      }
#pragma unroll
      for (int j = 0; j < steps_ahead; ++j)
        xs[j] = __ldg(x + window_column(max(at[j], 0), rows_a_block, first, group));
#pragma unroll
      for (int j = 0; j < steps_ahead; ++j) {
        if (at[j] >= 0) sum += value[j] * xs[j];
        T add = value[j] * factor;
        if (add_equal_columns(at[j], add)) atomicAdd(sums + at[j], add);
      }
    }
    if (length > 0) atomicAdd(sums + base + thread, alpha * sum);
  }
  __syncthreads();
  for (int i = thread; i < count; i += threads) {
    const std::int64_t r = first + i;
    const T own = a.has_diagonal(r) ? a.diagonal[r] * __ldg(x + r) : T(0);
    store(T(1), alpha * own + sums[i], beta, y + r);
  }
  __syncthreads();
  if (thread == 0) store_release(work.begun + block, turn);
  for (int i = thread; i < group_columns * far; i += threads) {
    const std::int32_t c = group_columns * group[i / group_columns] + i % group_columns;
    while (static_cast<int>(load_acquire(work.begun + c / rows_a_block) - turn) < 0) __nanosleep(20);
    atomicAdd(y + c, sums[rows_a_block + i]);
  }
}

// sum += values[place(k)] x[column(k)] for k = from, from + lanes, ... below `to`, in this order. Some loads are made together;
// past the end the last one again, so that no load waits for a condition.
template <class T, class P, class Place, class Column>
__device__ inline void add_lane_entries(P from, P to, int lanes, const T* x, T& sum, Place place,
                                        Column column, const T* values) {
  for (P k = from; k < to; k += static_cast<P>(lanes * steps_ahead)) {
    std::int32_t col[steps_ahead];
    P at[steps_ahead];
    T value[steps_ahead], xs[steps_ahead];
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) {
      const P its = min(k + static_cast<P>(j * lanes), to - 1);
      col[j] = column(its), at[j] = place(its);
    }
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j) value[j] = __ldg(values + at[j]), xs[j] = __ldg(x + col[j]);
#pragma unroll
    for (int j = 0; j < steps_ahead; ++j)
      if (k + static_cast<P>(j * lanes) < to) sum += value[j] * xs[j];
  }
}

template <class T, class P>
__global__ void __launch_bounds__(threads)
    sss_gather(SssView<T, P> a, int lanes, T alpha, const T* x, T beta, T* y, const int* stop) {
  const bool ended = stop && *stop;
  // All threads of a warp take part in its shuffles.
  const std::int64_t r = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  T sum = 0;
  if (r < a.rows) {
    const P end = a.row_ptr[r + 1], upper_end = a.upper_ptr[r + 1];
    const P below = a.row_ptr[r] + static_cast<P>(lane), above = a.upper_ptr[r] + static_cast<P>(lane);
    add_lane_entries(
        below, end, lanes, x, sum, [&](P k) { return k; }, [&](P k) { return __ldg(a.col + k); }, a.values);
    add_lane_entries(
        above, upper_end, lanes, x, sum, [&](P k) { return __ldg(a.upper_place + k); },
        [&](P k) { return __ldg(a.upper_col + k); }, a.values);
    if (lane == 0 && a.has_diagonal(r)) sum += a.diagonal[r] * __ldg(x + r);
  }
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (r < a.rows && lane == 0 && !ended) store(alpha, sum, beta, y + r);
}

// The half and the diagonal, and all but the product.
template <class T, class P>
class SssOnDevice : public AssembledMatrix<T> {
 public:
  enum class Entries { by_rows, in_slices, in_slices_without_columns };
  explicit SssOnDevice(const BuildRequest<T>& request, Entries entries = Entries::by_rows)
      : SssOnDevice(request, plan_of<SssDevicePlan>(request.admission), entries) {}

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    if (sliced_ && size_ > 0) {
      Buffer<std::int32_t> col(this->context(), size_);
      Buffer<T> values(this->context(), values_.size());
      by_rows(col.data(), values.data());
      device::copy_within(*this->context(), values.data() + size_, values_.data() + size_,
                          static_cast<std::size_t>(this->rows()) * sizeof(T));
      const UpperIndex<P> upper(this->context(), row_ptr_.data(), col.data(), this->rows(), size_);
      SssView<T, P> half = view(&upper);
      half.col = col.data(), half.values = values.data(), half.diagonal = values.data() + size_;
      return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), half);
    }
    const UpperIndex<P> upper(this->context(), row_ptr_.data(), col_.data(), this->rows(), size_);
    return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), view(&upper));
  }
  std::size_t bytes() const noexcept override {
    return row_ptr_.bytes() + col_.bytes() + values_.bytes() + stored_.bytes();
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size > 0)
      device::copy_within(*this->context(), d.data, values_.data() + size_,
                          static_cast<std::size_t>(d.size) * sizeof(T));
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    require_symmetric(*this->context(), this->entry(), csr);
    fill(csr, false);
  }
  // The entries of slices row by row.
  virtual void by_rows(std::int32_t* col, T* values) const {
    slices_to_rows<<<blocks_of(this->rows(), threads), threads, 0, device::stream(*this->context())>>>(
        this->rows(), row_ptr_.data(), col_.data(), values_.data(), col, values);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  SssView<T, P> view(const UpperIndex<P>* upper) const {
    return {this->rows(),
            row_ptr_.data(),
            col_.data(),
            values_.data(),
            values_.data() + size_,
            stored_.empty() ? nullptr : stored_.data(),
            upper ? upper->ptr.data() : nullptr,
            upper ? upper->upper_col.data() : nullptr,
            upper ? upper->place.data() : nullptr,
            size_};
  }

  Buffer<P> row_ptr_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;  // values, diagonal
  Buffer<std::uint8_t> stored_;
  std::int64_t size_;
  bool sliced_;  // the order of the entries

 private:
  SssOnDevice(const BuildRequest<T>& request, const SssDevicePlan& plan, Entries entries)
      : AssembledMatrix<T>(request), size_(plan.size), sliced_(entries != Entries::by_rows) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    require_symmetric(*context, request.entry, request.csr);
    const std::int64_t rows = pattern.rows;
    row_ptr_ = Buffer<P>(context, rows + 1);
    col_ = Buffer<std::int32_t>(context, entries == Entries::in_slices_without_columns ? 0 : size_);
    values_ = Buffer<T>(context, size_ + rows);
    stored_ = Buffer<std::uint8_t>(context, plan.gaps ? (rows + 7) / 8 : 0);
    const cudaStream_t queue = device::stream(*context);
    count_below<<<blocks_of(rows + 1, threads), threads, 0, queue>>>(device_pattern(pattern),
                                                                     row_ptr_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(*context, row_ptr_.data(), rows + 1);
    if (!stored_.empty()) {
      mark_diagonal<<<blocks_of(stored_.size(), threads), threads, 0, queue>>>(device_pattern(pattern),
                                                                               stored_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    fill(request.csr, true);
  }

  void fill(const CsrMatrix<T>& csr, bool structure) {
    if (csr.rows() == 0) return;
    const auto fill_by = [&](auto* kernel, std::int64_t lanes) {
      kernel<<<blocks_of(csr.rows() * lanes, threads), threads, 0, device::stream(*this->context())>>>(
          device_pattern(csr.pattern), csr.values, row_ptr_.data(), structure ? col_.data() : nullptr,
          values_.data(), values_.data() + size_);
    };
    if (sliced_)
      fill_by(fill_slices<T, P>, 1);
    else
      fill_by(fill_half<T, P>, 8);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

template <class T, class P>
class SssRows final : public SssOnDevice<T, P> {
 public:
  using SssOnDevice<T, P>::SssOnDevice;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t rows = this->rows();
    if (rows == 0) return;
    scale(*this->context(), rows, beta, y.data);
    // At least eight blocks for each processor, if there are enough rows.
    int rows_a_block = most_rows;
    while (rows_a_block > 32 && rows < std::int64_t{rows_a_block} * state.processors * 8) rows_a_block /= 2;
    sss_add<<<blocks_of(rows, rows_a_block), threads, 0, state.stream>>>(
        this->view(nullptr), rows_a_block, lanes_for(this->size_, rows), alpha, x.data, y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

// `threads` rows a block, and more where eight blocks for each processor remain.
int groups_of(const Context& context, std::int64_t rows) {
  const std::int64_t least = std::int64_t{context.device_state().processors} * 8 * threads;
  int groups = 1;
  while (groups < most_groups && rows >= 2 * groups * least) groups *= 2;
  return groups;
}

template <class T, class P, bool turns, bool near>
class SssSlices final : public SssOnDevice<T, P> {
 public:
  explicit SssSlices(const BuildRequest<T>& request)
      : SssOnDevice<T, P>(request, SssOnDevice<T, P>::Entries::in_slices),
        groups_(groups_of(*request.context, this->rows())) {
    if (!turns || this->rows() == 0) return;
    const std::int64_t blocks = blocks_of(this->rows(), threads * groups_);
    ticket_ = Buffer<unsigned long long>(request.context, 1);
    begun_ = Buffer<unsigned>(request.context, blocks), low_ = Buffer<std::int32_t>(request.context, blocks);
    const cudaStream_t queue = device::stream(*request.context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ticket_.data(), 0, ticket_.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(begun_.data(), 0, begun_.bytes(), queue));
    own_blocks<<<blocks_of(blocks, threads), threads, 0, queue>>>(blocks, low_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    lowest_blocks<<<blocks_of(this->rows(), threads), threads, 0, queue>>>(
        device_pattern(request.csr.pattern), threads * groups_, low_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept override {
    return SssOnDevice<T, P>::bytes() + ticket_.bytes() + begun_.bytes() + low_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t rows = this->rows();
    if (rows == 0) return;
    const SssView<T, P> view = this->view(nullptr);
    if (!turns)
      device::launch(state, sss_begin<T, P>, blocks_of(rows, threads), threads, view, alpha, x.data, beta,
                     y.data, state.stop);
    // The turns are workspace of the product.
    const SssTurns work{const_cast<unsigned long long*>(ticket_.data()), const_cast<unsigned*>(begun_.data()),
                        low_.data()};
    device::launch(state, sss_slices<turns, near, T, P>, blocks_of(rows, threads * groups_), threads, view,
                   work, groups_, alpha, x.data, beta, y.data, state.stop);
  }

 private:
  int groups_;
  Buffer<unsigned long long> ticket_;
  Buffer<unsigned> begun_;
  Buffer<std::int32_t> low_;
};
template <class T, class P>
using SssPlainSlices = SssSlices<T, P, false, false>;
template <class T, class P>
using SssNearSlices = SssSlices<T, P, false, true>;
template <class T, class P>
using SssTurnSlices = SssSlices<T, P, true, false>;
template <class T, class P>
using SssNearTurnSlices = SssSlices<T, P, true, true>;

template <class T, class P>
class SssWindowed final : public SssOnDevice<T, P> {
  using Base = SssOnDevice<T, P>;

 public:
  explicit SssWindowed(const BuildRequest<T>& request)
      : Base(request, Base::Entries::in_slices_without_columns),
        size_of_windows_(plan_of<SssDevicePlan>(request.admission).windows) {
    if (this->rows() == 0) return;
    const ContextPtr& context = request.context;
    const int rows_a_block = threads * size_of_windows_.groups;
    const std::int64_t blocks = blocks_of(this->rows(), rows_a_block);
    local_ = Buffer<std::uint16_t>(context, this->size_);
    group_ptr_ = Buffer<std::int32_t>(context, blocks + 1);
    group_ = Buffer<std::int32_t>(context, size_of_windows_.total);
    ticket_ = Buffer<unsigned long long>(context, 1), begun_ = Buffer<unsigned>(context, blocks);
    const cudaStream_t queue = device::stream(*context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ticket_.data(), 0, ticket_.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(begun_.data(), 0, begun_.bytes(), queue));
    const device::Scratch<std::int32_t> most(*context, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(most.data(), 0, most.bytes(), queue));
    const DevicePattern pattern = device_pattern(request.csr.pattern);
    const int limit = window_limit(rows_a_block, sizeof(T));
    count_window<<<static_cast<unsigned>(blocks), threads, 0, queue>>>(pattern, rows_a_block, limit,
                                                                       group_ptr_.data(), most.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(group_ptr_.data() + blocks, 0, sizeof(std::int32_t), queue));
    device::exclusive_scan(*context, group_ptr_.data(), blocks + 1);
    fill_window<<<static_cast<unsigned>(blocks), threads, 0, queue>>>(
        pattern, this->row_ptr_.data(), rows_a_block, limit, group_ptr_.data(), group_.data(), local_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept override {
    return Base::bytes() + local_.bytes() + group_ptr_.bytes() + group_.bytes() + ticket_.bytes() +
           begun_.bytes();
  }

 protected:
  void by_rows(std::int32_t* col, T* values) const override {
    windows_to_rows<<<blocks_of(this->rows(), threads), threads, 0, device::stream(*this->context())>>>(
        this->rows(), this->row_ptr_.data(), windows(), threads * size_of_windows_.groups,
        this->values_.data(), col, values);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    const int rows_a_block = threads * size_of_windows_.groups;
    const std::size_t room =
        static_cast<std::size_t>(rows_a_block + group_columns * size_of_windows_.most) * sizeof(T) +
        static_cast<std::size_t>(size_of_windows_.most) * sizeof(std::int32_t);
    // The turns are workspace of the product.
    const SssTurns work{const_cast<unsigned long long*>(ticket_.data()), const_cast<unsigned*>(begun_.data()),
                        nullptr};
    sss_windows<<<blocks_of(this->rows(), rows_a_block), threads, room, state.stream>>>(
        this->view(nullptr), windows(), work, size_of_windows_.groups, alpha, x.data, beta, y.data,
        state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 private:
  SssWindows windows() const {
    return {local_.data(), group_ptr_.data(), group_.data(), size_of_windows_.most};
  }

  WindowSize size_of_windows_;
  Buffer<std::uint16_t> local_;
  Buffer<std::int32_t> group_ptr_, group_;
  Buffer<unsigned long long> ticket_;
  Buffer<unsigned> begun_;
};

template <class T, class P>
class SssGather final : public SssOnDevice<T, P> {
 public:
  explicit SssGather(const BuildRequest<T>& request)
      : SssOnDevice<T, P>(request),
        upper_(request.context, this->row_ptr_.data(), this->col_.data(), this->rows(), this->size_) {}
  std::size_t bytes() const noexcept override { return SssOnDevice<T, P>::bytes() + upper_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t rows = this->rows();
    if (rows == 0) return;
    const int lanes = lanes_for(2 * this->size_, rows);
    sss_gather<<<blocks_of(rows * lanes, threads), threads, 0, state.stream>>>(
        this->view(&upper_), lanes, alpha, x.data, beta, y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 private:
  UpperIndex<P> upper_;
};

// Pointers are as wide as the row pointers it is built from.
template <template <class, class> class Format, class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (request.csr.pattern.row_ptr.width() == 4) return std::make_unique<Format<T, std::int32_t>>(request);
  return std::make_unique<Format<T, std::int64_t>>(request);
}

// A warp waits for the longest row of a slice, and a thread computes a row, so rows must be alike and many.
bool takes_slices(const Context& context, std::int64_t rows, const SssDevicePlan& plan) {
  const auto size = static_cast<double>(plan.size);
  return rows >= std::int64_t{context.device_state().processors} * 512 &&
         size >= 0.4 * 32 * static_cast<double>(plan.slices.steps) &&
         static_cast<double>(plan.slices.longest) <= 64 + 8 * size / static_cast<double>(rows);
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_native(const BuildRequest<T>& request) {
  const auto& plan = plan_of<SssDevicePlan>(request.admission);
  if (takes_slices(*request.context, request.csr.rows(), plan)) return make<SssPlainSlices>(request);
  return make<SssRows>(request);
}

// Of the pattern; the maker looks at the values.
Admission admit(const Context& context, const SparsityPattern& p, const FormatParams&,
                std::size_t value_bytes) {
  if (p.rows != p.cols) return Admission::refuse(refusal_of_shape(p));
  const Examined found = examine(context, p, static_cast<const std::uint32_t*>(nullptr));
  if (!found.refusal.empty()) return Admission::refuse(found.refusal);
  auto plan = std::make_shared<SssDevicePlan>();
  plan->size = (p.nonzeros - found.diagonal) / 2, plan->gaps = found.diagonal < p.rows;
  plan->slices = slice_steps(context, p);
  const auto rows = static_cast<std::size_t>(p.rows), size = static_cast<std::size_t>(plan->size);
  Admission admission = Admission::accept(size * (value_bytes + 4) + (rows + 1) * p.row_ptr.width() +
                                              rows * value_bytes + (plan->gaps ? (rows + 7) / 8 : 0),
                                          plan->size + p.rows);
  keep_plan(admission, std::move(plan));
  return admission;
}
Admission admit_gather(const Context& context, const SparsityPattern& p, const FormatParams& params,
                       std::size_t value_bytes) {
  Admission admission = admit(context, p, params, value_bytes);
  if (!admission.ok) return admission;
  const auto size = static_cast<std::size_t>(plan_of<SssDevicePlan>(admission).size);
  admission.bytes +=
      size * (p.row_ptr.width() + 4) + static_cast<std::size_t>(p.rows + 1) * p.row_ptr.width();
  return admission;
}

Admission admit_turns(const Context& context, const SparsityPattern& p, const FormatParams& params,
                      std::size_t value_bytes) {
  Admission admission = admit(context, p, params, value_bytes);
  if (!admission.ok || p.rows == 0) return admission;
  admission.bytes += 8 + std::size_t{8} * blocks_of(p.rows, threads * groups_of(context, p.rows));
  return admission;
}

// As many rows a block as groups_of(), or fewer where their windows do not fit.
Admission admit_windows(const Context& context, const SparsityPattern& p, const FormatParams& params,
                        std::size_t value_bytes) {
  Admission admission = admit(context, p, params, value_bytes);
  if (!admission.ok || p.rows == 0) return admission;
  auto plan = std::make_shared<SssDevicePlan>(plan_of<SssDevicePlan>(admission));
  WindowSize& windows = plan->windows;
  const cudaStream_t queue = device::stream(context);
  for (windows.groups = groups_of(context, p.rows);; windows.groups /= 2) {
    const int rows_a_block = threads * windows.groups, limit = window_limit(rows_a_block, value_bytes);
    const std::int64_t blocks = blocks_of(p.rows, rows_a_block);
    const device::Scratch<std::int32_t> counts(context, blocks + 1), most(context, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), queue));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(most.data(), 0, most.bytes(), queue));
    count_window<<<static_cast<unsigned>(blocks), threads, 0, queue>>>(device_pattern(p), rows_a_block, limit,
                                                                       counts.data(), most.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    windows.most = read_back(context, most.data());
    if (windows.most > limit && windows.groups > 1) continue;
    if (windows.most > limit)
      return Admission::refuse(
          "the rows of a block of " + std::to_string(rows_a_block) + " have columns in more than " +
          std::to_string(limit) +
          " groups of 4 before them, which do not fit into shared memory; take kernel native");
    device::exclusive_scan(context, counts.data(), blocks + 1);
    windows.total = read_back(context, counts.data() + blocks);
    const auto number = static_cast<std::size_t>(blocks);
    admission.bytes = admission.bytes - 2 * static_cast<std::size_t>(plan->size) + 8 * number + 4 +
                      4 * static_cast<std::size_t>(windows.total) + 8;
    keep_plan(admission, std::move(plan));
    return admission;
  }
}

template <template <class, class> class Format>
constexpr Kernel atomic_kernel(std::string_view name, Admit admit_it = nullptr) {
  return {name, false, true, {}, make<Format, double>, make<Format, float>, {}, false, false, {}, admit_it};
}

constexpr Kernel kernels[] = {{"native", false, true, {}, make_native<double>, make_native<float>, {}, false},
                              atomic_kernel<SssRows>("rows"),
                              atomic_kernel<SssPlainSlices>("slices"),
                              atomic_kernel<SssNearSlices>("slices-near"),
                              atomic_kernel<SssTurnSlices>("turns", admit_turns),
                              atomic_kernel<SssNearTurnSlices>("turns-near", admit_turns),
                              atomic_kernel<SssWindowed>("windows", admit_windows),
                              {"gather",
                               false,
                               true,
                               {},
                               make<SssGather, double>,
                               make<SssGather, float>,
                               "half of the entries are found by an index; a fixed order of the sums",
                               true,
                               false,
                               {},
                               admit_gather}};

}  // namespace

namespace device_code {
extern const DeviceCode sss;
constinit const DeviceCode sss{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
