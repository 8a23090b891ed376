#include "core/ordering.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include "core/adjacency.hpp"
#include "core/background.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/ordering.hpp"
#endif

namespace protean {
namespace {

// Whether GPUs find order rcm.
constexpr bool rcm_on_device = true;

void require_square(const SparsityPattern& pattern, std::string_view what) {
  if (pattern.rows != pattern.cols)
    throw ShapeMismatch(fmt::format(
        "the pattern is {} x {}; order {} puts rows and columns into the same order, so the matrix must be "
        "square; leave out the order for this one",
        pattern.rows, pattern.cols, what));
}

void require_known(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const OrderingEntry& entry : orderings()) ids.push_back(entry.id);
  if (std::find(ids.begin(), ids.end(), id) == ids.end())
    throw BadArgument(fmt::format("there is no order '{}'; there are {}.{}", id, fmt::join(ids, ", "),
                                  did_you_mean(id, ids)));
}

// The rows in the order in which Cuthill and McKee number them: level by level from a first row; within a level by the
// place of the first neighbour in the level before (the parent), then by degree, then by number.
class CuthillMcKee {
 public:
  CuthillMcKee(const Context& context, const SparsityPattern& pattern, bool known_symmetric)
      : threads_(context.threads()),
        graph_(context, pattern, known_symmetric),
        n_(static_cast<std::int32_t>(pattern.rows)),
        parent_(static_cast<std::size_t>(n_), not_found),
        queue_(static_cast<std::size_t>(n_)),
        found_(static_cast<std::size_t>(threads_)) {}

  std::vector<std::int32_t> order() {
    for (std::int32_t i = 0; i < n_; ++i) {
      if (parent_[i] != not_found) continue;
      const std::int32_t begin = size_;
      Levels levels = search<false>(i, begin);
      // Search again from the last level as long as the number of levels grows, a few times at most. The result of the
      // last search is used, so each one is already the order.
      bool deeper = true;
      for (int pass = 2; deeper && pass < 6 && levels.depth > 0; ++pass) {
        const std::int32_t far = lowest_degree(levels.last);
        forget(begin);
        const Levels next = search<true>(far, begin);
        deeper = next.depth > levels.depth;
        levels = next;
      }
      bandwidth_ = std::max(bandwidth_, levels.bandwidth);
    }
    std::reverse(queue_.begin(), queue_.end());
    return std::move(queue_);
  }
  std::int64_t bandwidth() const noexcept { return bandwidth_; }

 private:
  static constexpr std::int32_t not_found = std::numeric_limits<std::int32_t>::max();
  // A level of fewer rows takes less time than the meetings of the threads.
  static constexpr std::int32_t least_shared = 512;

  struct Levels {
    std::int32_t depth = 0;      // number of the last one
    std::int32_t last = 0;       // where it begins in queue_
    std::int64_t bandwidth = 0;  // of the rows in the order of the queue
  };
  struct Child {
    std::int32_t node, parent;
  };
  using Key = std::pair<std::int64_t, std::int32_t>;
  // What one thread finds in a level.
  struct alignas(64) Found {
    std::vector<Child> children;
    std::vector<Key> keys;
    std::int64_t bandwidth = 0;
  };

  std::int32_t lowest_degree(std::int32_t begin) const {
    const auto key = [this](std::int32_t i) { return Key{graph_.degree(i), i}; };
    std::int32_t least = queue_[begin];
    for (std::int32_t k = begin + 1; k < size_; ++k)
      if (key(queue_[k]) < key(least)) least = queue_[k];
    return least;
  }

  // Makes the rows from `begin` in the queue unknown again.
  void forget(std::int32_t begin) {
    if (size_ - begin == n_)
      std::fill(parent_.begin(), parent_.end(), not_found);
    else
      for (std::int32_t k = begin; k < size_; ++k) parent_[queue_[k]] = not_found;
    size_ = begin;
  }

  // Breadth-first search from `start` into the queue from `begin` on. sorted: in the order described above, else in any
  // order within each level.
  template <bool sorted>
  Levels search(std::int32_t start, std::int32_t begin) {
    Levels levels{0, begin, 0};
    queue_[begin] = start, parent_[start] = begin, size_ = begin + 1;
    for (std::int32_t first = begin;;) {
      // Narrow levels have no parallel region, where background work ends that was cancelled.
      detail::checkpoint();
      const std::int32_t end = size_;
      if (end - first < least_shared || threads_ == 1)
        expand<sorted>(first, end, levels);
      else
        expand_shared<sorted>(first, end, levels);
      if (size_ == end) return levels;
      ++levels.depth, levels.last = first = end;
    }
  }

  // The next rows of the queue may lie anywhere in the pattern.
  void prefetch(std::int32_t k, std::int32_t end) const {
    if (k + 16 < end) graph_.prefetch_pointer(queue_[k + 16]);
    if (k + 8 < end) graph_.prefetch_columns(queue_[k + 8]);
  }

