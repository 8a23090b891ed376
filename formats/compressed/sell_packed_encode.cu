// The encoder of sell-packed on the device (the layout is in sell_packed.cu). The host waits twice: for the
// number of slots of the slices by rank, and for the totals of the plan.
#include "formats/compressed/sell_packed_encode.cuh"

#include "formats/engines/rows/row_order.cuh"
#include "formats/engines/slices/slices.cuh"

namespace protean::formats::packed_device {
namespace {

constexpr std::int64_t sorted_rows = 1024;
static_assert(sorted_rows <= small_window);  // so the longest row need not be known
constexpr std::int32_t none = 0x7fffffff;

// A lane's row while a slice is encoded.
struct LaneRow {
  const std::int32_t* col;
  int at, length;
  std::int32_t start;  // of the row's group
  std::int64_t begin;  // its first entry in the matrix

  __device__ std::int32_t key() const { return at < length ? col[at] - start : none; }
  // Moves to the next entry whose key is not in the list. Returns false when the row has no such entry.
  __device__ bool next_rest(const int2* diagonals, int count, int& list) {
    for (; at < length; ++at) {
      const std::int32_t mine = key();
      while (list < count && diagonals[list].x < mine) ++list;
      if (list == count || diagonals[list].x != mine) return true;
    }
    return false;
  }
};

// Copies the slice's columns to `stage`, which holds `room` numbers for each warp, if they fit. Lanes that
// read their rows one number at a time would fetch the same cache lines many times.
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

enum Kind { near_slot, far_slot, wide_slot };
// The kind of a slot by rank from its columns (none in lanes without an entry), and its base.
__device__ inline Kind classify(bool has, std::int32_t col, std::int32_t& base) {
  base = device::warp_min(has ? col : none);
  const std::int32_t spread = device::warp_max(has ? col : -1) - base;
  return spread < 255 ? near_slot : spread < 65535 ? far_slot : wide_slot;
}

struct PlanTask {
  DevicePattern pattern;
  const std::int32_t* perm;
  const std::int64_t* slice_ptr;
  int value_bytes;
  std::int64_t slices, step;  // every step-th slice only
  int room;                   // of each warp in shared memory
  SliceCounts* counts;
  int2* diagonals;
  std::int64_t* before;
  // Estimated bytes of a sample of slices, for groups of 1 to most_rows rows. The sampling kernel adds to
  // them, the planning kernel reads them.
  unsigned long long* cost;
  bool sampling;
};
constexpr int most_rows = 4;

// The group size with the fewest bytes; the smallest of equals.
__host__ __device__ inline int best_group(const unsigned long long* cost) {
  int best = 0;
  for (int group = 1; group < most_rows; ++group)
    if (cost[group] < cost[best]) best = group;
  return best + 1;
}

// Merges the rows of the slice: calls visit(key, mask, whether this lane has it) for each of its diagonals,
// in ascending order, until that returns false. Returns true at the end.
template <class Visit>
__device__ inline bool merge_diagonals(LaneRow row, Visit visit) {
  for (std::int32_t key = row.key();;) {
    const std::int32_t lowest = device::warp_min(key);
    if (lowest == none) return true;
    const bool mine = key == lowest;
    if (!visit(lowest, __ballot_sync(0xffffffffu, mine), mine)) return false;
    if (mine) ++row.at, key = row.key();
  }
}

constexpr int plan_warps = 4;
constexpr int no_diagonals = 33;  // a threshold that no diagonal reaches

// The diagonals of a slice that are worth a slot: at least `threshold` rows have them.
struct DiagonalChoice {
  int threshold = no_diagonals;
  int cost;         // estimated bytes of the slice
  int visited = 0;  // diagonals of the slice that were looked at
};

// Visits all diagonals in ascending order and computes the cost for each of five thresholds; the best one wins.
// The first 2 * width diagonals are written to `list`, unless that is null.
__device__ inline DiagonalChoice choose_diagonals(const LaneRow& begin, int width, int slot_bytes,
                                                  int2* list) {
  constexpr int tries = 5;
  constexpr int threshold[tries] = {1, 9, 17, 25, 32};
  int diagonals[tries] = {}, rest[tries] = {};
  DiagonalChoice best;
  best.cost = width * (slot_bytes + 48);
  const bool whole = merge_diagonals(begin, [&](std::int32_t key, unsigned mask, bool mine) {
    if (best.visited == 6 * width + 32) return false;  // the rows have little in common
    const int rows = __popc(mask);
#pragma unroll
    for (int i = 0; i < tries; ++i) {
      if (rows >= threshold[i])
        ++diagonals[i];
      else
        rest[i] += mine;
    }
    if (list && threadIdx.x % 32 == 0 && best.visited < 2 * width)
      list[best.visited] = make_int2(key, static_cast<int>(mask));
    ++best.visited;
    return true;
  });
  if (!whole) return best;
#pragma unroll
  for (int i = tries - 1; i >= 0; --i) {
    const int its = diagonals[i] * (slot_bytes + 8) + device::warp_max(rest[i]) * (slot_bytes + 48);
    if (its <= best.cost) best.cost = its, best.threshold = threshold[i];
  }
  return best;
}

// Leaves in `list` the diagonals of the choice only. Returns their number.
__device__ inline int keep_diagonals(const LaneRow& begin, int width, const DiagonalChoice& choice,
                                     int2* list) {
  const int lane = threadIdx.x % 32;
  int kept = 0;
  // The diagonals taken cost no more than slots by rank alone, so the list is long enough.
  if (choice.threshold < no_diagonals && choice.visited <= 2 * width) {
    for (int first = 0; first < choice.visited; first += 32) {
      const bool here = first + lane < choice.visited;
      const int2 item = here ? list[first + lane] : make_int2(0, 0);
      const bool taken = here && __popc(static_cast<unsigned>(item.y)) >= choice.threshold;
      const unsigned all = __ballot_sync(0xffffffffu, taken);
      if (taken) list[kept + __popc(all & ((1u << lane) - 1))] = item;
      kept += __popc(all);
      __syncwarp();
    }
  } else if (choice.threshold < no_diagonals) {
    merge_diagonals(begin, [&](std::int32_t key, unsigned mask, bool) {
      if (__popc(mask) < choice.threshold) return true;
      if (lane == 0) list[kept] = make_int2(key, static_cast<int>(mask));
      ++kept;
      return true;
    });
    __syncwarp();
  }
  return kept;
}

// Counts the slots by rank of each kind that the entries off the diagonals of the list need.
__device__ inline void count_rest(LaneRow row, const int2* list, int diagonals, int (&kinds)[3]) {
  int at = 0;
  for (;;) {
    const bool has = row.next_rest(list, diagonals, at);
    if (__ballot_sync(0xffffffffu, has) == 0) return;
    std::int32_t base;
    const Kind kind = classify(has, has ? row.col[row.at] : 0, base);
    kinds[near_slot] += kind == near_slot, kinds[far_slot] += kind == far_slot;
    kinds[wide_slot] += kind == wide_slot;
    if (has) ++row.at;
  }
}

// One warp for each slice: its diagonals, and the number of its slots of each kind. The sampling kernel only
// adds up the cost.
static __global__ void __launch_bounds__(plan_warps * 32) packed_plan(PlanTask task) {
  extern __shared__ std::int32_t stage[];
  const int lane = threadIdx.x % 32;
  const std::int64_t slice = (std::int64_t{blockIdx.x} * plan_warps + threadIdx.x / 32) * task.step;
  if (slice >= task.slices) return;
  const int group = task.sampling ? 1 + static_cast<int>(blockIdx.y) : best_group(task.cost);
  const LaneRow begin = lane_row(task.pattern, task.perm, group, slice * height + lane, stage, task.room);
  const auto width = static_cast<int>((task.slice_ptr[slice + 1] - task.slice_ptr[slice]) / height);
  int2* list = task.diagonals + task.slice_ptr[slice] / (height / 2);

  const DiagonalChoice choice =
      choose_diagonals(begin, width, 32 * task.value_bytes, task.sampling ? nullptr : list);
  if (task.sampling) {
    if (lane == 0) atomicAdd(task.cost + blockIdx.y, static_cast<unsigned long long>(choice.cost));
    return;
  }
  __syncwarp();
  const int diagonals = keep_diagonals(begin, width, choice, list);
  int kinds[3] = {};
  if (choice.threshold > 1) count_rest(begin, list, diagonals, kinds);
  if (lane != 0) return;
  const unsigned slots = diagonals + kinds[near_slot] + kinds[far_slot] + kinds[wide_slot];
  const unsigned units = slice_units(diagonals, kinds[near_slot], kinds[far_slot], kinds[wide_slot]);
  task.counts[slice] = {static_cast<unsigned short>(diagonals), static_cast<unsigned short>(kinds[near_slot]),
                        static_cast<unsigned short>(kinds[far_slot]),
                        static_cast<unsigned short>(kinds[wide_slot])};
  task.before[slice] = std::int64_t{slots} << 32 | units;
}

// The totals of a plan that the host reads.
struct Totals {
  unsigned long long cost[most_rows];
  unsigned long long slots_and_units, rest, wide;
};

static __global__ void packed_totals(std::int64_t slices, const SliceCounts* counts,
                                     const std::int64_t* before, Totals* totals) {
  const std::int64_t slice = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slice == 0) totals->slots_and_units = static_cast<unsigned long long>(before[slices]);
  int wide = 0, rest = 0;
  if (slice < slices) wide = counts[slice].wide, rest = wide + counts[slice].near + counts[slice].far;
  wide = device::warp_sum(wide), rest = device::warp_sum(rest);
  if (threadIdx.x % 32 != 0 || rest == 0) return;
  atomicAdd(&totals->rest, static_cast<unsigned long long>(rest));
  atomicAdd(&totals->wide, static_cast<unsigned long long>(wide));
}

static __global__ void packed_heads(std::int64_t slices, const SliceCounts* counts,
                                    const std::int64_t* before, const std::int64_t* slice_ptr,
                                    const int2* diagonals, SliceHead* heads, std::uint32_t* code) {
  const std::int64_t slice = std::int64_t{blockIdx.x} * (device::block_size / 32) + threadIdx.x / 32;
  if (slice >= slices) return;
  const int lane = threadIdx.x % 32;
  const SliceCounts n = counts[slice];
  const auto both = static_cast<unsigned long long>(before[slice]);
  const auto first_slot = static_cast<unsigned>(both >> 32), first_unit = static_cast<unsigned>(both);
  if (lane == 0) heads[slice] = {first_slot, first_unit, n.diagonal, n.near, n.far, n.wide};
  auto* to = reinterpret_cast<int2*>(code + std::int64_t{first_unit} * 8);
  const int2* from = diagonals + slice_ptr[slice] / (height / 2);
  const int count = static_cast<int>(index_units(n.diagonal, n.near, n.far)) * 4;
  for (int i = lane; i < count; i += 32) to[i] = i < n.diagonal ? from[i] : make_int2(0, 0);
}

constexpr int fill_warps = device::block_size / 32;

// Fills the diagonal slots, one warp for each slice. If every row has exactly the entries of the list, they are copied
// in order; else each row is compared with the list.
template <class T, class V>
__global__ void __launch_bounds__(device::block_size)
    packed_fill_diagonals(PackedArrays<V> a, DevicePattern pattern, const T* from, V* values) {
  using Walk = RowWalk<T>;
  __shared__ typename Walk::Room rooms[fill_warps];
  typename Walk::Room& room = rooms[threadIdx.x / 32];
  const std::int64_t slice = std::int64_t{blockIdx.x} * fill_warps + threadIdx.x / 32;
  if (slice >= a.slices) return;
  const SliceHead head = read_head(a.heads, slice);
  const int lane = threadIdx.x % 32, count = head.diagonal;
  if (count == 0) return;
  const LaneRow row = lane_row(pattern, a.perm, a.group, slice * height + lane, nullptr, -1);
  V* v = values + std::int64_t{head.first_slot} * height + lane;
  const bool rest = head.near + head.far + head.wide > 0;
  if (!rest && __all_sync(0xffffffffu, row.length == count)) {
    for (int k0 = 0; k0 < count; k0 += Walk::tile) {
#pragma unroll
      for (int i = 0; i < Walk::tile; ++i) {
        const int r = i * (32 / Walk::tile) + lane / Walk::tile, k = k0 + lane % Walk::tile;
        const std::int64_t its = __shfl_sync(0xffffffffu, row.begin, r);
        if (k < count) room.values[r][lane % Walk::tile] = from[its + k];
      }
      __syncwarp();
#pragma unroll
      for (int j = 0; j < Walk::tile; ++j)
        if (k0 + j < count) v[(k0 + j) * height] = static_cast<V>(room.values[lane][j]);
      __syncwarp();
    }
    return;
  }
  // Columns are needed only if entries lie on other diagonals; these entries are skipped.
  const int2* diagonals = slice_code(head, a.code).diagonal;
  Walk walk(room, rest ? pattern.col : nullptr, from, row.begin, row.begin + row.length);
  for (int k = 0; k < count; ++k) {
    const int2 diagonal = diagonals[k];
    const bool has = static_cast<unsigned>(diagonal.y) >> lane & 1;
    while (rest) {
      const bool before = !walk.ended() && walk.col() - row.start < diagonal.x;
      if (!__any_sync(0xffffffffu, before)) break;
      walk.advance(before);
    }
    v[k * height] = has ? static_cast<V>(walk.value()) : V(0);
    walk.advance(has);
  }
}

// Fills the other slots and their code, one warp for each slice.
template <class T, class V>
__global__ void __launch_bounds__(plan_warps * 32)
    packed_fill_rest(PackedArrays<V> a, DevicePattern pattern, const T* from, std::uint32_t* code, V* values,
                     int room) {
  extern __shared__ std::int32_t stage[];
  const int lane = threadIdx.x % 32;
  const std::int64_t slice = std::int64_t{blockIdx.x} * plan_warps + threadIdx.x / 32;
  if (slice >= a.slices) return;
  const SliceHead head = read_head(a.heads, slice);
  if (head.near + head.far + head.wide == 0) return;
  const SliceCode c = slice_code(head, code);
  V* v = values + std::int64_t{head.first_slot} * height;
  LaneRow row = lane_row(pattern, a.perm, a.group, slice * height + lane, stage, room);

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
      const_cast<unsigned char*>(c.near)[near_place(head.near, slot, lane)] =
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
    v[slot * height] = has ? static_cast<V>(from[row.begin + row.at]) : V(0);
    if (has) ++row.at;
  }
}

}  // namespace

