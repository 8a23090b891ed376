// The graph of a pattern in device memory: what its rows are like, its connected parts, and how many levels each has.
// Private to ordering.cu.
#pragma once
#include <cstdint>

#include "core/device/kernel_tools.cuh"

namespace protean::device {

template <class Pointer>
struct Graph {
  const Pointer* row_ptr;
  const std::int32_t* col;
  std::int32_t rows;

  __device__ Pointer degree(std::int32_t i) const { return row_ptr[i + 1] - row_ptr[i]; }
  // Whether row i has no neighbour. Its columns are ascending.
  __device__ bool alone(std::int32_t i) const {
    const Pointer from = row_ptr[i], entries = row_ptr[i + 1] - from;
    return entries == 0 || (entries == 1 && col[from] == i);
  }
};

struct Survey {
  unsigned long long difference;  // of pattern_is_symmetric()
  unsigned long long longest;     // row
  unsigned long long unsorted;    // entries that are not behind the one before in their row
  unsigned long long alone;       // rows without neighbours
};

__device__ inline std::int64_t first_thread() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

// The bijection of 64 bits of core/ordering.cpp.
__device__ inline unsigned long long mixed(unsigned long long h) {
  h ^= h >> 33, h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

// One warp a row.
template <class Pointer>
__global__ void survey_kernel(Graph<Pointer> graph, Survey* survey) {
  wait_for_stream();
  const int lane = threadIdx.x % 32;
  unsigned long long difference = 0, longest = 0, unsorted = 0, lonely = 0;
  for (std::int64_t i = first_thread() / 32; i < graph.rows; i += all_threads() / 32) {
    const Pointer from = graph.row_ptr[i], to = graph.row_ptr[i + 1];
    std::int32_t others = 0;
    for (Pointer e = from + lane; e < to; e += 32) {
      const std::int64_t j = graph.col[e];
      if (e + 1 < to && graph.col[e + 1] <= j) ++unsorted;
      if (j == i) continue;
      others = 1;
      const unsigned long long low = i < j ? i : j, high = i < j ? j : i;
      const unsigned long long hash = mixed(high << 32 | low);
      difference += j > i ? hash : 0 - hash;
    }
    others = warp_sum(others);
    if (lane > 0) continue;
    if (others == 0) ++lonely;
    const auto length = static_cast<unsigned long long>(to - from);
    if (length > longest) longest = length;
  }
  difference = sum_lanes(difference), unsorted = sum_lanes(unsorted);
  if (lane > 0) return;
  if (difference > 0) atomicAdd(&survey->difference, difference);
  if (unsorted > 0) atomicAdd(&survey->unsorted, unsorted);
  if (lonely > 0) atomicAdd(&survey->alone, lonely);
  if (longest > 0) atomicMax(&survey->longest, longest);
}

// The connected parts. label[i] is a row of the part of row i that is not above i, so labels are trees whose roots have
// themselves as label. Trees are joined by their roots, the higher one below the lower one. At the end the label of
// each row is the first row of its part, whichever thread came first. After Sutton, Ben-Nun and Barak, "Optimizing
// parallel graph connectivity computation via subgraph sampling", IPDPS 2018: few entries join almost all rows of a
// large part, and only the other rows look at all of their entries.
__device__ inline std::int32_t root_of(std::int32_t* label, std::int32_t i) {
  for (;;) {
    const std::int32_t up = __ldcg(label + i);
    if (up == i) return i;
    const std::int32_t next = __ldcg(label + up);
    // Row i is not a root and never becomes one again, so nobody joins it while this makes its way shorter.
    if (next != up) __stcg(label + i, next);
    i = next;
  }
}
__device__ inline void join(std::int32_t* label, std::int32_t i, std::int32_t j) {
  std::int32_t high = root_of(label, i), low = root_of(label, j);
  while (high != low) {
    if (high < low) {
      const std::int32_t other = high;
      high = low, low = other;
    }
    const std::int32_t seen = atomicCAS(label + high, high, low);
    if (seen == high) return;
    high = root_of(label, seen);  // another thread has joined it
  }
}

// Each row below its first neighbour, if that is lower.
template <class Pointer>
__global__ void first_labels_kernel(Graph<Pointer> graph, std::int32_t* label) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < graph.rows; i += all_threads()) {
    const Pointer from = graph.row_ptr[i];
    const auto row = static_cast<std::int32_t>(i);
    label[i] = from < graph.row_ptr[i + 1] && graph.col[from] < row ? graph.col[from] : row;
  }
}
// Each row with its last neighbour.
template <class Pointer>
__global__ void join_last_kernel(Graph<Pointer> graph, std::int32_t* label) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < graph.rows; i += all_threads()) {
    const Pointer to = graph.row_ptr[i + 1];
    if (to > graph.row_ptr[i]) join(label, static_cast<std::int32_t>(i), graph.col[to - 1]);
  }
}
static __global__ void compress_kernel(std::int32_t rows, std::int32_t* label) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < rows; i += all_threads()) {
    const auto row = static_cast<std::int32_t>(i);
    // Not by root_of(): it could put a row whose root another thread has stored back below a row that is not a root.
    std::int32_t root = row;
    for (std::int32_t up = __ldcg(label + root); up != root; up = __ldcg(label + root)) root = up;
    if (root != row) __stcg(label + i, root);
  }
}
// One warp. *frequent := the label that most of 32 rows have.
static __global__ void frequent_label_kernel(const std::int32_t* label, std::int32_t rows,
                                             std::int32_t* frequent) {
  wait_for_stream();
  __shared__ std::int32_t sample[32];
  __shared__ unsigned long long most;
  const int lane = threadIdx.x;
  sample[lane] = label[(2 * static_cast<std::int64_t>(lane) + 1) * rows / 64];
  if (lane == 0) most = 0;
  __syncthreads();
  unsigned long long count = 0;
  for (int other = 0; other < 32; ++other)
    if (sample[other] == sample[lane]) ++count;
  atomicMax(&most, count << 32 | static_cast<unsigned>(sample[lane]));
  __syncthreads();
  if (lane == 0) *frequent = static_cast<std::int32_t>(most & 0xffffffffULL);
}
// One warp a row whose label is another: with all of its neighbours. Rows of the frequent label are left out: the
// pattern is symmetric, so a neighbour with another label joins them.
template <class Pointer>
__global__ void join_others_kernel(Graph<Pointer> graph, const std::int32_t* frequent, std::int32_t* label) {
  wait_for_stream();
  const std::int32_t most = *frequent;
  for (std::int64_t i = first_thread() / 32; i < graph.rows; i += all_threads() / 32) {
    const std::int32_t mine = __ldcg(label + i);
    if (mine == most) continue;
    const Pointer to = graph.row_ptr[i + 1];
    for (Pointer e = graph.row_ptr[i] + threadIdx.x % 32; e < to; e += 32) {
      const std::int32_t j = graph.col[e];
      if (__ldcg(label + j) != mine) join(label, static_cast<std::int32_t>(i), j);
    }
  }
}

