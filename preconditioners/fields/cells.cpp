#include "preconditioners/fields/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace protean::detail {
namespace {

constexpr std::int64_t most_fields = 8;

// Sums over rows of the cells that are looked at.
struct Sums {
  // Within one field.
  struct Own {
    double diagonal = 0, off = 0, positive = 0, skew = 0;
    bool has_diagonal = true, positive_diagonal = true;
  };
  // Of the rows of one field and the columns of another one, in other cells.
  struct Between {
    double sum = 0, size = 0;
    std::int64_t rows = 0;
  };
  Own own[most_fields];
  Between between[most_fields][most_fields];
  std::int64_t cells = 0;

  bool far(std::int64_t f) const noexcept {
    const Own& a = own[f];
    return a.positive_diagonal && a.off >= 0.5 * a.diagonal && a.positive <= 0.1 * a.off &&
           a.skew <= 0.1 * a.off;
  }
  bool near(std::int64_t s) const noexcept {
    const Own& a = own[s];
    return a.has_diagonal && (a.off <= 0.1 * a.diagonal || a.skew >= 0.5 * a.off);
  }
  bool flows(std::int64_t s, std::int64_t f) const noexcept {
    const Between& b = between[s][f];
    return 2 * b.rows >= cells && std::abs(b.sum) >= 0.8 * b.size;
  }
  std::int64_t pressure(std::int64_t fields) const noexcept {
    for (std::int64_t f = 0; f < fields; ++f) {
      bool is = far(f);
      for (std::int64_t s = 0; is && s < fields; ++s) is = s == f || (near(s) && flows(s, f));
      if (is) return f;
    }
    return -1;
  }
};

template <class T>
double entry(const CsrMatrix<T>& csr, std::int64_t i, std::int32_t j) {
  const auto row = csr.pattern.row(i);
  const auto at = std::lower_bound(row.begin(), row.end(), j);
  if (at == row.end() || *at != j) return 0;
  return static_cast<double>(csr.values[csr.pattern.row_ptr[i] + (at - row.begin())]);
}

// row_of(c, f): the row of field f in cell c; place(j): field and cell of a column. most_cells: evenly chosen.
template <class T, class RowOf, class Place>
std::int64_t pressure_in(const CsrMatrix<T>& csr, std::int64_t fields, std::int64_t cells,
                         std::int64_t most_cells, const RowOf& row_of, const Place& place) {
  Sums sums;
  const std::int64_t looked_at = std::min(cells, most_cells);
  for (std::int64_t k = 0; k < looked_at; ++k) {
    const std::int64_t c = k * cells / looked_at;
    ++sums.cells;
    for (std::int64_t f = 0; f < fields; ++f) {
      const std::int64_t i = row_of(c, f);
      Sums::Own& own = sums.own[f];
      bool seen[most_fields] = {};
      double diagonal = 0;
      for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p) {
        const std::int32_t j = csr.pattern.col[p];
        const auto value = static_cast<double>(csr.values[p]);
        const auto [other, cell] = place(j);
        if (j == i) {
          diagonal = value;
        } else if (other == f) {
          own.off += std::abs(value), own.positive += std::max(value, 0.0);
          own.skew += std::abs(value - entry(csr, j, static_cast<std::int32_t>(i)));
        } else if (cell != c && value != 0) {
          Sums::Between& between = sums.between[f][other];
          between.sum += value, between.size += std::abs(value);
          between.rows += !std::exchange(seen[other], true);
        }
      }
      own.diagonal += std::abs(diagonal);
      own.has_diagonal &= diagonal != 0, own.positive_diagonal &= diagonal > 0;
    }
  }
  return sums.pressure(fields);
}

// Most matrices show in a few cells that they have none, and a short solve must not wait for more.
template <class T, class RowOf, class Place>
std::int64_t pressure_of(const CsrMatrix<T>& csr, std::int64_t fields, std::int64_t cells,
                         const RowOf& row_of, const Place& place) {
  constexpr std::int64_t few = 64, most = 4096;
  if (cells > few && pressure_in(csr, fields, cells, few, row_of, place) < 0) return -1;
  return pressure_in(csr, fields, cells, most, row_of, place);
}

}  // namespace

template <class T>
std::int64_t find_pressure(const CsrMatrix<T>& csr, const FieldList& fields) {
  if (fields.size() < 2 || fields.size() > most_fields) return -1;
  const std::vector<std::vector<std::int32_t>> rows = fields.rows_of_fields();
  for (const auto& one : rows)
    if (one.size() != rows.front().size()) return -1;
  std::vector<std::int32_t> cell(fields.of_row.size());
  for (const auto& one : rows)
    for (std::size_t c = 0; c < one.size(); ++c)
      cell[static_cast<std::size_t>(one[c])] = static_cast<std::int32_t>(c);
  return pressure_of(
      csr, fields.size(), std::ssize(rows.front()),
      [&](std::int64_t c, std::int64_t f) {
        return static_cast<std::int64_t>(rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(c)]);
      },
      [&](std::int32_t j) {
        const auto at = static_cast<std::size_t>(j);
        return std::pair<std::int64_t, std::int64_t>(fields.of_row[at], cell[at]);
      });
}

template <class T>
FoundCells find_cells(const CsrMatrix<T>& csr) {
  constexpr std::int64_t least_cells = 8;
  for (std::int64_t k = 2; k <= 4; ++k) {
    if (csr.rows() % k != 0 || csr.rows() / k < least_cells) continue;
    const std::int64_t pressure = pressure_of(
        csr, k, csr.rows() / k, [k](std::int64_t c, std::int64_t f) { return c * k + f; },
        [k](std::int32_t j) { return std::pair<std::int64_t, std::int64_t>(j % k, j / k); });
    if (pressure >= 0) return {k, pressure};
  }
  return {};
}

FieldList fields_of_cells(const FoundCells& cells, std::int64_t rows) {
  FieldList list;
  list.names.emplace_back("p");
  for (std::int64_t s = 1; s < cells.size; ++s)
    list.names.push_back(cells.size == 2 ? "s" : fmt::format("s{}", s));
  list.of_row.resize(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t place = i % cells.size;
    list.of_row[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(place == cells.pressure  ? 0
                                                                         : place < cells.pressure ? place + 1
                                                                                                  : place);
  }
  return list;
}

FieldList with_first(const FieldList& fields, std::int64_t field) {
  FieldList list = fields;
  std::rotate(list.names.begin(), list.names.begin() + field, list.names.begin() + field + 1);
  for (std::int32_t& one : list.of_row)
    one = static_cast<std::int32_t>(one == field ? 0 : one < field ? one + 1 : one);
  return list;
}

#define PROTEAN_INSTANTIATE(T)                                                   \
  template std::int64_t find_pressure<T>(const CsrMatrix<T>&, const FieldList&); \
  template FoundCells find_cells<T>(const CsrMatrix<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
