#include "preconditioners/factors/factor_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean::detail {
namespace {

// A pattern whose row i has the columns row(i), ascending, except for the diagonal.
template <class Row>
std::shared_ptr<SweepPattern> off_the_diagonal(const ContextPtr& context, std::int64_t n,
                                               std::int64_t entries, Row row) {
  auto made = std::make_shared<SweepPattern>();
  made->n = n;
  // Where the columns above i begin; the columns below i end there or one before.
  Buffer<std::int32_t> below(context, n), above(context, n);
  parallel(useful_parts(*context, entries), [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    constexpr std::size_t few = 32;  // columns that are counted faster than bisected
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const std::span<const std::int32_t> all = row(i);
      std::int32_t before = 0;
      if (all.size() <= few)
        for (const std::int32_t j : all) before += j < i;
      else
        before = static_cast<std::int32_t>(std::lower_bound(all.begin(), all.end(), i) - all.begin());
      const auto size = static_cast<std::int32_t>(all.size());
      below[i] = before;
      above[i] = size - before - (before < size && all[static_cast<std::size_t>(before)] == i);
    }
  });
  set_row_sizes(
      context, *made, [&](std::int64_t i) { return below[i]; }, [&](std::int64_t i) { return above[i]; });
  parallel(useful_parts(*context, made->col.size()), [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const std::span<const std::int32_t> all = row(i);
      std::copy(all.begin(), all.begin() + below[i], made->col.data() + made->lower(i).begin);
      std::reverse_copy(all.end() - above[i], all.end(), made->col.data() + made->upper(i).begin);
    }
  });
  return made;
}

[[noreturn]] void refuse_fill(std::string_view name, const SparsityPattern& A, std::int64_t fill,
                              std::int64_t row, std::int64_t entries, std::int64_t steps) {
  throw BadMatrix(fmt::format(
      "{} with fill {} has {} entries and {} steps in its factors before row {} of {}, for {} entries of the "
      "matrix; at most {} and {} are made. Long rows that come early fill the factors: take fill: 0 ({}0), "
      "number such rows last in the matrix (matrix.order does not change factors), or take another "
      "preconditioner",
      name, fill, entries, steps, row, A.rows, A.nonzeros, most_entries_of_fill(A.nonzeros),
      most_steps_of_fill(A.nonzeros), name));
}

}  // namespace

// Row i is merged with the rows of U of its pivots, in a list of columns in ascending order.
std::shared_ptr<SweepPattern> pattern_of_factors(const ContextPtr& context, const SparsityPattern& A,
                                                 std::int64_t fill, std::string_view name) {
  const std::int64_t n = A.rows;
  if (fill == 0) return off_the_diagonal(context, n, A.nonzeros, [&](std::int64_t i) { return A.row(i); });
  std::vector<std::int32_t> col;    // of row i: ptr[i] .. ptr[i + 1], the columns of U from mid[i]
  std::vector<std::int64_t> level;  // of each entry of col
  std::vector<std::int64_t> ptr(static_cast<std::size_t>(n) + 1), mid(static_cast<std::size_t>(n));
  std::vector<std::int32_t> next(static_cast<std::size_t>(n) + 1);
  std::vector<std::int64_t> level_of(static_cast<std::size_t>(n));
  const auto end = static_cast<std::int32_t>(n), head = end;  // next[head] is the first column
  CheckedSteps steps;
  std::int64_t all_steps = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto diagonal = static_cast<std::int32_t>(i);
    std::int32_t last = head;
    const auto append = [&](std::int32_t j) { next[last] = j, level_of[j] = 0, last = j; };
    bool with_diagonal = false;
    for (const std::int32_t j : A.row(i)) {
      if (!with_diagonal && j >= diagonal) {
        with_diagonal = true;
        if (j > diagonal) append(diagonal);
      }
      append(j);
    }
    if (!with_diagonal) append(diagonal);
    next[last] = end;
    for (std::int32_t k = next[head]; k < diagonal; k = next[k]) {
      const std::int64_t of_row = ptr[k + 1] - mid[k] + 1;
      steps.did(of_row), all_steps += of_row;
      if (all_steps > most_steps_of_fill(A.nonzeros) || std::ssize(col) > most_entries_of_fill(A.nonzeros))
        refuse_fill(name, A, fill, i, std::ssize(col), all_steps);
      std::int32_t before = k;
      for (std::int64_t q = mid[k]; q < ptr[k + 1]; ++q) {
        const std::int32_t j = col[q];
        const std::int64_t own = level_of[k] + level[q] + 1;
        if (own > fill) continue;
        while (next[before] < j) before = next[before];
        if (next[before] == j) {
          level_of[j] = std::min(level_of[j], own);
        } else {
          next[j] = next[before], next[before] = j, level_of[j] = own;
        }
        before = j;
      }
    }
    mid[i] = ptr[i];
    for (std::int32_t j = next[head]; j != end; j = next[j]) {
      if (j == diagonal) continue;
      col.push_back(j), level.push_back(level_of[j]);
      if (j < diagonal) ++mid[i];
    }
    ptr[i + 1] = static_cast<std::int64_t>(col.size());
  }
  return off_the_diagonal(context, n, static_cast<std::int64_t>(col.size()), [&](std::int64_t i) {
    return std::span<const std::int32_t>(col).subspan(static_cast<std::size_t>(ptr[i]),
                                                      static_cast<std::size_t>(ptr[i + 1] - ptr[i]));
  });
}

