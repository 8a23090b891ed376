// Reverse Cuthill-McKee: the searches of core/ordering.cpp, a level at a time.
#include "core/device/ordering.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/background.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"

namespace protean::device {
namespace {

// parent[i] is the place of the row that found row i, or one of these.
constexpr std::int32_t not_found = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t no_parent = -1;  // of the first row of a search, and of rows without neighbours

// Limits, beyond which the host finds the order.
constexpr std::int64_t longest_row = 4096;  // the children of a row are compared pair by pair
constexpr int most_parts = 64;              // connected parts of two rows and more
constexpr int most_levels = 4096;           // of one search
constexpr int most_levels_in_all = 16384;
constexpr int first_levels = 512;   // after so many levels of a search
constexpr int least_fraction = 64;  // it must have found one row in so many

constexpr int levels_at_once = 16;  // queued before the host reads how far the search is
constexpr int scan_threads = 1024;

template <class Pointer>
struct Graph {
  const Pointer* row_ptr;
  const std::int32_t* col;
  std::int32_t rows;
};

struct Survey {
  unsigned long long difference;  // of pattern_is_symmetric()
  unsigned long long longest;     // row
  unsigned long long unsorted;    // entries that are not behind the one before in their row
  unsigned long long alone;       // rows without neighbours
};

__device__ inline std::int64_t first_thread() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

// A bijection of 64 bits, that of core/ordering.cpp.
__device__ inline unsigned long long mixed(unsigned long long h) {
  h ^= h >> 33, h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

// One warp a row. alone[i] := 1 where row i has no neighbour, else 0; alone[rows] := 0.
template <class Pointer>
__global__ void survey_kernel(Graph<Pointer> graph, std::int32_t* alone, std::int32_t* parent,
                              Survey* survey) {
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
    alone[i] = others == 0 ? 1 : 0;
    parent[i] = others == 0 ? no_parent : not_found;
    if (others == 0) ++lonely;
    const auto length = static_cast<unsigned long long>(to - from);
    if (length > longest) longest = length;
  }
  if (first_thread() == 0) alone[graph.rows] = 0;
  difference = sum_lanes(difference), unsorted = sum_lanes(unsorted);
  if (lane > 0) return;
  if (difference > 0) atomicAdd(&survey->difference, difference);
  if (unsorted > 0) atomicAdd(&survey->unsorted, unsorted);
  if (lonely > 0) atomicAdd(&survey->alone, lonely);
  if (longest > 0) atomicMax(&survey->longest, longest);
}

// *least := the first row that is not found yet, or what it is.
__global__ void first_row_kernel(const std::int32_t* parent, std::int32_t rows, unsigned long long* least) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < rows; i += all_threads())
    if (parent[i] == not_found) {
      atomicMin(least, static_cast<unsigned long long>(i));
      return;  // those that follow are higher
    }
}

// The level at queue[first .. end-1]: *least := the least (degree, row), the row in the lower 32 bits.
template <class Pointer>
__global__ void lowest_degree_kernel(Graph<Pointer> graph, const std::int32_t* queue, std::int32_t first,
                                     std::int32_t end, unsigned long long* least) {
  wait_for_stream();
  unsigned long long mine = ~0ULL;
  for (std::int64_t k = first + first_thread(); k < end; k += all_threads()) {
    const std::int32_t i = queue[k];
    const auto degree = static_cast<unsigned long long>(graph.row_ptr[i + 1] - graph.row_ptr[i]);
    const unsigned long long key = degree << 32 | static_cast<unsigned>(i);
    if (key < mine) mine = key;
  }
  if (mine != ~0ULL) atomicMin(least, mine);
}

// The rows of a search are unknown again.
__global__ void forget_kernel(const std::int32_t* queue, std::int32_t begin, std::int32_t end,
                              std::int32_t* parent) {
  wait_for_stream();
  for (std::int64_t k = begin + first_thread(); k < end; k += all_threads()) parent[queue[k]] = not_found;
}

// Level 0 of a search: the row in the lower 32 bits of *start, at place `begin`. Level l is at
// queue[bounds[l] .. bounds[l + 1] - 1].
__global__ void start_kernel(const unsigned long long* start, std::int32_t begin, std::int32_t* queue,
                             std::int32_t* parent, std::int32_t* bounds) {
  wait_for_stream();
  if (first_thread() > 0) return;
  const auto row = static_cast<std::int32_t>(*start & 0xffffffffULL);
  queue[begin] = row, parent[row] = no_parent;
  bounds[0] = begin, bounds[1] = begin + 1;
}

