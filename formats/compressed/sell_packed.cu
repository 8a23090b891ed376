// sell-packed on the device. The idea is that of sell_packed.cpp (each slot of a slice says its columns in
// the narrowest way that can), the layout one for warps: slices of 32 rows, one thread a row.
//
// A slot holds at most one entry of each of the slice's 32 rows and is of one of four kinds:
//   diagonal  key, mask        column = key + r - r % b in the rows r of the mask's lanes; 8 bytes for 32
//                              entries. b is one number for the matrix: 1, or 2, 3, 4 where rows come in
//                              groups with the same columns (b unknowns to a node)
//   near      base, 32 x 8 bits    column = base + offset; offset 255: no entry
//   far       base, 32 x 16 bits   the same; 65535: no entry
//   wide      32 x 32 bits         the columns; -1: no entry
// A diagonal slot is made for each diagonal that enough rows of the slice have; what is left goes by rank,
// the k-th of each row into one slot.
//
// slices  [ceil(rows / 32)] 16 bytes each: first slot, first unit of code (uint32); numbers of slots of the
//         four kinds (uint16).
// code    [units of 32 bytes] for each slice: key and mask of each diagonal slot, the bases of near and far
//         slots, zeros up to a whole unit; then offsets of near and far slots and columns of wide ones.
// values  [32 slots]: 0 where there is no entry.
// perm    [rows] int32, only when rows are sorted by length in windows of 1024: row at each position.
// Bytes: 16 slices + 32 units + 32 v slots + 4 rows [sorted], v bytes a value. An entry of a full diagonal
// slot costs 8.25 bytes (double), of a near one 9.13, far 10.13, wide 12; a slice 16 to 40 bytes more.
// Parameters: order, as on the host; auto sorts where natural order stores more than 1.15 slots an entry and
// sorting saves a tenth.
//
// No x is read but where an entry is: infinite or NaN x_j reach exactly the rows with an entry in column j.
// Refuses when more than 4 values would be stored for an entry, and rows of more than 32767 entries.
#include "formats/compressed/sell_packed.hpp"

#include "formats/ell/row_order.cuh"

namespace protean::formats {
namespace {

constexpr int height = 32, shift = 5;
constexpr std::int64_t sorted_rows = 1024;
constexpr std::int64_t longest_allowed = 32767;  // twice that fits the 16 bits of a count
constexpr std::int32_t none = 0x7fffffff;
constexpr int warps = device::block_size / 32;

struct SliceHead {
  unsigned first_slot, first_unit;
  unsigned short diagonal, near, far, wide;
};
static_assert(sizeof(SliceHead) == 16);

__device__ inline SliceHead read_head(const SliceHead* heads, std::int64_t slice) {
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(heads) + slice);
  SliceHead head;
  head.first_slot = raw.x, head.first_unit = raw.y;
  head.diagonal = raw.z & 0xffff, head.near = raw.z >> 16;
  head.far = raw.w & 0xffff, head.wide = raw.w >> 16;
  return head;
}

__host__ __device__ inline unsigned index_units(unsigned diagonal, unsigned near, unsigned far) {
  return (2 * diagonal + near + far + 7) / 8;
}
__host__ __device__ inline unsigned slice_units(unsigned diagonal, unsigned near, unsigned far,
                                                unsigned wide) {
  return index_units(diagonal, near, far) + near + 2 * far + 4 * wide;
}

// Where the parts of a slice's code are.
struct SliceCode {
  const int2* diagonal;       // key, mask
  const std::int32_t* base;   // near, then far
  const unsigned char* near;  // [slot][lane]
  const unsigned short* far;
  const std::int32_t* wide;
};
__device__ inline SliceCode slice_code(const SliceHead& head, const std::uint32_t* code) {
  SliceCode c;
  const std::uint32_t* words = code + std::int64_t{head.first_unit} * 8;
  c.diagonal = reinterpret_cast<const int2*>(words);
  c.base = reinterpret_cast<const std::int32_t*>(words) + 2 * head.diagonal;
  c.near =
      reinterpret_cast<const unsigned char*>(words + 8 * index_units(head.diagonal, head.near, head.far));
  c.far = reinterpret_cast<const unsigned short*>(c.near + head.near * height);
  c.wide = reinterpret_cast<const std::int32_t*>(c.far + head.far * height);
  return c;
}

template <class T>
struct PackedArrays {
  std::int64_t rows, slices;
  int group;  // b
  const SliceHead* heads;
  const std::uint32_t* code;
  const T* values;
  const std::int32_t* perm;

  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return perm ? __ldg(perm + p) : p; }
  __device__ std::int32_t group_start(std::int64_t row) const {
    const auto r = static_cast<std::int32_t>(row);
    return group == 1 ? r : r - r % group;
  }