PlanArrays::PlanArrays(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                       std::size_t value_bytes)
    : slice_ptr(context, (pattern.rows + height - 1) / height + 1),
      before(context, slice_ptr.size()),
      counts(context, slice_ptr.size() - 1),
      perm(context, params.word("order") == "natural" ? 0 : pattern.rows) {
  plan.slices = slice_ptr.size() - 1;
  if (plan.slices == 0) return;
  const std::int64_t stored = choose_order(context, pattern, params.word("order"));
  if (plan.too_long) return;
  diagonals = std::make_unique<device::Scratch<int2>>(context, stored / height * 2);
  const cudaStream_t queue = device::stream(context);
  const device::Scratch<Totals> totals(context, 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(totals.data(), 0, totals.bytes(), queue));
  PlanTask task{device_pattern(pattern),
                plan.sorted ? perm.data() : nullptr,
                slice_ptr.data(),
                static_cast<int>(value_bytes),
                plan.slices,
                (plan.slices + 511) / 512,
                plan.room,
                counts.data(),
                diagonals->data(),
                before.data(),
                totals.data()->cost,
                true};
  const auto run = [&](std::int64_t slices, unsigned groups) {
    packed_plan<<<dim3(blocks_of(slices, plan_warps), groups), plan_warps * 32, plan_warps * 4 * plan.room,
                  queue>>>(task);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  };
  run((plan.slices + task.step - 1) / task.step, most_rows);
  task.step = 1, task.sampling = false;
  run(plan.slices, 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data() + plan.slices, 0, 8, queue));
  device::exclusive_scan(context, before.data(), before.size());
  packed_totals<<<blocks_of(plan.slices), device::block_size, 0, queue>>>(plan.slices, counts.data(),
                                                                          before.data(), totals.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const Totals found = read_back(context, totals.data());
  plan.slots = static_cast<std::int64_t>(found.slots_and_units >> 32);
  plan.units = static_cast<std::int64_t>(found.slots_and_units & 0xffffffffu);
  plan.rest = static_cast<std::int64_t>(found.rest), plan.wide = static_cast<std::int64_t>(found.wide);
  plan.group = best_group(found.cost);
}