// One warp a row of the level. A row that was not known before the level becomes the child of the lowest place that
// asks for it. Rows of this level and those before have parents at lower places than all of this level.
template <class Pointer>
__global__ void claim_kernel(Graph<Pointer> graph, const std::int32_t* queue, const std::int32_t* bounds,
                             int level, std::int32_t* parent) {
  wait_for_stream();
  const std::int64_t end = bounds[level + 1];
  for (std::int64_t k = bounds[level] + first_thread() / 32; k < end; k += all_threads() / 32) {
    const std::int32_t row = queue[k];
    const Pointer to = graph.row_ptr[row + 1];
    for (Pointer e = graph.row_ptr[row] + threadIdx.x % 32; e < to; e += 32) {
      std::int32_t* const known = parent + graph.col[e];
      // An old value is too high at most, and then the atomic operation changes nothing.
      if (__ldcg(known) > k) atomicMin(known, static_cast<std::int32_t>(k));
    }
  }
}

// One warp a row of the level: children[k - bounds[level]] := rows that the row at place k found.
template <class Pointer>
__global__ void count_kernel(Graph<Pointer> graph, const std::int32_t* queue, const std::int32_t* bounds,
                             int level, const std::int32_t* parent, std::int32_t* children) {
  wait_for_stream();
  const std::int64_t first = bounds[level], end = bounds[level + 1];
  for (std::int64_t k = first + first_thread() / 32; k < end; k += all_threads() / 32) {
    const std::int32_t row = queue[k];
    const Pointer to = graph.row_ptr[row + 1];
    std::int32_t count = 0;
    for (Pointer e = graph.row_ptr[row] + threadIdx.x % 32; e < to; e += 32)
      if (parent[graph.col[e]] == k) ++count;
    count = warp_sum(count);
    if (threadIdx.x % 32 == 0) children[k - first] = count;
  }
}

// One block. children[k - bounds[level]] := the place of the first child of the row at place k; it also stores where the
// next level ends.
__global__ void __launch_bounds__(scan_threads)
    places_kernel(std::int32_t* bounds, int level, std::int32_t* children) {
  wait_for_stream();
  constexpr int items = 4;
  __shared__ std::int32_t warps[scan_threads / 32];
  const std::int64_t end = bounds[level + 1], size = end - bounds[level];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int32_t before = static_cast<std::int32_t>(end);
  for (std::int64_t base = 0; base < size; base += scan_threads * items) {
    const std::int64_t at = base + items * static_cast<std::int64_t>(threadIdx.x);
    std::int32_t count[items], sum = 0;
    for (int q = 0; q < items; ++q) {
      count[q] = at + q < size ? children[at + q] : 0;
      sum += count[q];
    }
    std::int32_t upto = sum;  // of the lanes up to this one
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t lower = __shfl_up_sync(0xffffffffu, upto, step);
      if (lane >= step) upto += lower;
    }
    if (lane == 31) warps[warp] = upto;
    __syncthreads();
    if (warp == 0) {
      std::int32_t of_warps = warps[lane];
      for (int step = 1; step < 32; step *= 2) {
        const std::int32_t lower = __shfl_up_sync(0xffffffffu, of_warps, step);
        if (lane >= step) of_warps += lower;
      }
      warps[lane] = of_warps;
    }
    __syncthreads();
    std::int32_t place = before + upto - sum + (warp > 0 ? warps[warp - 1] : 0);
    for (int q = 0; q < items; ++q) {
      if (at + q < size) children[at + q] = place;
      place += count[q];
    }
    before += warps[scan_threads / 32 - 1];
    __syncthreads();  // the next round writes `warps`
  }
  if (threadIdx.x == 0) bounds[level + 2] = before;
}

