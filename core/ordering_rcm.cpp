// Order rcm on the host.
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "core/adjacency.hpp"
#include "core/background.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

// The rows in the order in which Cuthill and McKee number them: part after part; level by level from a start; within a
// level by the place of the first neighbour in the level before (the parent), then by degree, then by number. Places
// count from the beginning of the part.
class CuthillMcKee {
 public:
  CuthillMcKee(const Context& context, const SparsityPattern& pattern, bool known_symmetric)
      : threads_(context.threads()),
        graph_(context, pattern, known_symmetric),
        n_(static_cast<std::int32_t>(pattern.rows)),
        found_by_(static_cast<std::size_t>(n_), 0),
        queue_(static_cast<std::size_t>(n_) + 1),
        workers_(static_cast<std::size_t>(threads_)) {}

  std::vector<std::int32_t> order() {
    std::int32_t placed = 0;
    bool apart = false;  // the parts have been taken apart
    for (std::int32_t i = 0; i < n_; ++i) {
      if (found_by_[i] != 0) continue;
      // One part after another. If the first one leaves many rows, all others at the same time.
      if (apart || threads_ == 1 || placed == 0 || n_ - placed < least_rest) {
        placed += place_part(i, queue_.data() + placed, workers_[0], true);
      } else {
        place_rest(i, placed);
        break;
      }
    }
    queue_.pop_back();
    std::reverse(queue_.begin(), queue_.end());
    return std::move(queue_);
  }
  std::int64_t bandwidth() const noexcept {
    std::int64_t widest = 0;
    for (const Worker& worker : workers_) widest = std::max(widest, worker.bandwidth);
    return widest;
  }

 private:
  static constexpr std::int32_t nobody = std::numeric_limits<std::int32_t>::max();
  // A level of fewer rows takes less time than the meetings of the threads.
  static constexpr std::int32_t least_shared = 512;
  // The number of rows for which it pays to find out to which parts they belong, and the number that a thread takes at
  // once.
  static constexpr std::int32_t least_rest = 8192, rows_at_once = 2048;
  static constexpr std::int32_t waiting_rows = 8;

  using Number = std::uint8_t;  // of a search

  struct Levels {
    std::int32_t depth = 0;      // number of the last one
    std::int32_t last = 0;       // its beginning in the queue
    std::int32_t size = 0;       // rows found
    std::int64_t bandwidth = 0;  // of the rows in the order of the queue
  };
  struct Child {
    std::int32_t node, parent;
  };
  // What one thread works with.
  struct alignas(64) Worker {
    std::vector<Child> children;
    std::vector<std::uint64_t> keys;
    std::int64_t widest = 0;     // in a level
    std::int64_t bandwidth = 0;  // of all parts that it placed
  };
  struct Part {
    std::int32_t first, begin, rows;
  };

  // Degree and number of a row, as it is sorted. A degree is below 2^32.
  std::uint64_t key(std::int32_t i) const {
    return static_cast<std::uint64_t>(graph_.degree(i)) << 32 | static_cast<std::uint32_t>(i);
  }

  // Puts the part of this row into the queue and returns its number of rows. share: by all threads.
  std::int32_t place_part(std::int32_t first, std::int32_t* queue, Worker& worker, bool share) {
    Levels levels = search<false>(first, 1, queue, worker, share);
    if (levels.depth == 0) return levels.size;
    std::uint64_t least = key(queue[levels.last]);
    for (std::int32_t k = levels.last + 1; k < levels.size; ++k) least = std::min(least, key(queue[k]));
    const auto far = static_cast<std::int32_t>(least & 0xffffffffu);
    levels = search<true>(far, 2, queue, worker, share);
    worker.bandwidth = std::max(worker.bandwidth, levels.bandwidth);
    return levels.size;
  }