std::shared_ptr<SweepPattern> pattern_by_colours(const ContextPtr& context, const SparsityPattern& A,
                                                 const Colours& colours) {
  const std::int64_t n = A.rows;
  auto made = std::make_shared<SweepPattern>();
  made->n = n, made->coloured = true;
  Buffer<std::int32_t> lower(context, n), upper(context, n);
  parallel(useful_parts(*context, A.nonzeros), [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      lower[i] = upper[i] = 0;
      for (const std::int32_t j : A.row(i))
        if (j != i) ++(colours.of[j] < colours.of[i] ? lower : upper)[i];
    }
  });
  set_row_sizes(
      context, *made, [&](std::int64_t i) { return lower[i]; }, [&](std::int64_t i) { return upper[i]; });
  parallel(useful_parts(*context, A.nonzeros), [&](int part, int parts) {
    const Range rows = even_range(n, part, parts);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const Range below = made->lower(i), above = made->upper(i);
      std::int32_t *in_l = made->col.data() + below.begin, *in_u = made->col.data() + above.begin;
      for (const std::int32_t j : A.row(i))
        if (j != i) *(colours.of[j] < colours.of[i] ? in_l : in_u)++ = j;
      const auto before = [&](std::int32_t a, std::int32_t b) { return colours.before(a, b); };
      std::sort(made->col.data() + below.begin, in_l, before);
      std::sort(made->col.data() + above.begin, in_u,
                [&](std::int32_t a, std::int32_t b) { return colours.before(b, a); });
    }
  });
  set_colour_stages(context, *made, colours.of, colours.count, true);
  return made;
}

Buffer<std::int32_t> mirrors_of(const ContextPtr& context, const SweepPattern& pattern) {
  Buffer<std::int32_t> mirror(context, pattern.lower_ptr[pattern.n]), left(context, pattern.n);
  for (std::int64_t k = 0; k < pattern.n; ++k) left[k] = static_cast<std::int32_t>(pattern.upper(k).size());
  // Rows of U end with their first column, and rows of L come in the order in which they are eliminated.
  for (std::int64_t step = 0; step < pattern.n; ++step) {
    const Range lower = pattern.lower(pattern.coloured ? pattern.forward.order()[step] : step);
    for (std::int64_t p = lower.begin; p < lower.end; ++p) mirror[p] = --left[pattern.col[p]];
  }
  return mirror;
}

namespace {

Buffer<std::uint8_t> rows_like_next(const ContextPtr& context, const SweepPattern& pattern) {
  if (pattern.coloured || pattern.n == 0) return {};
  Buffer<std::uint8_t> like(context, pattern.n);
  std::vector<std::int64_t> found(static_cast<std::size_t>(useful_parts(*context, pattern.col.size())));
  parallel(static_cast<int>(found.size()), [&](int part, int parts) {
    const Range rows = even_range(pattern.n, part, parts);
    std::int64_t& count = found[static_cast<std::size_t>(part)];
    for (std::int64_t k = rows.begin; k < rows.end; ++k) {
      like[k] = 0;
      if (k + 1 == pattern.n) continue;
      // From the last column to the first, so k + 1 comes last.
      const Range row = pattern.upper(k), next = pattern.upper(k + 1);
      const std::int32_t *const own = pattern.col.data() + row.begin, *const other =
                                                                          pattern.col.data() + next.begin;
      like[k] = row.size() == next.size() + 1 && own[next.size()] == k + 1 &&
                std::equal(other, other + next.size(), own);
      count += like[k];
    }
  });
  std::int64_t all = 0;
  for (const std::int64_t count : found) all += count;
  return all > 0 ? std::move(like) : Buffer<std::uint8_t>();
}

}  // namespace

FactorPlan plan_factors(const ContextPtr& context, const SweepPattern& pattern, bool symmetric) {
  return {symmetric ? mirrors_of(context, pattern) : Buffer<std::int32_t>(),
          rows_like_next(context, pattern)};
}

}  // namespace protean::detail
