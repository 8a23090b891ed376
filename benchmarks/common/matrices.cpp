#include "benchmarks/common/matrices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "core/generate/generate.hpp"
#include "core/generate/row_fill.hpp"
#include "core/io/matrix_market.hpp"
#include "core/parallel.hpp"

namespace protean::bench {
namespace {

using generate_detail::fill_rows;
using generate_detail::mix;
using generate_detail::uniform;

double value_at(std::int64_t row, std::int64_t col) {
  return 2 * uniform(mix(99, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(col))) - 1;
}

double random_at(std::int64_t row, std::int64_t k) {
  return uniform(mix(7, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(k)));
}

// `count` ascending columns in [first, first + span), one in each of `count` even strata.
void spread(std::int64_t row, std::int64_t count, std::int64_t first, std::int64_t span, std::int32_t* col) {
  const double width = static_cast<double>(span) / static_cast<double>(count);
  std::int64_t least = first;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto at = first + static_cast<std::int64_t>(width * (static_cast<double>(k) + random_at(row, k)));
    const std::int64_t c = std::min(std::max(at, least), first + span - (count - k));
    col[k] = static_cast<std::int32_t>(c), least = c + 1;
  }
}

void set_values(std::int64_t row, std::int64_t count, const std::int32_t* col, double* value) {
  for (std::int64_t k = 0; k < count; ++k) value[k] = value_at(row, col[k]);
}

// A length with P(length >= k) = k^-exponent, at most `most`.
std::int64_t power_law_length(std::int64_t row, double exponent, std::int64_t most) {
  const double u = 1 - uniform(mix(3, static_cast<std::uint64_t>(row), 0));
  return static_cast<std::int64_t>(std::min(static_cast<double>(most), std::pow(u, -1 / exponent)));
}

// Rows as long as a power law says, at most 4700; three fifths of a row's columns are near the diagonal.
CsrMatrix<double> webbase(const ContextPtr& context, std::int64_t n) {
  const auto length = [n](std::int64_t row) {
    return power_law_length(row, 1.38, std::min<std::int64_t>(4700, n / 4));
  };
  return fill_rows(RowTarget{.context = context}, "webbase-like", n, length,
                   [&](std::int64_t row, std::int32_t* col, double* value) {
                     const std::int64_t count = length(row), window = std::max<std::int64_t>(100, 2 * count);
                     const std::int64_t begin = std::clamp<std::int64_t>(row - window / 2, 0, n - window);
                     std::int64_t near = 0;
                     for (std::int64_t k = 0; k < count; ++k) near += random_at(row, k + 100000) < 0.6;
                     if (near > 0) spread(row, near, begin, window, col);
                     // The others lie before and behind the window.
                     std::int64_t far = count - near;
                     if (far > 0) {
                       spread(row, far, 0, n - window, col + near);
                       for (std::int64_t k = near; k < count; ++k)
                         if (col[k] >= begin) col[k] += static_cast<std::int32_t>(window);
                     }
                     std::sort(col, col + count);
                     set_values(row, count, col, value);
                   });
}

// 94 % of the rows are empty, the others as long as a power law says, at most 100,000, with columns that
// follow a power law, too.
CsrMatrix<double> wiki_talk(const ContextPtr& context, std::int64_t n) {
  std::int64_t stride = 1483281;
  while (std::gcd(stride, n) != 1) ++stride;
  const auto length = [n](std::int64_t row) {
    return random_at(row, 900000) < 0.062 ? power_law_length(row, 0.83, std::min<std::int64_t>(100000, n / 4))
                                          : std::int64_t{0};
  };
  return fill_rows(RowTarget{.context = context}, "wiki-Talk-like", n, length,
                   [&](std::int64_t row, std::int32_t* col, double* value) {
                     const std::int64_t count = length(row);
                     if (count == 0) return;
                     std::int64_t least = 0;
                     for (std::int64_t k = 0; k < count; ++k) {
                       const double u =
                           (static_cast<double>(k) + random_at(row, k)) / static_cast<double>(count);
                       const auto rank = static_cast<std::int64_t>(u * u * static_cast<double>(n));
                       const std::int64_t c = std::min(std::max(rank, least), n - (count - k));
                       least = c + 1;
                       col[k] = static_cast<std::int32_t>(c * stride % n);
                     }
                     std::sort(col, col + count);
                     set_values(row, count, col, value);
                   });
}

// Five entries a row: the first column, the diagonal and three near it; two rows are nearly full.
CsrMatrix<double> full_rows(const ContextPtr& context, std::int64_t n, std::int64_t full) {
  const auto is_full = [=](std::int64_t row) { return row == n / 3 || row == n / 3 * 2; };
  return fill_rows(
      RowTarget{.context = context}, "full-rows", n,
      [=](std::int64_t row) { return is_full(row) ? full : 5; },
      [=](std::int64_t row, std::int32_t* col, double* value) {
        const std::int64_t count = is_full(row) ? full : 5, window = is_full(row) ? n - 1 : n / 100;
        *col = 0;
        spread(row, count - 1, std::clamp<std::int64_t>(row - window / 2, 1, n - window), window, col + 1);
        set_values(row, count, col, value);
      });
}

CsrMatrix<double> random_gather(const ContextPtr& context, std::int64_t n) {
  constexpr std::int64_t count = 10;
  return fill_rows(
      RowTarget{.context = context}, "random-10", n, [](std::int64_t) { return count; },
      [n](std::int64_t row, std::int32_t* col, double* value) {
        spread(row, count, 0, n, col);
        set_values(row, count, col, value);
      });
}

// P A P^T: entry (r, s) of the result is entry (order[r], order[s]) of A.
CsrMatrix<double> permuted(const ContextPtr& context, const CsrMatrix<double>& A,
                           const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> place(order.size());
  for (std::size_t r = 0; r < order.size(); ++r) place[order[r]] = static_cast<std::int32_t>(r);
  return fill_rows(
      RowTarget{.context = context}, "permuted", A.rows(),
      [&](std::int64_t row) { return A.pattern.row_length(order[row]); },
      [&](std::int64_t row, std::int32_t* col, double* value) {
        std::vector<std::pair<std::int32_t, double>> entries;
        for (std::int64_t k = A.pattern.row_ptr[order[row]]; k < A.pattern.row_ptr[order[row] + 1]; ++k)
          entries.emplace_back(place[A.pattern.col[k]], A.values[k]);
        std::sort(entries.begin(), entries.end());
        for (std::size_t k = 0; k < entries.size(); ++k)
          col[k] = entries[k].first, value[k] = entries[k].second;
      });
}

CsrMatrix<double> stencil_27(const ContextPtr& context, std::int32_t n) {
  return generate(context, "poisson-3d", {{"n", static_cast<double>(n)}, {"points", 27}});
}

CsrMatrix<double> shuffled_27(const ContextPtr& context, std::int32_t n) {
  const CsrMatrix<double> A = stencil_27(context, n);
  std::vector<std::int32_t> order(static_cast<std::size_t>(A.rows()));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[static_cast<std::size_t>(random_at(static_cast<std::int64_t>(i), 1) *
                                                       static_cast<double>(i + 1))]);
  return permuted(context, A, order);
}