constexpr SliceRule slices_of_warps{.C = height, .kind = LaneLengths::none};

// Returns the number of values that slots by rank alone would store.
std::int64_t PlanArrays::choose_order(const Context& context, const SparsityPattern& pattern,
                                      const std::string& order) {
  const auto count = [&](bool sorted) {
    if (sorted) order_rows(context, pattern, sorted_rows, longest_allowed, perm.data());
    const SliceFound found =
        count_slices(context, pattern, slices_of_warps, sorted ? perm.data() : nullptr, slice_ptr.data());
    plan.too_long = found.longest > longest_allowed;
    // Columns of a slice that fit the shared memory of a warp.
    plan.room = static_cast<int>(std::min<std::int64_t>(found.longest * 32, 3072));
    return found.slots;
  };
  plan.sorted = order == "sorted";
  const std::int64_t stored = count(plan.sorted);
  if (order != "auto" || static_cast<double>(stored) <= 1.15 * static_cast<double>(pattern.nonzeros))
    return stored;
  const std::int64_t when_sorted = count(true);
  plan.sorted = static_cast<double>(when_sorted) < 0.9 * static_cast<double>(stored);
  return plan.sorted ? when_sorted : count(false);
}

void write_heads(const Context& context, const PlanArrays& arrays, SliceHead* heads, std::uint32_t* code) {
  const std::int64_t slices = arrays.plan.slices;
  packed_heads<<<blocks_of(slices * 32), device::block_size, 0, device::stream(context)>>>(
      slices, arrays.counts.data(), arrays.before.data(), arrays.slice_ptr.data(), arrays.diagonals->data(),
      heads, code);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T, class V>
void fill_packed(const Context& context, const Plan& plan, const PackedArrays<V>& a,
                 const SparsityPattern& pattern, const T* from, std::uint32_t* code, V* values) {
  const cudaStream_t queue = device::stream(context);
  if (plan.slots > plan.rest)
    packed_fill_diagonals<<<blocks_of(plan.slices * 32), device::block_size, 0, queue>>>(
        a, device_pattern(pattern), from, values);
  if (plan.rest > 0)
    packed_fill_rest<<<blocks_of(plan.slices, plan_warps), plan_warps * 32, plan_warps * 4 * plan.room,
                       queue>>>(a, device_pattern(pattern), from, code, values, plan.room);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_FILL(T, V)                                                             \
  template void fill_packed<T, V>(const Context&, const Plan&, const PackedArrays<V>&, \
                                  const SparsityPattern&, const T*, std::uint32_t*, V*);
PROTEAN_FILL(double, double)
PROTEAN_FILL(double, float)
PROTEAN_FILL(float, float)
PROTEAN_FILL(std::uint8_t, std::uint8_t)
#undef PROTEAN_FILL

}  // namespace protean::formats::packed_device
