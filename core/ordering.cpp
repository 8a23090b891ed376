#include "core/ordering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace protean {
namespace {

// Columns by row, as a plain array: the pattern itself, or that of its transpose.
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
      : p_(pattern), level_(static_cast<std::size_t>(pattern.rows), unseen) {
    queue_.reserve(static_cast<std::size_t>(pattern.rows));
    if (known_symmetric) return;
    transposed_ = transposed(pattern);
    for (std::int64_t i = 0; i < pattern.rows; ++i)
      symmetric_ = symmetric_ && std::ranges::equal(pattern.row(i), transposed_.of(i));
  }

  std::vector<std::int32_t> order() {
    const auto n = static_cast<std::int32_t>(p_.rows);
    for (std::int32_t i = 0; i < n; ++i) {
      if (level_[i] != unseen) continue;
      const std::size_t begin = queue_.size();
      std::int32_t start = i;
      std::int32_t depth = search(start, begin);
      // Restart from the last level as long as that makes the levels more; a few times at most.
      for (int round = 0; round < 4 && depth > 0; ++round) {
        std::int32_t far = queue_.back();
        for (std::size_t k = queue_.size(); k > begin && level_[queue_[k - 1]] == depth; --k)
          if (degree(queue_[k - 1]) < degree(far)) far = queue_[k - 1];
        forget(begin);
        const std::int32_t further = search(far, begin);
        start = far;
        if (further <= depth) break;
        depth = further;
      }
      forget(begin);
      number(start, begin);
    }
    std::reverse(queue_.begin(), queue_.end());
    return std::move(queue_);
  }

 private:
  static constexpr std::int32_t unseen = -1;

  std::int64_t degree(std::int32_t i) const {
    return p_.row_length(i) + (symmetric_ ? 0 : transposed_.begin[i + 1] - transposed_.begin[i]);
  }

  template <class Visit>
  void neighbours(std::int32_t i, Visit&& visit) const {
    for (const std::int32_t j : p_.row(i)) visit(j);
    if (symmetric_) return;
    for (const std::int32_t j : transposed_.of(i)) visit(j);
  }

  // Breadth first from `start`; the part is queue_[begin ..]. Returns the number of the last level.
  std::int32_t search(std::int32_t start, std::size_t begin) {
    queue_.push_back(start), level_[start] = 0;
    for (std::size_t k = begin; k < queue_.size(); ++k) {
      const std::int32_t i = queue_[k];
      neighbours(i, [&](std::int32_t j) {
        if (level_[j] == unseen) level_[j] = level_[i] + 1, queue_.push_back(j);
      });
    }
    return level_[queue_.back()];
  }

  // The same with the neighbours of a row by growing degree.
  void number(std::int32_t start, std::size_t begin) {
    queue_.push_back(start), level_[start] = 0;
    for (std::size_t k = begin; k < queue_.size(); ++k) {
      const std::size_t first = queue_.size();
      neighbours(queue_[k], [&](std::int32_t j) {
        if (level_[j] == unseen) level_[j] = 0, queue_.push_back(j);
      });
      std::sort(queue_.begin() + static_cast<std::ptrdiff_t>(first), queue_.end(),
                [&](std::int32_t a, std::int32_t b) {
                  return degree(a) != degree(b) ? degree(a) < degree(b) : a < b;
                });
    }
  }

  void forget(std::size_t begin) {
    for (std::size_t k = begin; k < queue_.size(); ++k) level_[queue_[k]] = unseen;
    queue_.resize(begin);
  }

  const SparsityPattern& p_;
  Adjacency transposed_;
  bool symmetric_ = true;
  std::vector<std::int32_t> level_, queue_;
};

}  // namespace

std::vector<std::int32_t> reverse_cuthill_mckee(const SparsityPattern& pattern, bool known_symmetric) {
  if (pattern.rows != pattern.cols)
    throw ShapeMismatch(fmt::format("the pattern is {} x {}; reverse Cuthill-McKee orders square ones",
                                    pattern.rows, pattern.cols));
  return CuthillMcKee(pattern, known_symmetric).order();
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