  // found(column, value) for the entries of a position, by kind and, inside a kind, ascending.
  template <class Found>
  __device__ void entries(std::int64_t p, Found found) const {
    const SliceHead head = read_head(heads, p / height);
    const SliceCode c = slice_code(head, code);
    const int lane = static_cast<int>(p % height);
    const std::int32_t start = group_start(row(p));
    const T* v = values + std::int64_t{head.first_slot} * height + lane;
    for (int k = 0; k < head.diagonal; ++k, v += height)
      if (static_cast<unsigned>(c.diagonal[k].y) >> lane & 1) found(0, c.diagonal[k].x + start, *v);
    for (int k = 0; k < head.near; ++k, v += height)
      if (const int offset = c.near[k * height + lane]; offset != 255) found(1, c.base[k] + offset, *v);
    for (int k = 0; k < head.far; ++k, v += height)
      if (const int offset = c.far[k * height + lane]; offset != 65535)
        found(2, c.base[head.near + k] + offset, *v);
    for (int k = 0; k < head.wide; ++k, v += height)
      if (const std::int32_t col = c.wide[k * height + lane]; col >= 0) found(3, col, *v);
  }

  __device__ std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    entries(p, [&](int, std::int32_t, T) { ++count; });
    return count;
  }
  // By insertion: each kind comes ascending, so little is moved but where kinds interleave.
  __device__ void write(std::int64_t p, std::int32_t* col, T* out) const {
    std::int64_t count = 0;
    entries(p, [&](int, std::int32_t column, T value) {
      std::int64_t at = count++;
      for (; at > 0 && col[at - 1] > column; --at) col[at] = col[at - 1], out[at] = out[at - 1];
      col[at] = column, out[at] = value;
    });
  }
};

template <class T>
__global__ void packed_diagonal(PackedArrays<T> a, std::int64_t size, T* diagonal) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t row = a.row(p);
  if (row >= size) return;
  T found = 0;
  a.entries(p, [&](int, std::int32_t column, T value) {
    if (column == row) found = value;
  });
  diagonal[row] = found;
}

// The part of a row's sum that one of `split` threads of the row has. The registers of a thread are few, so
// that 64 warps a processor wait for memory at a time: that hides more than several loads a thread do.
template <int split, bool rest, class T>
__device__ inline T packed_sum(const PackedArrays<T>& a, std::int64_t slice, int part, int lane,
                               std::int64_t row, const T* x) {
  const SliceHead head = read_head(a.heads, slice);
  const SliceCode c = slice_code(head, a.code);
  const T* v = a.values + std::int64_t{head.first_slot} * height + lane;
  T sum = 0;
  {
    const T* from = x + a.group_start(row);
#pragma unroll 4
    for (int k = part; k < head.diagonal; k += split) {
      const int2 slot = __ldg(c.diagonal + k);
      const T value = __ldcs(v + k * height);
      if (static_cast<unsigned>(slot.y) >> lane & 1) sum += value * __ldg(from + slot.x);
    }
  }
  if (!rest) return sum;
  v += head.diagonal * height;
#pragma unroll 4
  for (int k = part; k < head.near; k += split) {
    const int offset = __ldcs(c.near + k * height + lane);
    const T value = __ldcs(v + k * height);
    if (offset != 255) sum += value * __ldg(x + __ldg(c.base + k) + offset);
  }
  v += head.near * height;
#pragma unroll 4
  for (int k = part; k < head.far; k += split) {
    const int offset = __ldcs(c.far + k * height + lane);
    const T value = __ldcs(v + k * height);
    if (offset != 65535) sum += value * __ldg(x + __ldg(c.base + head.near + k) + offset);
  }
  v += head.far * height;
#pragma unroll 4
  for (int k = part; k < head.wide; k += split) {
    const std::int32_t col = __ldcs(c.wide + k * height + lane);
    const T value = __ldcs(v + k * height);
    if (col >= 0) sum += value * __ldg(x + col);
  }
  return sum;
}