// The levels of a breadth-first search from a corner, last level first, as reverse Cuthill-McKee has them;
// within a level by position.
CsrMatrix<double> levels_27(const ContextPtr& context, std::int32_t n) {
  const CsrMatrix<double> A = stencil_27(context, n);
  std::vector<std::int32_t> order(static_cast<std::size_t>(A.rows()));
  std::vector<std::int32_t> begin(static_cast<std::size_t>(n) + 1);
  const auto level = [n](std::int32_t at) { return std::max({at % n, at / n % n, at / (n * n)}); };
  for (std::int32_t at = 0; at < A.rows(); ++at) ++begin[n - 1 - level(at) + 1];
  for (int l = 0; l < n; ++l) begin[l + 1] += begin[l];
  for (std::int32_t at = 0; at < A.rows(); ++at) order[begin[n - 1 - level(at)]++] = at;
  return permuted(context, A, order);
}

CsrMatrix<double> repeated(const ContextPtr& context, const CsrMatrix<double>& A, std::int64_t copies) {
  const std::int64_t rows = A.rows(), entries = A.nonzeros();
  CsrBuilder<double> builder(context, rows * copies, A.cols() * copies, entries * copies);
  parallel(context->threads(), [&](int part, int parts) {
    const Range range = even_range(copies, part, parts);
    for (std::int64_t copy = range.begin; copy < range.end; ++copy) {
      const auto shift = static_cast<std::int32_t>(copy * A.cols());
      for (std::int64_t r = 0; r < rows; ++r)
        builder.set_row_ptr(copy * rows + r + 1, copy * entries + A.pattern.row_ptr[r + 1]);
      for (std::int64_t k = 0; k < entries; ++k)
        builder.col()[copy * entries + k] = A.pattern.col[k] + shift,
                                       builder.values()[copy * entries + k] = A.values[k];
    }
  });
  return builder.freeze();
}