  // Breadth-first search from `start`. sorted: in the order described above, else in any order within each level.
  template <bool sorted>
  Levels search(std::int32_t start, Number number, std::int32_t* queue, Worker& worker, bool share) {
    Levels levels{0, 0, 1, 0};
    queue[0] = start, found_by_[start] = number;
    for (std::int32_t first = 0;;) {
      // Narrow levels have no parallel region, in which cancelled background work would end.
      detail::checkpoint();
      const std::int32_t end = levels.size;
      if (share && threads_ > 1 && end - first >= least_shared)
        expand_shared<sorted>(queue, first, end, number, levels);
      else
        expand<sorted>(queue, first, end, number, levels, worker);
      if (levels.size == end) return levels;
      ++levels.depth, levels.last = first = end;
    }
  }

  // The next rows of the queue may lie anywhere in the pattern.
  void prefetch(const std::int32_t* queue, std::int32_t k, std::int32_t end) const {
    if (k + 16 < end) graph_.prefetch_pointer(queue[k + 16]);
    if (k + 8 < end) graph_.prefetch_columns(queue[k + 8]);
  }

  // Appends the neighbours of the level at first .. end-1 that this search has not found. Also writes behind them.
  template <bool sorted>
  void expand(std::int32_t* queue, std::int32_t first, std::int32_t end, Number number, Levels& levels,
              Worker& worker) {
    Number* const found_by = found_by_.data();
    std::int32_t* next = queue + levels.size;
    // Children wait before they are sorted, until their degrees are in the caches.
    struct Siblings {
      std::int32_t *begin, *end;
    } waiting[waiting_rows] = {};
    const auto sort = [&](Siblings& one) {
      sort_by_degree(one.begin, one.end - one.begin, worker.keys,
                     [](std::int32_t& i) -> std::int32_t& { return i; });
    };
    for (std::int32_t k = first; k < end; ++k) {
      prefetch(queue, k, end);
      std::int32_t* const before = next;
      graph_.neighbours(queue[k], [this, &next, found_by, number](std::int32_t j) {
        if (found_by[j] == number) return;
        found_by[j] = number, *next++ = j;
        graph_.prefetch_pointer(j);
      });
      if constexpr (sorted) {
        Siblings& slot = waiting[k % waiting_rows];
        sort(slot);
        slot = {before, next};
        // Of all neighbours of a row, the one placed last is the farthest. A row that places none is nearer
        // to its neighbours than the rows that placed them.
        if (next > before) levels.bandwidth = std::max<std::int64_t>(levels.bandwidth, next - queue - 1 - k);
      }
    }
    if constexpr (sorted)
      for (Siblings& one : waiting) sort(one);
    levels.size = static_cast<std::int32_t>(next - queue);
  }

  // The same by all threads, which divide the level into stretches of the queue. A row becomes the child of the lowest
  // place that asks for it, whichever thread comes first: a later one may take it from a thread with higher places.
  template <bool sorted>
  void expand_shared(std::int32_t* queue, std::int32_t first, std::int32_t end, Number number,
                     Levels& levels) {
    if (sorted && parent_.empty()) parent_.assign(static_cast<std::size_t>(n_), nobody);
    parallel(threads_, [&](int part, int parts) {
      const Range mine = even_range(end - first, part, parts);
      std::vector<Child>& children = workers_[part].children;
      children.clear();
      for (auto k = static_cast<std::int32_t>(first + mine.begin); k < first + mine.end; ++k) {
        prefetch(queue, k, static_cast<std::int32_t>(first + mine.end));
        graph_.neighbours(queue[k], [&](std::int32_t j) {
          const std::atomic_ref<Number> found_by(found_by_[j]);
          if (found_by.load(std::memory_order_relaxed) == number) return;
          if constexpr (sorted) {
            const std::atomic_ref<std::int32_t> parent(parent_[j]);
            std::int32_t known = parent.load(std::memory_order_relaxed);
            while (known > k)
              if (parent.compare_exchange_weak(known, k, std::memory_order_relaxed)) {
                children.push_back({j, k});
                break;
              }
          } else if (found_by.exchange(number, std::memory_order_relaxed) != number) {
            children.push_back({j, k});
          }
        });
      }
    });
    if constexpr (sorted)
      parallel(threads_, [&](int part, int) {
        std::vector<Child>& children = workers_[part].children;
        std::erase_if(children, [this](const Child& c) { return parent_[c.node] != c.parent; });
        for (std::size_t k = 0; k < children.size();) {
          std::size_t next = k + 1;
          while (next < children.size() && children[next].parent == children[k].parent) ++next;
          sort_by_degree(children.data() + k, static_cast<std::ptrdiff_t>(next - k), workers_[part].keys,
                         [](Child& c) -> std::int32_t& { return c.node; });
          k = next;
        }
      });
    parallel(threads_, [&](int part, int) {
      std::int32_t at = end;
      for (int before = 0; before < part; ++before)
        at += static_cast<std::int32_t>(workers_[before].children.size());
      std::int64_t widest = 0;
      for (const Child& child : workers_[part].children) {
        widest = std::max<std::int64_t>(widest, at - child.parent);
        queue[at++] = child.node;
        if constexpr (sorted) parent_[child.node] = nobody, found_by_[child.node] = number;
      }
      workers_[part].widest = widest;
    });
    for (const Worker& worker : workers_) {
      levels.size += static_cast<std::int32_t>(worker.children.size());
      levels.bandwidth = std::max(levels.bandwidth, worker.widest);
    }
  }