// y := alpha A x + beta y; with `dot`, x . y to *result (then alpha is 1 and beta 0). `split` warps of a
// block share the slots of a slice; without `rest` there are diagonal slots only.
template <int split, bool rest, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, rest ? 6 : 8)
    packed_product(PackedArrays<T> a, T alpha, const T* x, T beta, T* y, double* partials, unsigned* arrived,
                   T* result, const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int rows_a_block = device::block_size / split;
  __shared__ T shared[split > 1 ? device::block_size : 1];
  const int part = threadIdx.x / rows_a_block;
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block; first < a.rows;
       first += std::int64_t{gridDim.x} * rows_a_block) {
    const std::int64_t p = first + threadIdx.x % rows_a_block;
    const std::int64_t row = p < a.rows ? a.row(p) : 0;
    T sum = 0;
    if (p >> shift < a.slices) sum = packed_sum<split, rest>(a, p >> shift, part, threadIdx.x % 32, row, x);
    if (split > 1) {
      __syncthreads();
      shared[threadIdx.x] = sum;
      __syncthreads();
      if (part == 0)
        for (int other = 1; other < split; ++other) sum += shared[threadIdx.x + other * rows_a_block];
    }
    if (part == 0 && p < a.rows) {
      if (dot) {
        y[row] = sum;
        dots[0] += x[row] * sum;
      } else {
        store(alpha, sum, beta, y + row);
      }
    }
  }
  if (dot) device::finish_reduction<1>(dots, partials, arrived, result);
}

// A lane's row while a slice is encoded.
struct LaneRow {
  const std::int32_t* col;
  int at, length;
  std::int32_t start;  // of the row's group
  std::int64_t begin;  // its first entry in the matrix

  __device__ std::int32_t key() const { return at < length ? col[at] - start : none; }
  // Moves to the next entry whose key is not in the list; false when there is none.
  __device__ bool next_rest(const int2* diagonals, int count, int& list) {
    for (; at < length; ++at) {
      const std::int32_t mine = key();
      while (list < count && diagonals[list].x < mine) ++list;
      if (list == count || diagonals[list].x != mine) return true;
    }
    return false;
  }
};

// Reads the slice's columns to `stage`, which holds `room` numbers for each warp, where they fit: lanes that
// walk along their rows one number at a time would fetch whole cache lines again and again.
__device__ inline LaneRow lane_row(const DevicePattern& a, const std::int32_t* perm, int group,
                                   std::int64_t p, std::int32_t* stage, int room) {
  LaneRow mine{a.col, 0, 0, 0, 0};
  const int lane = threadIdx.x % 32;
  if (p < a.rows) {
    const std::int64_t row = perm ? perm[p] : p;
    mine.begin = a.row_ptr[row];
    mine.length = static_cast<int>(a.row_ptr[row + 1] - mine.begin);
    mine.start = static_cast<std::int32_t>(row) - static_cast<std::int32_t>(row) % group;
    mine.col += mine.begin;
  }
  int before = mine.length;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, before, step);
    if (lane >= step) before += other;
  }
  const int all = __shfl_sync(0xffffffffu, before, 31);
  before -= mine.length;
  if (all > room) return mine;
  stage += threadIdx.x / 32 * room;
  if (perm) {
    for (int r = 0; r < 32; ++r) {
      const int length = __shfl_sync(0xffffffffu, mine.length, r), to = __shfl_sync(0xffffffffu, before, r);
      const std::int64_t from = __shfl_sync(0xffffffffu, mine.begin, r);
      for (int i = lane; i < length; i += 32) stage[to + i] = a.col[from + i];
    }
  } else {
    const std::int64_t from = __shfl_sync(0xffffffffu, mine.begin, 0);
    for (int i = lane; i < all; i += 32) stage[i] = a.col[from + i];
  }
  __syncwarp();
  mine.col = stage + before;
  return mine;
}