// flags[i] := 1 for the first row of a part of two rows and more, else 0.
template <class Pointer>
__global__ void first_rows_kernel(Graph<Pointer> graph, const std::int32_t* label, std::int32_t* flags) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < graph.rows; i += all_threads()) {
    const auto row = static_cast<std::int32_t>(i);
    flags[i] = label[i] == row && !graph.alone(row) ? 1 : 0;
  }
}
// flags[i] := 1 for a row without neighbours, else 0.
template <class Pointer>
__global__ void alone_kernel(Graph<Pointer> graph, std::int32_t* flags) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < graph.rows; i += all_threads())
    flags[i] = graph.alone(static_cast<std::int32_t>(i)) ? 1 : 0;
}

// What is known of each connected part of two rows and more. The parts are numbered by their first rows.
struct Parts {
  std::int32_t count;
  const std::int32_t* of_row;  // null if there is one part only
  std::int32_t* first;         // row
  std::int32_t* depth;         // number of the last level of a search from there
  unsigned long long* far;     // the least (degree, row) of that level, the row in the lower 32 bits

  __device__ std::int32_t of(std::int32_t row) const { return of_row ? of_row[row] : 0; }
};

// number[i]: parts that begin before row i. label[i], the first row of the part of row i, becomes the number of the
// part.
template <class Pointer>
__global__ void parts_kernel(Graph<Pointer> graph, const std::int32_t* number, std::int32_t* label,
                             Parts parts) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < graph.rows; i += all_threads()) {
    const auto row = static_cast<std::int32_t>(i);
    if (graph.alone(row)) continue;
    const std::int32_t first = label[i], part = number[first];
    if (first == row) parts.first[part] = row, parts.depth[part] = 0, parts.far[part] = ~0ULL;
    label[i] = part;
  }
}