  // Appends the neighbours of the level at first .. end-1 that are not known yet.
  template <bool sorted>
  void expand(std::int32_t first, std::int32_t end, Levels& levels) {
    for (std::int32_t k = first; k < end; ++k) {
      prefetch(k, end);
      const std::int32_t before = size_;
      std::int32_t* next = queue_.data() + size_;
      std::int32_t* const parent = parent_.data();
      graph_.neighbours(queue_[k], [&next, parent, k](std::int32_t j) {
        if (parent[j] == not_found) parent[j] = k, *next++ = j;
      });
      size_ = static_cast<std::int32_t>(next - queue_.data());
      if constexpr (sorted) {
        sort_by_degree(queue_.data() + before, size_ - before, found_[0].keys,
                       [](std::int32_t& i) -> std::int32_t& { return i; });
        // Of all neighbours of a row, the one placed last is the farthest. A row that places none is nearer
        // to its neighbours than the rows that placed them.
        if (size_ > before)
          levels.bandwidth = std::max(levels.bandwidth, static_cast<std::int64_t>(size_ - 1 - k));
      }
    }
  }

  // The same by all threads, which divide the level into stretches of the queue. A row becomes the child of the lowest
  // place that asks for it, whichever thread comes first: a later one may take it from a thread with higher places.
  template <bool sorted>
  void expand_shared(std::int32_t first, std::int32_t end, Levels& levels) {
    parallel(threads_, [&](int part, int parts) {
      const Range mine = even_range(end - first, part, parts);
      std::vector<Child>& children = found_[part].children;
      children.clear();
      for (auto k = static_cast<std::int32_t>(first + mine.begin); k < first + mine.end; ++k) {
        prefetch(k, static_cast<std::int32_t>(first + mine.end));
        graph_.neighbours(queue_[k], [&](std::int32_t j) {
          const std::atomic_ref<std::int32_t> parent(parent_[j]);
          std::int32_t known = parent.load(std::memory_order_relaxed);
          while (sorted ? known > k : known == not_found)
            if (parent.compare_exchange_weak(known, k, std::memory_order_relaxed)) {
              children.push_back({j, k});
              break;
            }
        });
      }
    });
    if constexpr (sorted)
      parallel(threads_, [&](int part, int) {
        std::vector<Child>& children = found_[part].children;
        std::erase_if(children, [this](const Child& c) { return parent_[c.node] != c.parent; });
        for (std::size_t k = 0; k < children.size();) {
          std::size_t next = k + 1;
          while (next < children.size() && children[next].parent == children[k].parent) ++next;
          sort_by_degree(children.data() + k, next - k, found_[part].keys,
                         [](Child& c) -> std::int32_t& { return c.node; });
          k = next;
        }
      });
    parallel(threads_, [&](int part, int) {
      std::int32_t at = end;
      for (int before = 0; before < part; ++before)
        at += static_cast<std::int32_t>(found_[before].children.size());
      std::int64_t widest = 0;
      for (const Child& child : found_[part].children) {
        widest = std::max<std::int64_t>(widest, at - child.parent);
        queue_[at++] = child.node;
      }
      found_[part].bandwidth = widest;
    });
    for (const Found& found : found_) {
      size_ += static_cast<std::int32_t>(found.children.size());
      levels.bandwidth = std::max(levels.bandwidth, found.bandwidth);
    }
  }

  // Sorts `count` items by increasing degree, equal ones by number; node(item) is the row.
  template <class Item, class Node>
  void sort_by_degree(Item* items, std::size_t count, std::vector<Key>& keys, Node node) const {
    if (count < 2) return;
    keys.clear();
    bool sorted = true;
    for (std::size_t k = 0; k < count; ++k) {
      const Key key{graph_.degree(node(items[k])), node(items[k])};
      sorted = sorted && (keys.empty() || keys.back() < key);
      keys.push_back(key);
    }
    if (sorted) return;
    std::sort(keys.begin(), keys.end());
    for (std::size_t k = 0; k < count; ++k) node(items[k]) = keys[k].second;
  }