__device__ inline std::int32_t warp_min(std::int32_t value) { return __reduce_min_sync(0xffffffffu, value); }
__device__ inline std::int32_t warp_max(std::int32_t value) { return __reduce_max_sync(0xffffffffu, value); }

enum Kind { near_slot, far_slot, wide_slot };
// The kind of a slot by rank from its columns (none in lanes without an entry), and its base.
__device__ inline Kind classify(bool has, std::int32_t col, std::int32_t& base) {
  base = warp_min(has ? col : none);
  const std::int32_t spread = warp_max(has ? col : -1) - base;
  return spread < 255 ? near_slot : spread < 65535 ? far_slot : wide_slot;
}

struct SliceCounts {
  unsigned short diagonal, near, far, wide;
};

struct PlanTask {
  DevicePattern pattern;
  const std::int32_t* perm;
  const std::int64_t* slice_ptr;  // 32 times the width of each slice, summed up
  int group, value_bytes;
  std::int64_t slices, step;  // every step-th slice only
  int room;                   // of each warp in shared memory
  SliceCounts* counts;
  int2* diagonals;  // key and mask of those of slice s, from 2 * slice_ptr[s] / 32 on
  std::int64_t *slots, *units;
  // Bytes of the slices as estimated, added up for groups of 1 + blockIdx.y rows; null when the plan is
  // wanted.
  unsigned long long* cost;
};

// Calls met(key, mask) for every diagonal of the slice in ascending order, by merging its rows, until it
// returns false; true at the end.
template <class Met>
__device__ inline bool merge_diagonals(LaneRow row, Met met) {
  for (std::int32_t key = row.key();;) {
    const std::int32_t lowest = warp_min(key);
    if (lowest == none) return true;
    const bool mine = key == lowest;
    if (!met(lowest, __ballot_sync(0xffffffffu, mine), mine)) return false;
    if (mine) ++row.at, key = row.key();
  }
}

constexpr int plan_warps = 4;

// A warp a slice. All diagonals of the slice are met in ascending order, to see what each of five thresholds
// on the rows of a diagonal would give; then the best is carried out.
static __global__ void __launch_bounds__(plan_warps * 32) packed_plan(PlanTask task) {
  extern __shared__ std::int32_t stage[];
  constexpr int tries = 5;
  constexpr int threshold[tries] = {1, 9, 17, 25, 32};
  const int lane = threadIdx.x % 32;
  const std::int64_t slice = (std::int64_t{blockIdx.x} * plan_warps + threadIdx.x / 32) * task.step;
  if (slice >= task.slices) return;
  const int group = task.cost ? 1 + static_cast<int>(blockIdx.y) : task.group;
  const LaneRow begin = lane_row(task.pattern, task.perm, group, slice * height + lane, stage, task.room);
  const auto width = static_cast<int>((task.slice_ptr[slice + 1] - task.slice_ptr[slice]) / height);
  const int slot_bytes = 32 * task.value_bytes;
  int2* list = task.diagonals + task.slice_ptr[slice] / (height / 2);

  int diagonals[tries] = {}, rest[tries] = {}, met = 0;
  const bool whole = merge_diagonals(begin, [&](std::int32_t key, unsigned mask, bool mine) {
    if (met == 6 * width + 32) return false;  // rows with little in common: not worth looking further
    const int rows = __popc(mask);
#pragma unroll
    for (int i = 0; i < tries; ++i) {
      if (rows >= threshold[i])
        ++diagonals[i];
      else
        rest[i] += mine;
    }
    if (!task.cost && lane == 0 && met < 2 * width) list[met] = make_int2(key, static_cast<int>(mask));
    ++met;
    return true;
  });
  int best = 33, diagonal = 0, cost = width * (slot_bytes + 48);
  if (whole) {
#pragma unroll
    for (int i = tries - 1; i >= 0; --i) {
      const int its = diagonals[i] * (slot_bytes + 8) + warp_max(rest[i]) * (slot_bytes + 48);
      if (its <= cost) cost = its, best = threshold[i];
    }
  }
  if (task.cost) {
    if (lane == 0) atomicAdd(task.cost + blockIdx.y, static_cast<unsigned long long>(cost));
    return;
  }
  __syncwarp();
  // What is taken costs no more than slots by rank alone, so the list has room for it.
  if (best < 33 && met <= 2 * width) {
    for (int first = 0; first < met; first += 32) {
      const bool here = first + lane < met;
      const int2 item = here ? list[first + lane] : make_int2(0, 0);
      const bool taken = here && __popc(static_cast<unsigned>(item.y)) >= best;
      const unsigned all = __ballot_sync(0xffffffffu, taken);
      if (taken) list[diagonal + __popc(all & ((1u << lane) - 1))] = item;
      diagonal += __popc(all);
      __syncwarp();
    }
  } else if (best < 33) {
    merge_diagonals(begin, [&](std::int32_t key, unsigned mask, bool) {
      if (__popc(mask) < best) return true;
      if (lane == 0) list[diagonal] = make_int2(key, static_cast<int>(mask));
      ++diagonal;
      return true;
    });
    __syncwarp();
  }

  int kinds[3] = {};
  if (best > 1) {
    LaneRow row = begin;
    int at = 0;
    for (;;) {
      const bool has = row.next_rest(list, diagonal, at);
      if (__ballot_sync(0xffffffffu, has) == 0) break;
      std::int32_t base;
      const Kind kind = classify(has, has ? row.col[row.at] : 0, base);
      kinds[near_slot] += kind == near_slot, kinds[far_slot] += kind == far_slot;
      kinds[wide_slot] += kind == wide_slot;
      if (has) ++row.at;
    }
  }
  if (lane != 0) return;
  const unsigned slots = diagonal + kinds[near_slot] + kinds[far_slot] + kinds[wide_slot];
  const unsigned units = slice_units(diagonal, kinds[near_slot], kinds[far_slot], kinds[wide_slot]);
  task.counts[slice] = {static_cast<unsigned short>(diagonal), static_cast<unsigned short>(kinds[near_slot]),
                        static_cast<unsigned short>(kinds[far_slot]),
                        static_cast<unsigned short>(kinds[wide_slot])};
  task.slots[slice] = slots;
  task.units[slice] = units;
}