// The first search: how many levels each part has from its first row, and which rows are in the last one. The rows of a
// level lie in any order in the queue. Level l is at queue[bounds[l] .. bounds[l] + sizes[l] - 1]; known[i] is 1 for a
// row that is found, else 0.
static __global__ void begin_kernel(Parts parts, std::int32_t* queue, std::int32_t* bounds,
                                    std::int32_t* sizes, std::int32_t* known) {
  wait_for_stream();
  if (first_thread() == 0) bounds[0] = 0, sizes[0] = parts.count;
  for (std::int64_t p = first_thread(); p < parts.count; p += all_threads()) {
    const std::int32_t row = parts.first[p];
    queue[p] = row, known[row] = 1;
  }
}
// One warp a row of the level: appends its neighbours that are not found yet.
template <class Pointer>
__global__ void __launch_bounds__(block_size)
    spread_kernel(Graph<Pointer> graph, Parts parts, int level, std::int32_t* queue, std::int32_t* bounds,
                  std::int32_t* sizes, std::int32_t* known) {
  wait_for_stream();
  // Rows that a warp has found and not appended yet, so that not every row costs an addition to the same number.
  __shared__ std::int32_t found[block_size / 32][64];
  std::int32_t* const mine = found[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  const std::int32_t begin = bounds[level], end = begin + sizes[level];
  if (first_thread() == 0) bounds[level + 1] = end;
  int held = 0;
  const auto append = [&](int count) {  // the first `count` of them, at most 32
    int at = 0;
    if (lane == 0) at = atomicAdd(sizes + level + 1, count);
    at = __shfl_sync(0xffffffffu, at, 0);
    if (lane < count) queue[end + at + lane] = mine[lane];
  };
  for (std::int64_t k = begin + first_thread() / 32; k < end; k += all_threads() / 32) {
    const std::int32_t row = queue[k];
    const Pointer to = graph.row_ptr[row + 1];
    for (Pointer base = graph.row_ptr[row]; base < to; base += 32) {
      std::int32_t j = 0;
      bool is_new = false;
      if (base + lane < to) {
        j = graph.col[base + lane];
        is_new = __ldcg(known + j) == 0 && atomicExch(known + j, 1) == 0;
      }
      const unsigned others = __ballot_sync(0xffffffffu, is_new);
      if (others == 0) continue;
      if (is_new) {
        mine[held + __popc(others & ((1u << lane) - 1))] = j;
        // All rows of the level that belong to the part store the same number.
        std::int32_t* const depth = parts.depth + parts.of(j);
        if (__ldcg(depth) != level + 1) __stcg(depth, level + 1);
      }
      held += __popc(others);
      __syncwarp();
      if (held < 32) continue;
      append(32);
      held -= 32;
      const std::int32_t kept = mine[32 + lane];
      __syncwarp();
      if (lane < held) mine[lane] = kept;
      __syncwarp();
    }
  }
  __syncwarp();
  if (held > 0) append(held);
}
// The rows at queue[first .. size - 1]: those in the last level of their part offer themselves as its start.
template <class Pointer>
__global__ void far_kernel(Graph<Pointer> graph, Parts parts, const std::int32_t* queue,
                           const std::int32_t* bounds, std::int32_t first, std::int32_t size) {
  wait_for_stream();
  for (std::int64_t k = first + first_thread(); k < size; k += all_threads()) {
    const std::int32_t row = queue[k], part = parts.of(row);
    if (k < bounds[parts.depth[part]]) continue;
    const unsigned long long key =
        static_cast<unsigned long long>(graph.degree(row)) << 32 | static_cast<unsigned>(row);
    if (key < __ldcg(parts.far + part)) atomicMin(parts.far + part, key);
  }
}

}  // namespace protean::device