// One warp a row of the level: puts its children to their places, by degree, equal ones by number. first_child is the
// result of places_kernel(). `keys` has an item for each row of the graph; it is used by rows of more than 32 entries
// only, at the places of their children.
template <class Pointer>
__global__ void place_kernel(Graph<Pointer> graph, const std::int32_t* bounds, int level,
                             const std::int32_t* parent, const std::int32_t* first_child,
                             unsigned long long* keys, std::int32_t* queue) {
  wait_for_stream();
  const int lane = threadIdx.x % 32;
  const std::int64_t first = bounds[level], end = bounds[level + 1];
  for (std::int64_t k = first + first_thread() / 32; k < end; k += all_threads() / 32) {
    const std::int32_t begin = first_child[k - first];
    const std::int32_t count = (k + 1 < end ? first_child[k + 1 - first] : bounds[level + 2]) - begin;
    if (count == 0) continue;
    const std::int32_t row = queue[k];
    const Pointer from = graph.row_ptr[row], to = graph.row_ptr[row + 1];
    std::int32_t stored = 0;
    for (Pointer base = from; base < to; base += 32) {
      std::int32_t j = 0;
      bool child = false;
      if (base + lane < to) j = graph.col[base + lane], child = parent[j] == k;
      unsigned long long key = ~0ULL;
      if (child)
        key = static_cast<unsigned long long>(graph.row_ptr[j + 1] - graph.row_ptr[j]) << 32 |
              static_cast<unsigned>(j);
      const unsigned children = __ballot_sync(0xffffffffu, child);
      if (to - from <= 32) {
        int lower = 0;
        for (unsigned others = children; others != 0; others &= others - 1)
          if (__shfl_sync(0xffffffffu, key, __ffs(static_cast<int>(others)) - 1) < key) ++lower;
        if (child) queue[begin + lower] = j;
      } else {
        if (child) keys[begin + stored + __popc(children & ((1u << lane) - 1))] = key;
        stored += __popc(children);
      }
    }
    if (to - from <= 32) continue;
    __syncwarp();  // all keys are stored
    for (std::int32_t c = lane; c < count; c += 32) {
      const unsigned long long key = keys[begin + c];
      std::int32_t lower = 0;
      for (std::int32_t other = 0; other < count; ++other)
        if (keys[begin + other] < key) ++lower;
      queue[begin + lower] = static_cast<std::int32_t>(key & 0xffffffffULL);
    }
  }
}

// The connected parts of two rows and more, in the order in which they are placed.
struct Parts {
  std::int32_t start[most_parts];   // the first row
  std::int32_t placed[most_parts];  // rows of this part and those before
  int count;
};

// Rows without neighbours are parts as well: they are placed between those that begin at lower and at higher rows.
__global__ void lonely_kernel(const std::int32_t* alone_before, std::int32_t rows, Parts parts,
                              std::int32_t* queue) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < rows; i += all_threads()) {
    const std::int32_t before = alone_before[i];
    if (alone_before[i + 1] == before) continue;
    std::int32_t placed = 0;
    for (int part = 0; part < parts.count && parts.start[part] < i; ++part) placed = parts.placed[part];
    queue[before + placed] = static_cast<std::int32_t>(i);
  }
}

// The order is the queue backwards.
__global__ void reverse_kernel(const std::int32_t* queue, std::int32_t rows, std::int32_t* order,
                               std::int32_t* place) {
  wait_for_stream();
  for (std::int64_t k = first_thread(); k < rows; k += all_threads()) {
    const std::int32_t row = queue[k], at = static_cast<std::int32_t>(rows - 1 - k);
    order[at] = row, place[row] = at;
  }
}

template <class Pointer>
class Searches {
 public:
  Searches(const ContextPtr& context, const SparsityPattern& pattern, const Pointer* row_ptr)
      : context_(context),
        state_(context->device_state()),
        graph_{row_ptr, pattern.col, static_cast<std::int32_t>(pattern.rows)},
        parent_(*context, pattern.rows),
        queue_(*context, pattern.rows),
        children_(*context, pattern.rows),
        alone_(*context, pattern.rows + 1),
        bounds_(*context, most_levels + 2),
        least_(*context, 1) {}

  DeviceOrder order() {
    DeviceOrder result;
    result.handed_over = find();
    if (!result.handed_over.empty()) return result;
    result.order = Buffer<std::int32_t>(context_, graph_.rows);
    result.place = Buffer<std::int32_t>(context_, graph_.rows);
    start(reverse_kernel, graph_.rows, queue_.data(), graph_.rows, result.order.data(), result.place.data());
    return result;
  }

 private:
  struct Levels {
    int depth = 0;                   // number of the last one
    std::int32_t last = 0, end = 0;  // where it is in the queue
  };

