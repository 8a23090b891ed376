#include "core/ordering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.hpp"

namespace protean {
namespace {

// The columns of each row in one array: of the pattern itself, or of its transpose.
struct Adjacency {
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> node;

  std::span<const std::int32_t> of(std::int64_t i) const {
    return {node.data() + begin[i], static_cast<std::size_t>(begin[i + 1] - begin[i])};
  }
};

Adjacency transposed(const SparsityPattern& p) {
  Adjacency t;
  t.begin.assign(static_cast<std::size_t>(p.cols) + 1, 0);
  t.node.resize(static_cast<std::size_t>(p.nonzeros));
  for (std::int64_t k = 0; k < p.nonzeros; ++k) ++t.begin[p.col[k] + 1];
  std::partial_sum(t.begin.begin(), t.begin.end(), t.begin.begin());
  std::vector<std::int64_t> next(t.begin.begin(), t.begin.end() - 1);
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (const std::int32_t col : p.row(row)) t.node[next[col]++] = static_cast<std::int32_t>(row);
  return t;
}

class CuthillMcKee {
 public:
  CuthillMcKee(const SparsityPattern& pattern, bool known_symmetric)
      : p_(pattern), seen_(static_cast<std::size_t>(pattern.rows), 0) {
    queue_.resize(static_cast<std::size_t>(pattern.rows));
    if (known_symmetric) return;
    transposed_ = transposed(pattern);
    for (std::int64_t i = 0; i < pattern.rows; ++i)
      symmetric_ = symmetric_ && std::ranges::equal(pattern.row(i), transposed_.of(i));
  }

  std::vector<std::int32_t> order() {
    const auto n = static_cast<std::int32_t>(p_.rows);
    for (std::int32_t i = 0; i < n; ++i) {
      if (seen_[i] > 0) continue;
      const std::size_t begin = size_;
      Levels levels = search<false>(i, begin, 1);
      // Restart from the last level as long as the number of levels grows, a few times at most. The result of
      // the last search is used, so each restart is already the order.
      bool deeper = true;
      for (unsigned char pass = 2; deeper && pass < 6 && levels.depth > 0; ++pass) {
        const std::int32_t far = lowest_degree(levels.last);
        size_ = begin;
        const Levels next = search<true>(far, begin, pass);
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
  struct Levels {
    std::int32_t depth = 0;      // number of the last one
    std::size_t last = 0;        // where it begins in queue_
    std::int64_t bandwidth = 0;  // of the rows in the order of the queue
  };

  std::int64_t degree(std::int32_t i) const {
    return p_.row_length(i) + (symmetric_ ? 0 : transposed_.begin[i + 1] - transposed_.begin[i]);
  }

  template <class Visit>
  void neighbours(std::int32_t i, Visit&& visit) const {
    for (const std::int32_t j : p_.row(i)) visit(j);
    if (symmetric_) return;
    for (const std::int32_t j : transposed_.of(i)) visit(j);
  }

  std::int32_t lowest_degree(std::size_t begin) const {
    std::int32_t least = queue_[size_ - 1];
    for (std::size_t k = size_; k > begin; --k)
      if (degree(queue_[k - 1]) < degree(least)) least = queue_[k - 1];
    return least;
  }

  // Breadth-first search from `start`. The part found is queue_[begin ..]; its rows have seen_ = `pass`,
  // which they did not have before. by_degree: the new neighbours of a row are sorted by increasing degree,
  // equal ones by number.
  template <bool by_degree>
  Levels search(std::int32_t start, std::size_t begin, unsigned char pass) {
    Levels levels{0, begin, 0};
    queue_[size_++] = start, seen_[start] = pass;
    std::size_t level_end = begin + 1;
    for (std::size_t k = begin; k < size_; ++k) {
      if (k == level_end) ++levels.depth, levels.last = k, level_end = size_;
      prefetch(k);
      const std::size_t first = size_;
      std::int32_t* end = queue_.data() + first;
      unsigned char* const seen = seen_.data();
      neighbours(queue_[k], [&end, seen, pass](std::int32_t j) {
        if (seen[j] != pass) seen[j] = pass, *end++ = j;
      });
      size_ = static_cast<std::size_t>(end - queue_.data());
      if constexpr (by_degree) {
        sort_by_degree(first);
        // Of all neighbours of a row, the one placed last is the farthest. A row that places none is nearer
        // to its neighbours than the rows that placed them.
        if (size_ > first)
          levels.bandwidth = std::max(levels.bandwidth, static_cast<std::int64_t>(size_ - 1 - k));
      }
    }
    return levels;
  }

  // The next rows of the queue may lie anywhere in the pattern.
  void prefetch(std::size_t k) const {
    constexpr std::size_t pointers = 16, columns = 8;
    if (k + pointers < size_) {
      const std::int32_t soon = queue_[k + pointers];
      if (p_.row_ptr.p32)
        __builtin_prefetch(p_.row_ptr.p32 + soon);
      else
        __builtin_prefetch(p_.row_ptr.p64 + soon);
    }
    if (k + columns < size_) __builtin_prefetch(p_.col + p_.row_ptr[queue_[k + columns]]);
  }

  void sort_by_degree(std::size_t first) {
    if (size_ - first < 2) return;
    keys_.clear();
    bool sorted = true;
    for (std::size_t k = first; k < size_; ++k) {
      const Key key{degree(queue_[k]), queue_[k]};
      sorted = sorted && (keys_.empty() || keys_.back() < key);
      keys_.push_back(key);
    }
    if (sorted) return;
    std::sort(keys_.begin(), keys_.end());
    for (std::size_t k = 0; k < keys_.size(); ++k) queue_[first + k] = keys_[k].second;
  }

  using Key = std::pair<std::int64_t, std::int32_t>;
  const SparsityPattern& p_;
  Adjacency transposed_;
  bool symmetric_ = true;
  std::int64_t bandwidth_ = 0;
  std::vector<unsigned char> seen_;  // the last pass that found the row; 0: none
  std::vector<std::int32_t> queue_;
  std::size_t size_ = 0;  // rows in the queue
  std::vector<Key> keys_;
};

}  // namespace

std::vector<std::int32_t> reverse_cuthill_mckee(const SparsityPattern& pattern, bool known_symmetric,
                                                std::int64_t* bandwidth) {
  if (pattern.rows != pattern.cols)
    throw ShapeMismatch(fmt::format("the pattern is {} x {}; reverse Cuthill-McKee orders square ones",
                                    pattern.rows, pattern.cols));
  CuthillMcKee method(pattern, known_symmetric);
  std::vector<std::int32_t> order = method.order();
  if (bandwidth) *bandwidth = method.bandwidth();
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

}  // namespace protean
