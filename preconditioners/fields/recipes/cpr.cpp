#include "preconditioners/fields/recipes/cpr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::detail {
namespace {

// x := the solution of D x = b for m x m numbers by elimination with pivots; false if D is singular to rounding.
bool solve_small(std::int64_t m, std::vector<double>& D, std::vector<double>& x) {
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
    return D[static_cast<std::size_t>(i * m + j)];
  };
  double largest = 0;
  for (const double one : D) largest = std::max(largest, std::abs(one));
  for (std::int64_t k = 0; k < m; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < m; ++i)
      if (std::abs(at(i, k)) > std::abs(at(pivot, k))) pivot = i;
    if (!(std::abs(at(pivot, k)) > static_cast<double>(m) * std::numeric_limits<double>::epsilon() * largest))
      return false;
    for (std::int64_t j = 0; j < m; ++j) std::swap(at(k, j), at(pivot, j));
    std::swap(x[static_cast<std::size_t>(k)], x[static_cast<std::size_t>(pivot)]);
    for (std::int64_t i = k + 1; i < m; ++i) {
      const double factor = at(i, k) / at(k, k);
      for (std::int64_t j = k; j < m; ++j) at(i, j) -= factor * at(k, j);
      x[static_cast<std::size_t>(i)] -= factor * x[static_cast<std::size_t>(k)];
    }
  }
  for (std::int64_t k = m; k-- > 0;) {
    double& value = x[static_cast<std::size_t>(k)];
    for (std::int64_t j = k + 1; j < m; ++j) value -= at(k, j) * x[static_cast<std::size_t>(j)];
    value /= at(k, k);
  }
  return true;
}

}  // namespace

template <class T>
PressureEquation<T> pressure_equation(std::string_view called, const ContextPtr& host,
                                      const CsrMatrix<T>& csr, const FieldList& fields,
                                      const std::vector<CsrMatrix<T>>& columns, bool true_impes) {
  const std::int64_t count = fields.size(), others = count - 1, cells = columns.front().rows();
  std::vector<std::int64_t> cell(fields.of_row.size()), next(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < cell.size(); ++i) cell[i] = next[static_cast<std::size_t>(fields.of_row[i])]++;
  // D_ij(c) at (c count + i) count + j
  std::vector<double> D(static_cast<std::size_t>(cells * count * count));
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k) {
      const auto row = static_cast<std::size_t>(i), column = static_cast<std::size_t>(csr.pattern.col[k]);
      if (!true_impes && cell[row] != cell[column]) continue;
      D[static_cast<std::size_t>((cell[column] * count + fields.of_row[row]) * count +
                                 fields.of_row[column])] += static_cast<double>(csr.values[k]);
    }
  PressureEquation<T> made;
  made.weights.resize(static_cast<std::size_t>(others * cells));
  std::vector<double> transposed(static_cast<std::size_t>(others * others)),
      w(static_cast<std::size_t>(others));
  for (std::int64_t c = 0; c < cells; ++c) {
    const double* const own = D.data() + c * count * count;
    for (std::int64_t i = 0; i < others; ++i) {
      w[static_cast<std::size_t>(i)] = own[i + 1];
      for (std::int64_t j = 0; j < others; ++j)
        transposed[static_cast<std::size_t>(i * others + j)] = own[(j + 1) * count + i + 1];
    }
    if (!solve_small(others, transposed, w))
      throw BadMatrix(fmt::format(
          "{}: in cell {} (counted from 0) the {} of the fields after {} are singular, so that these unknowns cannot "
          "be taken out of the equation of {}; take recipe cpr-{}-impes, or lower",
          called, c, true_impes ? "sums of columns" : "diagonal entries of the blocks", fields.names[0],
          fields.names[0], true_impes ? "quasi" : "true"));
    for (std::int64_t i = 0; i < others; ++i)
      made.weights[static_cast<std::size_t>(i * cells + c)] = static_cast<T>(-w[static_cast<std::size_t>(i)]);
  }
  std::int64_t work = 0;
  for (const CsrMatrix<T>& one : columns) work += one.nonzeros();
  auto graph = std::make_shared<Graph>(
      collect_rows(*host, cells, work, [&](Range range, std::vector<std::int32_t>& col, std::int64_t* sizes) {
        for (std::int64_t c = range.begin; c < range.end; ++c) {
          const auto before = static_cast<std::ptrdiff_t>(col.size());
          for (const CsrMatrix<T>& block : columns) {
            const auto row = block.pattern.row(c);
            col.insert(col.end(), row.begin(), row.end());
          }
          std::sort(col.begin() + before, col.end());
          col.erase(std::unique(col.begin() + before, col.end()), col.end());
          sizes[c - range.begin] = static_cast<std::int64_t>(col.size()) - before;
        }
      }));
  Buffer<T> values(host, graph->size());
  parallel(useful_parts(*host, work), [&](int part, int parts) {
    const Range range = even_range(cells, part, parts);
    for (std::int64_t c = range.begin; c < range.end; ++c) {
      const auto row = graph->row(c);
      T* const to = values.data() + graph->ptr[static_cast<std::size_t>(c)];
      std::fill(to, to + row.size(), T(0));
      for (std::int64_t i = 0; i < count; ++i) {
        const CsrMatrix<T>& block = columns[static_cast<std::size_t>(i)];
        const T weight = i == 0 ? T(1) : made.weights[static_cast<std::size_t>((i - 1) * cells + c)];
        auto at = row.begin();
        for (std::int64_t k = block.pattern.row_ptr[c]; k < block.pattern.row_ptr[c + 1]; ++k) {
          at = std::lower_bound(at, row.end(), block.pattern.col[k]);
          to[at - row.begin()] += weight * block.values[k];
        }
      }
    }
  });
  made.matrix = matrix_of(std::shared_ptr<const Graph>(std::move(graph)), cells, std::move(values));
  return made;
}
template PressureEquation<float> pressure_equation<float>(std::string_view, const ContextPtr&,
                                                          const CsrMatrix<float>&, const FieldList&,
                                                          const std::vector<CsrMatrix<float>>&, bool);
template PressureEquation<double> pressure_equation<double>(std::string_view, const ContextPtr&,
                                                            const CsrMatrix<double>&, const FieldList&,
                                                            const std::vector<CsrMatrix<double>>&, bool);

}  // namespace protean::detail