  // Why the host must find the order, or empty.
  std::string find() {
    const Survey survey = look();
    if (survey.difference != 0) return "the pattern is not symmetric";
    if (survey.unsorted != 0) return "the columns of a row are not ascending";
    if (survey.longest > longest_row)
      return "a row has " + std::to_string(survey.longest) + " entries, more than " +
             std::to_string(longest_row);
    const auto alone = static_cast<std::int32_t>(survey.alone);
    if (alone > 0) exclusive_scan(*context_, alone_.data(), alone_.size());
    const Scratch<unsigned long long> keys(*context_, survey.longest > 32 ? graph_.rows : 0);
    Parts parts{};
    std::int32_t placed = 0;
    while (placed < graph_.rows - alone) {
      if (parts.count == most_parts)
        return "the graph has more than " + std::to_string(most_parts) +
               " connected parts of two rows and more";
      forget_least();
      start(first_row_kernel, graph_.rows, parent_.data(), graph_.rows, least_.data());
      const auto first = static_cast<std::int32_t>(read<unsigned long long>(least_.data()));
      const std::int32_t begin = placed + (alone > 0 ? read<std::int32_t>(alone_.data() + first) : 0);
      const std::int32_t left = graph_.rows - alone - placed;
      Levels levels;
      if (std::string why = search(begin, left, keys.data(), levels); !why.empty()) return why;
      bool deeper = true;  // as CuthillMcKee::order() of the host
      for (int pass = 2; deeper && pass < 6 && levels.depth > 0; ++pass) {
        forget_least();
        start(lowest_degree_kernel<Pointer>, levels.end - levels.last, graph_, queue_.data(), levels.last,
              levels.end, least_.data());
        start(forget_kernel, levels.end - begin, queue_.data(), begin, levels.end, parent_.data());
        Levels next;
        if (std::string why = search(begin, left, keys.data(), next); !why.empty()) return why;
        deeper = next.depth > levels.depth;
        levels = next;
      }
      placed += levels.end - begin;
      parts.start[parts.count] = first, parts.placed[parts.count] = placed;
      ++parts.count;
    }
    if (alone > 0) start(lonely_kernel, graph_.rows, alone_.data(), graph_.rows, parts, queue_.data());
    return {};
  }

  Survey look() {
    const Scratch<Survey> survey(*context_, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(survey.data(), 0, survey.bytes(), state_.stream));
    start(survey_kernel<Pointer>, std::int64_t{32} * graph_.rows, graph_, alone_.data(), parent_.data(),
          survey.data());
    return read<Survey>(survey.data());
  }

  // Searches from the row in *least_ into the queue from `begin` on; `left` rows could be found.
  std::string search(std::int32_t begin, std::int32_t left, unsigned long long* keys, Levels& levels) {
    launch(state_, start_kernel, 1, 32, least_.data(), begin, queue_.data(), parent_.data(), bounds_.data());
    for (int level = 0; level < most_levels; level += levels_at_once) {
      detail::checkpoint();
      if (levels_ >= most_levels_in_all)
        return "the searches have more than " + std::to_string(most_levels_in_all) + " levels";
      for (int l = level; l < level + levels_at_once; ++l) expand(l, keys);
      levels_ += levels_at_once;
      std::int32_t bounds[levels_at_once + 2];
      copy_out(*context_, bounds, bounds_.data() + level, sizeof(bounds));
      for (int l = 1; l <= levels_at_once; ++l)
        if (bounds[l] == bounds[l + 1]) {
          levels = {level + l - 1, bounds[l - 1], bounds[l]};
          return {};
        }
      const std::int64_t found = bounds[levels_at_once + 1] - begin;
      if (level + levels_at_once == first_levels && found < left / least_fraction)
        return "the first " + std::to_string(first_levels) + " levels of a search have " +
               std::to_string(found) + " of " + std::to_string(left) + " rows";
    }
    return "a search has more than " + std::to_string(most_levels) + " levels";
  }

  // The number of rows of the level is known on the device only, so the kernels fill the device.
  void expand(int level, unsigned long long* keys) {
    const int blocks = state_.processors * (resident_threads / block_size);
    launch(state_, claim_kernel<Pointer>, blocks, block_size, graph_, queue_.data(), bounds_.data(), level,
           parent_.data());
    launch(state_, count_kernel<Pointer>, blocks, block_size, graph_, queue_.data(), bounds_.data(), level,
           parent_.data(), children_.data());
    launch(state_, places_kernel, 1, scan_threads, bounds_.data(), level, children_.data());
    launch(state_, place_kernel<Pointer>, blocks, block_size, graph_, bounds_.data(), level, parent_.data(),
           children_.data(), keys, queue_.data());
  }

  void forget_least() {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(least_.data(), 0xff, least_.bytes(), state_.stream));
  }
  template <class Item>
  Item read(const Item* from) const {
    Item item;
    copy_out(*context_, &item, from, sizeof(item));
    return item;
  }
  // A kernel with a thread for each of `items`.
  template <class... Parameters, class... Arguments>
  void start(void (*kernel)(Parameters...), std::int64_t items, Arguments... arguments) {
    launch(state_, kernel, blocks_for(state_, items), block_size, arguments...);
  }

  ContextPtr context_;
  const DeviceState& state_;
  const Graph<Pointer> graph_;
  const Scratch<std::int32_t> parent_, queue_, children_, alone_, bounds_;
  const Scratch<unsigned long long> least_;
  int levels_ = 0;  // of all searches
};

}  // namespace

DeviceOrder reverse_cuthill_mckee(const ContextPtr& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {};
  return pattern.row_ptr.visit(
      [&](const auto* row_ptr) { return Searches(context, pattern, row_ptr).order(); });
}

}  // namespace protean::device