// Slots, units, and whether any slot is not a diagonal.
static __global__ void packed_totals(std::int64_t slices, const SliceCounts* counts,
                                     const std::int64_t* slots, const std::int64_t* units,
                                     std::int64_t* totals) {
  const std::int64_t slice = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slice == 0) totals[0] = slots[slices], totals[1] = units[slices];
  if (slice < slices && counts[slice].near + counts[slice].far + counts[slice].wide > 0) totals[2] = 1;
}

static __global__ void packed_heads(std::int64_t slices, const SliceCounts* counts, const std::int64_t* slots,
                                    const std::int64_t* units, const std::int64_t* slice_ptr,
                                    const int2* diagonals, SliceHead* heads, std::uint32_t* code) {
  const std::int64_t slice = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (slice >= slices) return;
  const int lane = threadIdx.x % 32;
  const SliceCounts n = counts[slice];
  if (lane == 0)
    heads[slice] = {static_cast<unsigned>(slots[slice]),
                    static_cast<unsigned>(units[slice]),
                    n.diagonal,
                    n.near,
                    n.far,
                    n.wide};
  auto* to = reinterpret_cast<int2*>(code + units[slice] * 8);
  const int2* from = diagonals + slice_ptr[slice] / (height / 2);
  const int count = static_cast<int>(index_units(n.diagonal, n.near, n.far)) * 4;
  for (int i = lane; i < count; i += 32) to[i] = i < n.diagonal ? from[i] : make_int2(0, 0);
}

