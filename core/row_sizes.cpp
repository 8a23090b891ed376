#include "core/row_sizes.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"

namespace protean::detail {
namespace {

// |1 / a_ii|, and 1 if one cannot divide by a_ii or its inverse.
std::vector<double> inverse_diagonal(const Context& context, const CsrMatrix<double>& matrix) {
  std::vector<double> d(static_cast<std::size_t>(matrix.rows()));
  extract_diagonal(context, matrix, d.data());
  for (double& a : d) {
    const double inverse = std::abs(1 / a);
    a = std::isfinite(inverse) && inverse > 0 ? inverse : 1;
  }
  return d;
}

// f(row, part) for all rows, by parts that have as many entries.
template <class F>
void for_rows(const SparsityPattern& p, int workers, F&& f) {
  const auto borders = balanced_row_borders(p, workers);
  parallel(workers, [&](int part, int) {
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) f(r, static_cast<std::size_t>(part));
  });
}

}  // namespace

RowSizes row_sizes(const Context& context, const CsrMatrix<double>& matrix, double limit) {
  const SparsityPattern& p = matrix.pattern;
  std::vector<double> sizes(static_cast<std::size_t>(p.rows), 0.0);
  for_rows(p, useful_parts(context, p.nonzeros), [&](std::int64_t r, std::size_t) {
    double sum = 0;
    for (std::int64_t k = p.row_ptr[r]; k < p.row_ptr[r + 1]; ++k) sum += std::abs(matrix.values[k]);
    sizes[static_cast<std::size_t>(r)] = sum;
  });
  RowSizes found;
  for (const double size : sizes)
    if (size > 0) {
      found.smallest = found.rows == 0 ? size : std::min(found.smallest, size);
      found.largest = std::max(found.largest, size), ++found.rows;
    }
  for (const double size : sizes) found.below += size > 0 && size <= limit * found.largest;
  return found;
}

UnseenRows unseen_rows(const Context& context, const CsrMatrix<double>& matrix, const double* b,
                       const double* x, double tolerance, bool weighted) {
  const SparsityPattern& p = matrix.pattern;
  const std::vector<double> weights = weighted ? inverse_diagonal(context, matrix) : std::vector<double>();
  const int workers = useful_parts(context, p.nonzeros);
  std::vector<UnseenRows> parts(static_cast<std::size_t>(workers));
  for_rows(p, workers, [&](std::int64_t r, std::size_t part) {
    const double w = weighted ? weights[static_cast<std::size_t>(r)] : 1;
    double terms = std::abs(b[r]), residual = b[r];
    for (std::int64_t k = p.row_ptr[r]; k < p.row_ptr[r + 1]; ++k) {
      const double term = matrix.values[k] * x[p.col[k]];
      terms += std::abs(term), residual -= term;
    }
    constexpr double met = 0.01;
    if (!(w * terms <= tolerance) || !(std::abs(residual) > met * terms)) return;
    UnseenRows& mine = parts[part];
    if (mine.count++ == 0) mine.first = r;
    mine.largest = std::max(mine.largest, w * terms);
  });
  UnseenRows all;
  for (const UnseenRows& part : parts) {
    if (all.first < 0) all.first = part.first;
    all.count += part.count, all.largest = std::max(all.largest, part.largest);
  }
  return all;
}

double weighted_norm(const Context& context, const CsrMatrix<double>& matrix, const double* b) {
  const std::vector<double> weights = inverse_diagonal(context, matrix);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += std::pow(weights[i] * b[i], 2);
  return std::sqrt(sum);
}

}  // namespace protean::detail