  // Sorts `count` items by increasing degree, equal ones by number; node(item) is the row.
  template <class Item, class Node>
  void sort_by_degree(Item* items, std::ptrdiff_t count, std::vector<std::uint64_t>& more, Node node) const {
    if (count < 2) return;
    constexpr std::ptrdiff_t few = 16;  // sorted by insertion
    std::uint64_t here[few];
    std::uint64_t* keys = here;
    if (count > few) {
      more.resize(static_cast<std::size_t>(count));
      keys = more.data();
    }
    bool sorted = true;
    for (std::ptrdiff_t k = 0; k < count; ++k) {
      keys[k] = key(node(items[k]));
      sorted = sorted && (k == 0 || keys[k - 1] < keys[k]);
    }
    if (sorted) return;
    if (count > few)
      std::sort(keys, keys + count);
    else
      for (std::ptrdiff_t k = 1; k < count; ++k) {
        const std::uint64_t one = keys[k];
        std::ptrdiff_t at = k;
        for (; at > 0 && one < keys[at - 1]; --at) keys[at] = keys[at - 1];
        keys[at] = one;
      }
    for (std::ptrdiff_t k = 0; k < count; ++k)
      node(items[k]) = static_cast<std::int32_t>(keys[k] & 0xffffffffu);
  }

  // The root of the tree of row i. Labels are never above the row, and a root is its own.
  static std::int32_t root_of(std::int32_t* label, std::int32_t i) {
    for (;;) {
      const std::atomic_ref<std::int32_t> mine(label[i]);
      const std::int32_t up = mine.load(std::memory_order_relaxed);
      if (up == i) return i;
      const std::int32_t next = std::atomic_ref(label[up]).load(std::memory_order_relaxed);
      // Row i is not a root and never becomes one again, so nobody joins it while this makes its way shorter.
      if (next != up) mine.store(next, std::memory_order_relaxed);
      i = next;
    }
  }
  // Puts the higher root below the lower one.
  static void join(std::int32_t* label, std::int32_t i, std::int32_t j) {
    std::int32_t high = root_of(label, i), low = root_of(label, j);
    while (high != low) {
      if (high < low) std::swap(high, low);
      std::int32_t known = high;
      if (std::atomic_ref(label[high]).compare_exchange_strong(known, low, std::memory_order_relaxed)) return;
      high = root_of(label, known);  // another thread has joined it
    }
  }