// The values of diagonal slots. A warp a slice, which reads eight entries of four rows at a time: the slot of
// an entry is found by its key.
template <class T>
__device__ inline void fill_diagonals(const SliceHead& head, const int2* diagonals, const LaneRow& row,
                                      const DevicePattern& pattern, const T* from, T* values) {
  constexpr int tile = 8;
  const int lane = threadIdx.x % 32, count = head.diagonal;
  const bool rest = head.near + head.far + head.wide > 0;
  for (int r0 = 0; r0 < 32; r0 += 32 / tile) {
    const int r = r0 + lane / tile;
    const int length = __shfl_sync(0xffffffffu, row.length, r);
    const std::int32_t start = __shfl_sync(0xffffffffu, row.start, r);
    const std::int64_t begin = __shfl_sync(0xffffffffu, row.begin, r);
    if (!rest && length == count) {
#pragma unroll 4
      for (int k = lane % tile; k < length; k += tile) values[k * height + r] = from[begin + k];
      continue;
    }
    for (int k = lane % tile; k < length; k += tile) {
      const std::int32_t key = pattern.col[begin + k] - start;
      const T value = from[begin + k];
      // Where all entries lie on the diagonals, the first k and the last length - k of these are not it.
      int low = rest ? 0 : k, high = rest ? count : k + count - length;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (diagonals[middle].x < key)
          low = middle + 1;
        else
          high = middle;
      }
      if (!rest || (low < count && diagonals[low].x == key)) values[low * height + r] = value;
    }
  }
  for (int k = 0; k < count; ++k)
    if (!(static_cast<unsigned>(diagonals[k].y) >> lane & 1)) values[k * height + lane] = 0;
}

// Writes all but heads, keys and masks, which are there. A warp a slice.
template <class T>
__global__ void __launch_bounds__(plan_warps * 32)
    packed_fill(PackedArrays<T> a, DevicePattern pattern, const T* from, std::uint32_t* code, T* values,
                int room) {
  extern __shared__ std::int32_t stage[];
  const int lane = threadIdx.x % 32;
  const std::int64_t slice = std::int64_t{blockIdx.x} * plan_warps + threadIdx.x / 32;
  if (slice >= a.slices) return;
  const SliceHead head = read_head(a.heads, slice);
  const SliceCode c = slice_code(head, code);
  T* v = values + std::int64_t{head.first_slot} * height;
  const bool rest = head.near + head.far + head.wide > 0;
  LaneRow row = lane_row(pattern, a.perm, a.group, slice * height + lane, stage, rest ? room : -1);
  if (head.diagonal > 0) fill_diagonals(head, c.diagonal, row, pattern, from, v);
  if (!rest) return;

  int list = 0, done[3] = {};
  v += head.diagonal * height + lane;
  for (;;) {
    const bool has = row.next_rest(c.diagonal, head.diagonal, list);
    if (__ballot_sync(0xffffffffu, has) == 0) break;
    std::int32_t base;
    const std::int32_t col = has ? row.col[row.at] : 0;
    const Kind kind = classify(has, col, base);
    int slot = 0;
    if (kind == near_slot) {
      slot = done[near_slot]++;
      if (lane == 0) const_cast<std::int32_t*>(c.base)[slot] = base;
      const_cast<unsigned char*>(c.near)[slot * height + lane] =
          static_cast<unsigned char>(has ? col - base : 255);
    } else if (kind == far_slot) {
      slot = done[far_slot]++;
      if (lane == 0) const_cast<std::int32_t*>(c.base)[head.near + slot] = base;
      const_cast<unsigned short*>(c.far)[slot * height + lane] =
          static_cast<unsigned short>(has ? col - base : 65535);
      slot += head.near;
    } else {
      slot = done[wide_slot]++;
      const_cast<std::int32_t*>(c.wide)[slot * height + lane] = has ? col : -1;
      slot += head.near + head.far;
    }
    v[slot * height] = has ? from[row.begin + row.at] : T(0);
    if (has) ++row.at;
  }
}

// Columns of a slice that fit the shared memory of a warp.
inline int stage_room(std::int64_t longest) {
  return static_cast<int>(std::min<std::int64_t>(longest * 32, 3072));
}

// What is known of a matrix before its arrays are made.
struct Plan {
  std::int64_t slices = 0, slots = 0, units = 0;
  int group = 1, room = 0;
  bool sorted = false, too_long = false, rest = true;

  std::size_t bytes(std::int64_t rows, std::size_t value_bytes) const {
    return static_cast<std::size_t>(slices) * sizeof(SliceHead) + static_cast<std::size_t>(units) * 32 +
           static_cast<std::size_t>(slots) * height * value_bytes +
           (sorted ? static_cast<std::size_t>(rows) * 4 : 0);
  }
};

