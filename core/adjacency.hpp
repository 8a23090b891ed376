// The graph of the pattern A + A^T, for orderings. Private.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"

namespace protean::detail {

// Throws ShapeMismatch; `what`: the order.
void require_square(const SparsityPattern& pattern, std::string_view what);

// The neighbours of a row: its columns, and if the pattern is not symmetric also the columns of the transpose. A
// neighbour may occur twice, and a row may be its own. The neighbours of the transpose come in no fixed order.
class Adjacency {
 public:
  Adjacency(const Context& context, const SparsityPattern& pattern, bool known_symmetric)
      : p_(pattern), symmetric_(known_symmetric || pattern_is_symmetric(context, pattern)) {
    if (!symmetric_) transpose(context);
  }

  bool symmetric() const noexcept { return symmetric_; }
  // Entries of the row in A and A^T together.
  std::int64_t degree(std::int64_t i) const {
    return p_.row_length(i) + (symmetric_ ? 0 : begin_[i + 1] - begin_[i]);
  }
  std::span<const std::int32_t> transposed_row(std::int64_t i) const {
    return {node_.get() + begin_[i], static_cast<std::size_t>(begin_[i + 1] - begin_[i])};
  }
  template <class Visit>
  void neighbours(std::int32_t i, Visit&& visit) const {
    for (const std::int32_t j : p_.row(i)) visit(j);
    if (symmetric_) return;
    for (const std::int32_t j : transposed_row(i)) visit(j);
  }
  void prefetch_pointer(std::int32_t i) const {
    if (p_.row_ptr.p32)
      __builtin_prefetch(p_.row_ptr.p32 + i);
    else
      __builtin_prefetch(p_.row_ptr.p64 + i);
  }
  void prefetch_columns(std::int32_t i) const {
    const char* const columns = reinterpret_cast<const char*>(p_.col + p_.row_ptr[i]);
    __builtin_prefetch(columns);
    __builtin_prefetch(columns + 64);
  }

 private:
  void transpose(const Context& context) {
    const std::int64_t n = p_.rows;
    begin_.assign(static_cast<std::size_t>(n) + 1, 0);
    node_.reset(new std::int32_t[static_cast<std::size_t>(p_.nonzeros)]);
    const int parts = useful_parts(context, p_.nonzeros);
    const auto add = [parts](std::int64_t& number) {
      if (parts == 1) return number++;
      return std::atomic_ref(number).fetch_add(1, std::memory_order_relaxed);
    };
    const std::vector<std::int64_t> borders = balanced_row_borders(p_, parts);
    parallel(parts, [&](int part, int) {
      for (std::int64_t k = p_.row_ptr[borders[part]]; k < p_.row_ptr[borders[part + 1]]; ++k)
        add(begin_[p_.col[k] + 1]);
    });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
    parallel(parts, [&](int part, int) {
      for (std::int64_t row = borders[part]; row < borders[part + 1]; ++row)
        for (const std::int32_t col : p_.row(row)) node_[add(next[col])] = static_cast<std::int32_t>(row);
    });
  }

  const SparsityPattern& p_;
  bool symmetric_;
  std::vector<std::int64_t> begin_;
  std::unique_ptr<std::int32_t[]> node_;
};

}  // namespace protean::detail