  // The parts of the rows from `first` on that no search has found, by their first rows.
  std::vector<Part> find_parts(std::int32_t first, std::int32_t begin) const {
    const std::unique_ptr<std::int32_t[]> label(new std::int32_t[static_cast<std::size_t>(n_)]);
    const auto for_rows = [&](auto body) {
      parallel(threads_, [&](int part, int parts) {
        const Range mine = even_range(n_ - first, part, parts);
        for (auto i = static_cast<std::int32_t>(first + mine.begin); i < first + mine.end; ++i)
          if (found_by_[i] == 0) body(i);
      });
    };
    for_rows([&](std::int32_t i) { label[i] = i; });
    for_rows([&](std::int32_t i) {
      graph_.neighbours(i, [&](std::int32_t j) {
        if (j < i) join(label.get(), i, j);
      });
    });
    // Not by root_of(): it could put a row whose root another thread has stored back below a row that is not a root.
    for_rows([&](std::int32_t i) {
      std::int32_t root = i;
      for (;;) {
        const std::int32_t up = std::atomic_ref(label[root]).load(std::memory_order_relaxed);
        if (up == root) break;
        root = up;
      }
      std::atomic_ref(label[i]).store(root, std::memory_order_relaxed);
    });
    std::vector<Part> parts;
    for (std::int32_t i = first; i < n_; ++i) {
      if (found_by_[i] != 0) continue;
      const std::int32_t root = label[i];
      if (root == i) {
        label[i] = static_cast<std::int32_t>(parts.size());
        parts.push_back({i, 0, 1});
      } else {
        ++parts[static_cast<std::size_t>(label[root])].rows;
      }
    }
    for (Part& part : parts) part.begin = begin, begin += part.rows;
    return parts;
  }

  // Places all parts that are left. Large ones are searched by all threads one after another, the others by one thread
  // each.
  void place_rest(std::int32_t first, std::int32_t placed) {
    const std::vector<Part> parts = find_parts(first, placed);
    const std::int32_t large = std::max(rows_at_once, (n_ - placed) / (2 * threads_));
    std::vector<std::size_t> stretches{0};  // of parts that a thread takes at once
    std::int32_t rows = 0, longest = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].rows > large) {
        place_part(parts[p].first, queue_.data() + parts[p].begin, workers_[0], true);
        // It has written behind its part, in a place that another part may get; no part is placed before this loop has
        // ended.
        continue;
      }
      rows += parts[p].rows, longest = std::max(longest, parts[p].rows);
      if (rows >= rows_at_once) stretches.push_back(p + 1), rows = 0;
    }
    if (stretches.back() != parts.size()) stretches.push_back(parts.size());
    std::atomic<std::size_t> next{0};
    parallel(threads_, [&](int part, int) {
      std::vector<std::int32_t> queue(static_cast<std::size_t>(longest) + 1);
      for (std::size_t at; (at = next.fetch_add(1, std::memory_order_relaxed)) + 1 < stretches.size();)
        for (std::size_t p = stretches[at]; p < stretches[at + 1]; ++p) {
          if (parts[p].rows > large) continue;
          place_part(parts[p].first, queue.data(), workers_[part], false);
          std::copy_n(queue.begin(), parts[p].rows, queue_.begin() + parts[p].begin);
        }
    });
  }

  int threads_;
  detail::Adjacency graph_;
  std::int32_t n_;
  std::vector<Number> found_by_;  // the last search of its part that found a row; 0: none
  std::vector<std::int32_t>
      parent_;  // in a level that threads share: the lowest place that asks for a row, or nobody
  std::vector<std::int32_t> queue_;
  std::vector<Worker> workers_;
};

}  // namespace

std::vector<std::int32_t> reverse_cuthill_mckee(const Context& context, const SparsityPattern& pattern,
                                                bool known_symmetric, std::int64_t* bandwidth) {
  detail::require_square(pattern, "reverse Cuthill-McKee");
  CuthillMcKee method(context, pattern, known_symmetric);
  std::vector<std::int32_t> order = method.order();
  if (bandwidth) *bandwidth = method.bandwidth();
  return order;
}

}  // namespace protean