// The plan and the arrays it was made with.
class Planner {
 public:
  Planner(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
          std::size_t value_bytes)
      : slice_ptr(context, slice_count(pattern) + 1),
        slots(context, slice_count(pattern) + 1),
        units(context, slice_count(pattern) + 1),
        counts(context, slice_count(pattern)),
        perm(context, params.word("order") == "natural" ? 0 : pattern.rows),
        context_(context),
        pattern_(pattern),
        value_bytes_(static_cast<int>(value_bytes)) {
    plan.slices = slice_count(pattern);
    const DeviceRowLengths lengths = device_row_lengths(context, pattern);
    plan.too_long = lengths.longest > longest_allowed;
    if (plan.too_long || plan.slices == 0) return;
    plan.room = stage_room(lengths.longest);
    const std::int64_t stored = choose_order(params.word("order"), lengths.longest);
    diagonals = std::make_unique<device::Scratch<int2>>(context, stored / height * 2);
    choose_group();
    run(task(plan.group, 1), plan.slices);
    device::exclusive_scan(context, slots.data(), slots.size());
    device::exclusive_scan(context, units.data(), units.size());
    read_totals();
  }

  Plan plan;
  const device::Scratch<std::int64_t> slice_ptr, slots, units;
  const device::Scratch<SliceCounts> counts;
  const device::Scratch<std::int32_t> perm;
  std::unique_ptr<device::Scratch<int2>> diagonals;

 private:
  static std::int64_t slice_count(const SparsityPattern& pattern) {
    return (pattern.rows + height - 1) / height;
  }

  std::int64_t count_widths(bool sorted, std::int64_t longest) const {
    if (sorted) order_rows(context_, pattern_, sorted_rows, longest, perm.data());
    count_slice_slots(context_, pattern_, sorted ? perm.data() : nullptr, shift, slice_ptr.data());
    return read_back(context_, slice_ptr.data() + plan.slices);
  }

  // Returns what slots by rank alone would store.
  std::int64_t choose_order(const std::string& order, std::int64_t longest) {
    plan.sorted = order == "sorted";
    const std::int64_t stored = count_widths(plan.sorted, longest);
    if (order != "auto" || static_cast<double>(stored) <= 1.15 * static_cast<double>(pattern_.nonzeros))
      return stored;
    const std::int64_t when_sorted = count_widths(true, longest);
    plan.sorted = static_cast<double>(when_sorted) < 0.9 * static_cast<double>(stored);
    return plan.sorted ? when_sorted : count_widths(false, longest);
  }

  PlanTask task(int group, std::int64_t step) const {
    return {device_pattern(pattern_),
            plan.sorted ? perm.data() : nullptr,
            slice_ptr.data(),
            group,
            value_bytes_,
            plan.slices,
            step,
            plan.room,
            counts.data(),
            diagonals->data(),
            slots.data(),
            units.data(),
            nullptr};
  }

  void run(const PlanTask& task, std::int64_t slices, unsigned groups = 1) const {
    packed_plan<<<dim3(blocks_of(slices, plan_warps), groups), plan_warps * 32, plan_warps * 4 * plan.room,
                  device::stream(context_)>>>(task);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  // The group size that stores the fewest bytes in a sample of slices; the smallest of equals.
  void choose_group() {
    constexpr int most = 4;
    const std::int64_t step = (plan.slices + 511) / 512;
    const device::Scratch<unsigned long long> costs(context_, most);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(costs.data(), 0, costs.bytes(), device::stream(context_)));
    PlanTask sample = task(1, step);
    sample.cost = costs.data();
    run(sample, (plan.slices + step - 1) / step, most);
    unsigned long long host[most];
    device::copy_out(context_, host, costs.data(), sizeof host);
    for (int group = 2; group <= most; ++group)
      if (host[group - 1] < host[plan.group - 1]) plan.group = group;
  }

  void read_totals() {
    const cudaStream_t queue = device::stream(context_);
    const device::Scratch<std::int64_t> totals(context_, 3);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(totals.data(), 0, totals.bytes(), queue));
    packed_totals<<<blocks_of(plan.slices), device::block_size, 0, queue>>>(
        plan.slices, counts.data(), slots.data(), units.data(), totals.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    std::int64_t host[3];
    device::copy_out(context_, host, totals.data(), sizeof host);
    plan.slots = host[0], plan.units = host[1], plan.rest = host[2] != 0;
  }

  const Context& context_;
  const SparsityPattern& pattern_;  // for the length of the constructor
  int value_bytes_;
};

