#include "preconditioners/fields/found.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "preconditioners/fields/cells.hpp"

namespace protean::detail {
namespace {

constexpr double tiny = 1e-10;

// Of rows that follow each other: "rows 4 to 6"; else "4 rows, the first is row 2".
std::string rows_text(const std::vector<std::int64_t>& rows) {
  if (rows.size() == 1) return fmt::format("row {}", rows.front());
  const bool stretch = rows.back() - rows.front() + 1 == static_cast<std::int64_t>(rows.size());
  return stretch ? fmt::format("rows {} to {}", rows.front(), rows.back())
                 : fmt::format("{} rows, of which row {} is the first,", rows.size(), rows.front());
}

}  // namespace

bool is_saddle_point(const FoundFields& found) {
  if (!found.stabilised) return found.zero_block;
  const std::vector<std::int32_t> rows = found.fields.rows_of_fields()[1];
  for (std::size_t k = 2; k < rows.size(); ++k)
    if (rows[k] - rows[k - 1] != rows[1] - rows[0]) return false;
  return rows.size() > 1;
}

template <class T>
bool maps_constant_to_zero(const CsrMatrix<T>& csr, const FieldList& fields, std::int32_t field) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    double sum = 0, size = 0;
    for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
      if (fields.of_row[static_cast<std::size_t>(csr.pattern.col[k])] == field)
        sum += static_cast<double>(csr.values[k]), size += std::abs(static_cast<double>(csr.values[k]));
    if (std::abs(sum) > 4 * static_cast<double>(csr.pattern.row_length(i)) * eps * size) return false;
  }
  return true;
}

template <class T>
FoundFields find_fields(const CsrMatrix<T>& csr, bool symmetric) {
  const std::int64_t n = csr.rows();
  const SparsityPattern& pattern = csr.pattern;
  std::vector<double> largest(static_cast<std::size_t>(n)), diagonal(static_cast<std::size_t>(n));
  bool positive = false;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = pattern.row_ptr[i]; k < pattern.row_ptr[i + 1]; ++k) {
      const double value = static_cast<double>(csr.values[k]);
      double& most = largest[static_cast<std::size_t>(i)];
      most = std::max(most, std::abs(value));
      if (pattern.col[k] == i) diagonal[static_cast<std::size_t>(i)] = value, positive |= value > 0;
    }
  FoundFields found;
  found.fields.names = {"u"}, found.fields.of_row.assign(static_cast<std::size_t>(n), 0);
  std::vector<std::int64_t> Z;
  bool negative = false;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = diagonal[static_cast<std::size_t>(i)];
    const bool zero = std::abs(d) <= tiny * largest[static_cast<std::size_t>(i)];
    if (!zero && !(symmetric && positive && d < 0)) continue;
    Z.push_back(i), negative |= !zero;
    found.fields.of_row[static_cast<std::size_t>(i)] = 1;
  }
  const auto one_field = [&](std::string why) {
    found.fields.of_row.assign(static_cast<std::size_t>(n), 0);
    found.what = "one field, u: " + std::move(why);
    return found;
  };
  if (Z.empty()) {
    const FoundCells cells = symmetric ? FoundCells() : find_cells(csr);
    if (cells.size == 0) return one_field("no row is without a diagonal entry");
    found.cells = true, found.fields = fields_of_cells(cells, n);
    found.what =
        fmt::format("{} fields: cells of {} rows, of which row {} (counted from 0) is the pressure, field p",
                    cells.size, cells.size, cells.pressure);
    return found;
  }
  if (static_cast<std::int64_t>(Z.size()) == n) return one_field("every row is without a diagonal entry");
  bool zero_block = true;
  for (const std::int64_t i : Z) {
    bool outside = false;
    for (std::int64_t k = pattern.row_ptr[i]; k < pattern.row_ptr[i + 1]; ++k) {
      const std::int32_t j = pattern.col[k];
      const double value = std::abs(static_cast<double>(csr.values[k]));
      if (found.fields.of_row[static_cast<std::size_t>(j)] == 0) {
        outside |= value > 0;
      } else if (value > tiny * largest[static_cast<std::size_t>(i)]) {
        zero_block = false;
        if (!negative)
          return one_field(
              fmt::format("rows {} and {} have no diagonal entry (rows count from 0), and they are "
                          "coupled with each other",
                          i, j));
      }
    }
    if (!outside)
      return one_field(
          fmt::format("row {} (counted from 0) has no diagonal entry and no other one outside of "
                      "such rows",
                      i));
  }
  found.fields.names = {"u", "p"};
  found.zero_block = zero_block, found.stabilised = !zero_block;
  found.what = fmt::format(
      "two fields: the diagonal entries of {} (counted from 0) are {}, field p; all other rows "
      "are field u",
      rows_text(Z), zero_block ? "zero, and so is their block" : "not positive");
  return found;
}

#define PROTEAN_INSTANTIATE(T)                                    \
  template FoundFields find_fields<T>(const CsrMatrix<T>&, bool); \
  template bool maps_constant_to_zero<T>(const CsrMatrix<T>&, const FieldList&, std::int32_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