bool lengths_vary(const SparsityPattern& pattern) {
  const double mean = static_cast<double>(pattern.nonzeros) / static_cast<double>(pattern.rows);
  double squares = 0;
  for (std::int64_t r = 0; r < pattern.rows; ++r) {
    const double difference = static_cast<double>(pattern.row_length(r)) - mean;
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(pattern.rows)) > 0.5 * mean;
}

}  // namespace

std::vector<NamedMatrix> formula_matrices(double share) {
  if (!(share >= 0.01 && share <= 1))
    throw BadArgument(fmt::format("the share of a GPU's rows is {}; it must be within 0.01 and 1", share));
  const auto rows = [=](std::int64_t n) { return std::llround(share * static_cast<double>(n)); };
  const auto edge = [=](int n) { return static_cast<std::int32_t>(std::lround(n * std::cbrt(share))); };
  const auto pde = [&](int full) {
    const std::int32_t n = edge(full);
    return NamedMatrix{fmt::format("pde{}", n), fmt::format("7-point stencil, {}^3", n), Group::regular,
                       [n](const ContextPtr& context) {
                         return generate(context, "poisson-3d", {{"n", static_cast<double>(n)}});
                       }};
  };
  const auto full = [&](const char* name, std::int64_t n, std::int64_t length) {
    return NamedMatrix{name, fmt::format("two full rows among {}", rows(n)), Group::skewed,
                       [size = rows(n), most = rows(length)](const ContextPtr& context) {
                         return full_rows(context, size, most);
                       }};
  };
  const std::int32_t cube = edge(128), elements = edge(64);
  return {
      pde(60),
      pde(100),
      pde(200),
      {fmt::format("hpcg{}", cube), fmt::format("27-point stencil, {}^3", cube), Group::regular,
       [cube](const ContextPtr& context) { return stencil_27(context, cube); }},
      {fmt::format("elast{}", elements), fmt::format("elasticity, {}^3 elements", elements), Group::regular,
       [elements](const ContextPtr& context) {
         return generate(context, "elasticity-3d", {{"n", static_cast<double>(elements)}});
       }},
      {"rcm27", "27-point stencil ordered by levels from a corner, last first", Group::regular,
       [cube](const ContextPtr& context) { return levels_27(context, cube); }},
      {"band64", "64 contiguous entries a row", Group::regular,
       [n = rows(500000)](const ContextPtr& context) {
         return generate(context, "banded", {{"n", static_cast<double>(n)}, {"lower", 31}, {"upper", 32}});
       }},
      {"webbase", "truncated power law of row lengths", Group::skewed,
       [n = rows(1000000)](const ContextPtr& context) { return webbase(context, n); }},
      {"wikitalk", "94 % empty rows, power law", Group::skewed,
       [n = rows(2400000)](const ContextPtr& context) { return wiki_talk(context, n); }},
      full("dc1", 116835, 114190),
      full("dcbig", 2000000, 1900000),
      {"perm27", "27-point stencil, random numbering", Group::gather,
       [cube](const ContextPtr& context) { return shuffled_27(context, cube); }},
      {"rand10", "10 random columns a row", Group::gather,
       [n = rows(2000000)](const ContextPtr& context) { return random_gather(context, n); }}};
}

std::vector<NamedMatrix> repeated_matrices(const ContextPtr& context, const std::string& folder,
                                           std::int64_t entries) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (const std::string name = file.path().filename();
        name.find(".mtx") != name.npos || name.ends_with(".pbin"))
      files.push_back(file.path());
  std::sort(files.begin(), files.end());
  std::vector<NamedMatrix> list;
  for (const auto& file : files) {
    const std::string name = file.filename().string();
    const auto block = std::make_shared<const CsrMatrix<double>>(read_matrix(context, file.string()));
    if (block->nonzeros() == 0) continue;
    const std::int64_t copies = std::max<std::int64_t>(1, entries / block->nonzeros());
    list.push_back({name.substr(0, name.find('.')),
                    fmt::format("{} copies of {} rows, {} entries", copies, block->rows(), block->nonzeros()),
                    lengths_vary(block->pattern) ? Group::skewed : Group::regular,
                    [block, copies](const ContextPtr& host) { return repeated(host, *block, copies); }});
  }
  return list;
}

}  // namespace protean::bench
