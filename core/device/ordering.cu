// Reverse Cuthill-McKee: the searches of core/ordering.cpp, a level at a time.
#include "core/device/ordering.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/background.hpp"
#include "core/device/copy.hpp"
#include "core/device/graph_parts.cuh"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/ordering.hpp"

namespace protean::device {
namespace {

// parent[i] is the place of the row that found row i, or one of these.
constexpr std::int32_t not_found = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t no_parent = -1;  // of the first row of a part

// Limits, beyond which the host finds the order.
constexpr std::int64_t longest_row = 4096;          // the children of a row are compared pair by pair
constexpr int most_levels = most_levels_on_device;  // of one search
constexpr int first_levels = 512;                   // after that many levels of a search
constexpr int least_fraction = 64;                  // it must have found one row in that many

constexpr int levels_at_once = 12;                       // queued before the host reads how far a search is
constexpr int most_levels_at_once = 8 * levels_at_once;  // the same if a search is known to go farther
constexpr int scan_threads = 1024;

// The second search, which finds the order: the parts side by side. Level l of all parts is at queue[bounds[l] ..
// bounds[l + 1] - 1], part after part. A child comes behind the children of lower places, so the parts keep their order
// in each level.
__global__ void forget_kernel(std::int32_t rows, std::int32_t* parent) {
  wait_for_stream();
  for (std::int64_t i = first_thread(); i < rows; i += all_threads()) parent[i] = not_found;
}
__global__ void start_kernel(Parts parts, std::int32_t* queue, std::int32_t* parent, std::int32_t* bounds) {
  wait_for_stream();
  if (first_thread() == 0) bounds[0] = 0, bounds[1] = parts.count;
  for (std::int64_t p = first_thread(); p < parts.count; p += all_threads()) {
    const auto row = static_cast<std::int32_t>(parts.far[p] & 0xffffffffULL);
    queue[p] = row, parent[row] = no_parent;
  }
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

// One block. children[k - bounds[level]] := the place of the first child of the row at place k; it also stores where
// the next level ends.
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

// keys[k] := the part of the row at place k.
__global__ void keys_kernel(Parts parts, const std::int32_t* queue, std::int32_t size, std::uint32_t* keys) {
  wait_for_stream();
  for (std::int64_t k = first_thread(); k < size; k += all_threads())
    keys[k] = static_cast<std::uint32_t>(parts.of_row[queue[k]]);
}
// keys[k], ascending, is the part at place k. begin[p] := the first place of part p; begin[parts.count] := size.
__global__ void begins_kernel(Parts parts, const std::uint32_t* keys, std::int32_t size,
                              std::int32_t* begin) {
  wait_for_stream();
  for (std::int64_t k = first_thread(); k < size; k += all_threads()) {
    if (k == 0 || keys[k - 1] != keys[k]) begin[keys[k]] = static_cast<std::int32_t>(k);
    if (k == 0) begin[parts.count] = size;
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
// The same if rows have no neighbours: they lie between the parts that begin at lower and the parts that begin at
// higher rows. alone_before[i]: how many of them are before row i.
template <class Pointer>
__global__ void reverse_between_kernel(Graph<Pointer> graph, Parts parts, const std::int32_t* queue,
                                       const std::int32_t* begin, const std::int32_t* alone_before,
                                       std::int32_t* order, std::int32_t* place) {
  wait_for_stream();
  const std::int32_t rows = graph.rows, searched = begin[parts.count];
  for (std::int64_t k = first_thread(); k < rows; k += all_threads()) {
    if (k < searched) {
      const std::int32_t row = queue[k];
      const auto at = static_cast<std::int32_t>(rows - 1 - k - alone_before[parts.first[parts.of(row)]]);
      order[at] = row, place[row] = at;
    }
    const auto row = static_cast<std::int32_t>(k);
    if (!graph.alone(row)) continue;
    std::int32_t low = 0, high = parts.count;  // the parts that begin before this row
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (parts.first[middle] < row)
        low = middle + 1;
      else
        high = middle;
    }
    const std::int32_t at = rows - 1 - begin[low] - alone_before[row];
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
        children_(*context, pattern.rows + 1),
        label_(*context, pattern.rows),
        bounds_(*context, most_levels + 2),
        sizes_(*context, most_levels + 2),
        blocks_(state_.processors * (resident_threads / block_size)) {}

  DeviceOrder order() {
    DeviceOrder result;
    const Survey survey = look();
    if (survey.difference != 0)
      result.handed_over = "the pattern is not symmetric";
    else if (survey.unsorted != 0)
      result.handed_over = "the columns of a row are not ascending";
    else if (survey.longest > longest_row)
      result.handed_over = "a row has " + std::to_string(survey.longest) + " entries, more than " +
                           std::to_string(longest_row);
    if (!result.handed_over.empty()) return result;
    searched_ = graph_.rows - static_cast<std::int32_t>(survey.alone);

    const std::int32_t count = searched_ > 0 ? find_parts() : 0;
    // One array for all that is known of the parts, see Parts; the keys of 64 bits are first. One number more: the
    // places where the parts begin are stored in the place of the depths at last.
    const Scratch<unsigned long long> of_parts(*context_, 2 * std::int64_t{count} + 1);
    std::int32_t* const numbers = reinterpret_cast<std::int32_t*>(of_parts.data() + count);
    parts_ = {count, count > 1 ? label_.data() : nullptr, numbers, numbers + count, of_parts.data()};
    if (count > 0) {
      start(parts_kernel<Pointer>, graph_.rows, graph_, children_.data(), label_.data(), parts_);
      result.handed_over = search_all(survey.longest > 32);
      if (!result.handed_over.empty()) return result;
    }
    place(result, survey.alone > 0);
    return result;
  }

 private:
  Survey look() {
    const Scratch<Survey> survey(*context_, 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(survey.data(), 0, survey.bytes(), state_.stream));
    start(survey_kernel<Pointer>, std::int64_t{32} * graph_.rows, graph_, survey.data());
    return read<Survey>(survey.data());
  }

  // Stores the first row of its part in the label of each row, and in children_ how many parts of two rows and more
  // begin before each row. Returns their number.
  std::int32_t find_parts() {
    const std::int32_t rows = graph_.rows;
    start(first_labels_kernel<Pointer>, rows, graph_, label_.data());
    start(join_last_kernel<Pointer>, rows, graph_, label_.data());
    start(compress_kernel, rows, rows, label_.data());
    launch(state_, frequent_label_kernel, 1, 32, label_.data(), rows, bounds_.data());
    start(join_others_kernel<Pointer>, std::int64_t{32} * rows, graph_, bounds_.data(), label_.data());
    start(compress_kernel, rows, rows, label_.data());
    start(first_rows_kernel<Pointer>, rows, graph_, label_.data(), children_.data());
    exclusive_scan(*context_, children_.data(), children_.size());
    return read<std::int32_t>(children_.data() + rows);
  }

  // Puts the rows that have neighbours into the queue, as start_kernel() says. Returns why the host must find the
  // order, or nothing.
  std::string search_all(bool long_rows) {
    const Scratch<unsigned long long> keys(*context_, long_rows ? graph_.rows : 0);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(parent_.data(), 0, parent_.bytes(), state_.stream));
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(sizes_.data(), 0, sizes_.bytes(), state_.stream));
    start(begin_kernel, parts_.count, parts_, queue_.data(), bounds_.data(), sizes_.data(), parent_.data());
    Levels levels{parts_.count};
    std::string why = go_down(
        levels, [&](int level) { spread(level); },
        [&](int level, std::int32_t* sizes, int count) {
          copy_out(*context_, sizes, sizes_.data() + level + 1, count * sizeof(*sizes));
        });
    if (!why.empty()) return why;
    // If there is one part, only its last level need be looked at.
    const std::int32_t first = parts_.count > 1 ? 0 : levels.found - levels.last;
    start(far_kernel<Pointer>, levels.found - first, graph_, parts_, queue_.data(), bounds_.data(), first,
          levels.found);
    start(forget_kernel, graph_.rows, graph_.rows, parent_.data());
    start(start_kernel, parts_.count, parts_, queue_.data(), parent_.data(), bounds_.data());
    // The levels are seldom wider than the levels of the first search. Any number of blocks is right.
    const std::int64_t wanted =
        (2 * std::int64_t{32} * std::max(levels.widest, parts_.count) + block_size - 1) / block_size;
    blocks_ = static_cast<int>(std::clamp<std::int64_t>(wanted, state_.processors, blocks_));
    levels = {parts_.count};
    return go_down(
        levels, [&](int level) { expand(level, keys.data()); },
        [&](int level, std::int32_t* sizes, int count) {
          std::int32_t bounds[most_levels_at_once + 1];
          copy_out(*context_, bounds, bounds_.data() + level + 1, (count + 1) * sizeof(*bounds));
          for (int l = 0; l < count; ++l) sizes[l] = bounds[l + 1] - bounds[l];
        });
  }

  struct Levels {
    std::int32_t found = 0;   // rows in the queue; at first the rows of level 0
    std::int32_t last = 0;    // of these in the last level
    std::int32_t widest = 0;  // in one level
  };

  // Goes down the levels until one is empty. expand(l) queues what finds level l + 1; read(l, sizes, count) fetches the
  // number of rows of the levels l + 1 .. l + count. A level's number of rows is known on the device only until then.
  template <class Expand, class Read>
  std::string go_down(Levels& levels, Expand expand_level, Read read_sizes) {
    levels.last = levels.found;
    for (int level = 0, count = 0; level < most_levels; level += count) {
      // The second search is no less deep than the first one.
      count = deepest_ >= level ? std::min(deepest_ + 1 - level, most_levels_at_once) : levels_at_once;
      count = std::min(count, (level < first_levels ? first_levels : most_levels) - level);
      for (int l = level; l < level + count; ++l) {
        if (l % levels_at_once == 0) detail::checkpoint();
        expand_level(l);
      }
      std::int32_t sizes[most_levels_at_once];
      read_sizes(level, sizes, count);
      for (int l = 0; l < count; ++l) {
        if (sizes[l] == 0) {
          deepest_ = level + l;
          return {};
        }
        levels.found += sizes[l], levels.last = sizes[l];
        levels.widest = std::max(levels.widest, sizes[l]);
      }
      if (level + count == first_levels && levels.found < searched_ / least_fraction)
        return "the first " + std::to_string(first_levels) + " levels of a search have " +
               std::to_string(levels.found) + " of " + std::to_string(searched_) + " rows";
    }
    return "a search has more than " + std::to_string(most_levels) + " levels";
  }

  // The number of rows of a level is not known here.
  void spread(int level) {
    launch(state_, spread_kernel<Pointer>, blocks_, block_size, graph_, parts_, level, queue_.data(),
           bounds_.data(), sizes_.data(), parent_.data());
  }
  void expand(int level, unsigned long long* keys) {
    launch(state_, claim_kernel<Pointer>, blocks_, block_size, graph_, queue_.data(), bounds_.data(), level,
           parent_.data());
    launch(state_, count_kernel<Pointer>, blocks_, block_size, graph_, queue_.data(), bounds_.data(), level,
           parent_.data(), children_.data());
    launch(state_, places_kernel, 1, scan_threads, bounds_.data(), level, children_.data());
    launch(state_, place_kernel<Pointer>, blocks_, block_size, graph_, bounds_.data(), level, parent_.data(),
           children_.data(), keys, queue_.data());
  }

  // The order of the rows in the queue and of those without neighbours.
  void place(DeviceOrder& result, bool alone) {
    std::int32_t* const begin = parts_.depth;  // not needed any more
    if (parts_.count > 1) {
      auto* const keys = reinterpret_cast<std::uint32_t*>(parent_.data());  // parents are not needed any more
      start(keys_kernel, searched_, parts_, queue_.data(), searched_, keys);
      int bits = 1;
      while (parts_.count > std::int64_t{1} << bits) ++bits;
      sort_pairs(*context_, keys, queue_.data(), searched_, bits);  // stable
      start(begins_kernel, searched_, parts_, keys, searched_, begin);
    } else if (alone) {
      const std::int32_t begins[] = {0, searched_};
      copy_in(*context_, begin, begins + 1 - parts_.count, (parts_.count + 1) * sizeof(*begins));
    }
    result.order = Buffer<std::int32_t>(context_, graph_.rows);
    result.place = Buffer<std::int32_t>(context_, graph_.rows);
    if (!alone)
      return start(reverse_kernel, graph_.rows, queue_.data(), graph_.rows, result.order.data(),
                   result.place.data());
    start(alone_kernel<Pointer>, graph_.rows, graph_, children_.data());
    exclusive_scan(*context_, children_.data(), children_.size());
    start(reverse_between_kernel<Pointer>, graph_.rows, graph_, parts_, queue_.data(), begin,
          children_.data(), result.order.data(), result.place.data());
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
  const Scratch<std::int32_t> parent_, queue_, children_, label_, bounds_, sizes_;
  int blocks_;  // of the kernels of a level: at first as many as fill the device
  Parts parts_{};
  std::int32_t searched_ = 0;  // rows that have neighbours
  int deepest_ = -1;           // level of the searches so far
};

}  // namespace

DeviceOrder reverse_cuthill_mckee(const ContextPtr& context, const SparsityPattern& pattern) {
  if (pattern.rows == 0) return {};
  return pattern.row_ptr.visit(
      [&](const auto* row_ptr) { return Searches(context, pattern, row_ptr).order(); });
}

}  // namespace protean::device