  int threads_;
  detail::Adjacency graph_;
  std::int32_t n_;
  std::int64_t bandwidth_ = 0;
  std::vector<std::int32_t> parent_;  // the place of the row that found a row
  std::vector<std::int32_t> queue_;
  std::int32_t size_ = 0;  // rows in the queue
  std::vector<Found> found_;
};

// A bijection of 64 bits that leaves no pattern (the finalizer of MurmurHash3).
std::uint64_t mixed(std::uint64_t h) {
  h ^= h >> 33, h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

}  // namespace

bool pattern_is_symmetric(const Context& context, const SparsityPattern& pattern) {
  if (pattern.rows != pattern.cols) return false;
  std::atomic<std::uint64_t> difference{0};
  const int parts = useful_parts(context, pattern.nonzeros);
  const std::vector<std::int64_t> borders = balanced_row_borders(pattern, parts);
  parallel(parts, [&](int part, int) {
    std::uint64_t sum = 0;
    for (std::int64_t i = borders[part]; i < borders[part + 1]; ++i)
      for (const std::int64_t j : pattern.row(i)) {
        const std::uint64_t low = std::min(i, j), high = std::max(i, j);
        const std::uint64_t hash = mixed(high << 32 | low);
        sum += j > i ? hash : j < i ? 0 - hash : 0;
      }
    difference.fetch_add(sum, std::memory_order_relaxed);
  });
  return difference == 0;
}

std::vector<std::int32_t> reverse_cuthill_mckee(const Context& context, const SparsityPattern& pattern,
                                                bool known_symmetric, std::int64_t* bandwidth) {
  require_square(pattern, "reverse Cuthill-McKee");
  CuthillMcKee method(context, pattern, known_symmetric);
  std::vector<std::int32_t> order = method.order();
  if (bandwidth) *bandwidth = method.bandwidth();
  return order;
}

std::vector<std::int32_t> sort_by_length(const Context& context, const SparsityPattern& pattern,
                                         std::int64_t window) {
  if (window < 0) throw BadArgument(fmt::format("window is {}; it must be 0 (all rows) or more", window));
  const std::int64_t n = pattern.rows;
  if (window == 0) window = std::max<std::int64_t>(n, 1);
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t windows = (n + window - 1) / window;
  parallel(useful_parts(context, windows, 2), [&](int part, int parts) {
    const Range mine = even_range(windows, part, parts);
    for (std::int64_t w = mine.begin; w < mine.end; ++w)
      std::stable_sort(
          order.begin() + w * window, order.begin() + std::min(n, (w + 1) * window),
          [&](std::int32_t a, std::int32_t b) { return pattern.row_length(a) > pattern.row_length(b); });
  });
  return order;
}

std::int64_t bandwidth_of(const SparsityPattern& pattern, const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<std::int32_t>(k);
  std::int64_t widest = 0;
  for (std::int64_t row = 0; row < pattern.rows; ++row)
    for (const std::int32_t col : pattern.row(row))
      widest = std::max<std::int64_t>(widest, std::abs(place[row] - place[col]));
  return widest;
}

std::span<const OrderingEntry> orderings() noexcept {
  static const OrderingEntry entries[] = {
    {"rcm", "reverse Cuthill-McKee", {}},
    {"length", "longest rows first", {}},
    {"cluster", "rows that share columns follow each other", {}},
#if defined(PROTEAN_HAVE_METIS)
    {"metis", "nested dissection by METIS", {}},
#else
    {"metis", "nested dissection by METIS",
     "this build has no METIS; install libmetis-dev and configure again (PROTEAN_METIS=ON)"},
#endif
  };
  return entries;
}

std::vector<std::int32_t> make_order(std::string_view id, const Context& context,
                                     const SparsityPattern& pattern) {
  require_known(id);
  require_square(pattern, id);
  if (id == "rcm") return reverse_cuthill_mckee(context, pattern);
  if (id == "length") return sort_by_length(context, pattern);
  if (id == "cluster") return cluster_rows(context, pattern);
  return nested_dissection(context, pattern);
}

FoundOrder find_order(std::string_view id, const ContextPtr& context, const SparsityPattern& pattern,
                      const SparsityPattern* copy) {
  require_known(id);
  require_square(pattern, id);
  if (pattern.space != context->space())
    throw WrongSpace(fmt::format("the pattern lies in {} memory, its context in {} memory",
                                 to_string(pattern.space), to_string(context->space())));
  FoundOrder found;
  if (context->space() == Space::host) {
    found.permutation = Permutation(context, make_order(id, *context, pattern));
    return found;
  }
  if (id != "rcm")
    found.handed_over = fmt::format("order {} is found on the host only", id);
  else if (!rcm_on_device || context->simulated())
    found.handed_over = "this device does not find orders";
#if defined(PROTEAN_HAVE_CUDA)
  if (found.handed_over.empty()) {
    const detail::DeviceScope device_scope(*context);
    device::DeviceOrder there = device::reverse_cuthill_mckee(context, pattern);
    found.handed_over = std::move(there.handed_over);
    if (found.handed_over.empty()) {
      found.permutation = Permutation(context, std::move(there.order), std::move(there.place));
      found.on_device = true;
      return found;
    }
  }
#endif
  const ContextPtr host = Context::host();
  const SparsityPattern here = copy ? *copy : detail::download_pattern(host, *context, pattern);
  detail::checkpoint();
  found.permutation = Permutation(context, make_order(id, *host, here));
  return found;
}

#if !defined(PROTEAN_HAVE_METIS)
std::vector<std::int32_t> nested_dissection(const Context&, const SparsityPattern& pattern) {
  require_square(pattern, "nested dissection");
  throw NotAvailable("order metis: " + std::string(orderings().back().unavailable));
}
#endif

}  // namespace protean