template <class T>
class PackedDevice final : public AssembledMatrix<T>, public HasApplyDot<T> {
 public:
  explicit PackedDevice(const BuildRequest<T>& request) : AssembledMatrix<T>(request) {
    const SparsityPattern& pattern = request.csr.pattern;
    const Planner& made = *static_cast<const Planner*>(request.admission.plan.get());
    plan_ = made.plan;
    heads_ = Buffer<SliceHead>(request.context, plan_.slices);
    code_ = Buffer<std::uint32_t>(request.context, plan_.units * 8);
    values_ = Buffer<T>(request.context, plan_.slots * height);
    if (plan_.sorted) {
      perm_ = Buffer<std::int32_t>(request.context, pattern.rows);
      device::copy_within(*request.context, perm_.data(), made.perm.data(), perm_.bytes());
    }
    if (plan_.slices == 0) return;
    packed_heads<<<blocks_of(plan_.slices * 32), device::block_size, 0, queue()>>>(
        plan_.slices, made.counts.data(), made.slots.data(), made.units.data(), made.slice_ptr.data(),
        made.diagonals->data(), heads_.data(), code_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    fill(request.csr);
    const DeviceState& state = request.context->device_state();
    while (split_ < 8 && plan_.slices * split_ < std::int64_t{state.processors} * 48 &&
           plan_.slots >= plan_.slices * 4 * split_)
      split_ *= 2;
  }

  CsrMatrix<T> to_csr() const override {
    return csr_from_positions<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), arrays());
  }

  std::size_t bytes() const noexcept override {
    return heads_.bytes() + code_.bytes() + values_.bytes() + perm_.bytes();
  }

  void diagonal(VectorView<T> d) const override {
    if (d.size == 0) return;
    packed_diagonal<<<blocks_of(this->rows()), device::block_size, 0, queue()>>>(arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (plan_.slices > 0) fill(csr);
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  PackedArrays<T> arrays() const {
    return {this->rows(), plan_.slices,   plan_.group, heads_.data(),
            code_.data(), values_.data(), perm_.data()};
  }

  void fill(const CsrMatrix<T>& csr) {
    packed_fill<<<blocks_of(plan_.slices, plan_warps), plan_warps * 32,
                  plan_.rest ? plan_warps * 4 * plan_.room : 0, queue()>>>(
        arrays(), device_pattern(csr.pattern), csr.values, code_.data(), values_.data(), plan_.room);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  template <int split, bool rest, bool dot>
  void launch_one(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t pieces =
        (this->rows() + device::block_size / split - 1) / (device::block_size / split);
    const unsigned blocks = product_blocks(state, pieces, dot);
    packed_product<split, rest, dot><<<blocks, device::block_size, 0, state.stream>>>(
        arrays(), alpha, x, beta, y, state.partials, state.arrived, result, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  template <int split, bool dot>
  void launch_split(T alpha, const T* x, T beta, T* y, T* result) const {
    if (plan_.rest)
      launch_one<split, true, dot>(alpha, x, beta, y, result);
    else
      launch_one<split, false, dot>(alpha, x, beta, y, result);
  }
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    if (split_ == 1)
      launch_split<1, dot>(alpha, x, beta, y, result);
    else if (split_ == 2)
      launch_split<2, dot>(alpha, x, beta, y, result);
    else if (split_ == 4)
      launch_split<4, dot>(alpha, x, beta, y, result);
    else
      launch_split<8, dot>(alpha, x, beta, y, result);
  }

  Plan plan_;
  int split_ = 1;
  Buffer<SliceHead> heads_;
  Buffer<std::uint32_t> code_;
  Buffer<T> values_;
  Buffer<std::int32_t> perm_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto planner = std::make_shared<Planner>(context, pattern, params, value_bytes);
  const Plan& plan = planner->plan;
  if (plan.too_long)
    return Admission::refuse("a row has more than " + std::to_string(longest_allowed) +
                             " entries; csr has no such limit");
  Admission admission =
      admit_stored(pattern, plan.slots * height, height, plan.bytes(pattern.rows, value_bytes));
  admission.plan = std::move(planner);
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<PackedDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode sell_packed;
constinit const DeviceCode sell_packed{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
