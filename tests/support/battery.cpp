#include "support/battery.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>

namespace protean::test {
namespace {

using Triplets = std::vector<Triplet<double>>;

double value_at(std::int64_t r, std::int64_t c) {
  const auto hash = static_cast<std::uint32_t>(r * 2654435761u + c * 40503u + 12345u);
  const int eighth = static_cast<int>((hash >> 7) % 64) - 32;
  return (eighth == 0 ? 5 : eighth) / 8.0;
}

template <class Keep>
CsrMatrix<double> from_rule(std::int64_t rows, std::int64_t cols, Keep keep) {
  Triplets triplets;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      if (keep(r, c))
        triplets.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c), value_at(r, c)});
  return csr_from_triplets<double>(test_context(), rows, cols, triplets);
}

CsrMatrix<double> from_lengths(std::int64_t rows, std::int64_t cols, unsigned seed,
                               const std::function<std::int64_t(std::int64_t)>& length) {
  std::mt19937 random(seed);
  Triplets triplets;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::set<std::int64_t> chosen;
    const std::int64_t wanted = std::min(cols, length(r));
    while (static_cast<std::int64_t>(chosen.size()) < wanted) chosen.insert(random() % cols);
    for (std::int64_t c : chosen)
      triplets.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c), value_at(r, c)});
  }
  return csr_from_triplets<double>(test_context(), rows, cols, triplets);
}

CsrMatrix<double> stencil_3d(std::int64_t n) {
  Triplets triplets;
  for (std::int64_t z = 0; z < n; ++z)
    for (std::int64_t y = 0; y < n; ++y)
      for (std::int64_t x = 0; x < n; ++x) {
        const auto at = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
          return static_cast<std::int32_t>((k * n + j) * n + i);
        };
        const std::int32_t row = at(x, y, z);
        triplets.push_back({row, row, 6.0});
        if (x > 0) triplets.push_back({row, at(x - 1, y, z), -1.0});
        if (x + 1 < n) triplets.push_back({row, at(x + 1, y, z), -1.0});
        if (y > 0) triplets.push_back({row, at(x, y - 1, z), -1.0});
        if (y + 1 < n) triplets.push_back({row, at(x, y + 1, z), -1.0});
        if (z > 0) triplets.push_back({row, at(x, y, z - 1), -1.0});
        if (z + 1 < n) triplets.push_back({row, at(x, y, z + 1), -1.0});
      }
  return csr_from_triplets<double>(test_context(), n * n * n, n * n * n, triplets);
}

CsrMatrix<double> with_wide_row_pointers(const CsrMatrix<double>& a) {
  CsrBuilder<double> builder(test_context(), a.rows(), a.cols(), a.nonzeros(), true);
  for (std::int64_t r = 0; r <= a.rows(); ++r) builder.set_row_ptr(r, a.pattern.row_ptr[r]);
  std::copy(a.pattern.col, a.pattern.col + a.nonzeros(), builder.col());
  std::copy(a.values, a.values + a.nonzeros(), builder.values());
  return builder.freeze();
}

CsrMatrix<double> explicit_zeros() {
  Triplets triplets;
  for (std::int32_t r = 0; r < 20; ++r)
    for (std::int32_t c = std::max(0, r - 1); c <= std::min(19, r + 1); ++c)
      triplets.push_back({r, c, (r + c) % 3 == 0 ? 0.0 : value_at(r, c)});
  return csr_from_triplets<double>(test_context(), 20, 20, triplets);
}

std::vector<BatteryMatrix> build() {
  std::vector<BatteryMatrix> list;
  const auto add = [&](std::string name, std::string exposes, CsrMatrix<double> matrix) {
    list.push_back({std::move(name), std::move(exposes), std::move(matrix)});
  };
  add("empty_0x0", "arrays of length 0 are dereferenced", from_rule(0, 0, [](auto, auto) { return false; }));
  add("rows_0x5", "x is read when there are no rows", from_rule(0, 5, [](auto, auto) { return false; }));
  add("cols_5x0", "y is not written when there are no columns",
      from_rule(5, 0, [](auto, auto) { return false; }));
  add("zero_7x7", "rows without entries are not written", from_rule(7, 7, [](auto, auto) { return false; }));
  add("one_1x1", "a loop needs at least one full vector", from_rule(1, 1, [](auto, auto) { return true; }));
  add("row_1x100", "one row is split between threads",
      from_rule(1, 100, [](auto, auto c) { return c % 3 != 1; }));
  add("column_100x1", "all rows gather one x", from_rule(100, 1, [](auto r, auto) { return r % 4 != 2; }));
  add("identity_33", "permutations applied twice or not at all",
      from_rule(33, 33, [](auto r, auto c) { return r == c; }));
  add("antidiagonal_40", "row and column mixed up",
      from_rule(40, 40, [](auto r, auto c) { return r + c == 39; }));
  add("dense_17x17", "tails of vector loops", from_rule(17, 17, [](auto, auto) { return true; }));
  add("dense_8x8", "exactly one vector", from_rule(8, 8, [](auto, auto) { return true; }));
  add("band_asymmetric_67", "diagonal offsets with the wrong sign",
      from_rule(67, 67, [](auto r, auto c) { return c - r >= -2 && c - r <= 5; }));
  add("band_wide_rect_30x90", "columns past the last row",
      from_rule(30, 90, [](auto r, auto c) { return c - 3 * r >= 0 && c - 3 * r <= 3; }));
  add("band_tall_rect_90x30", "rows past the last column",
      from_rule(90, 30, [](auto r, auto c) { return r - 3 * c >= 0 && r - 3 * c <= 3; }));
  add("blocks_3x3_60", "block edges",
      from_rule(60, 60, [](auto r, auto c) { return (r / 3 + c / 3) % 5 == 0 || r / 3 == c / 3; }));
  add("blocks_ragged_61x47", "the last, incomplete block",
      from_rule(61, 47, [](auto r, auto c) { return (r / 4 + c / 4) % 6 == 0; }));
  add("empty_rows_50", "row pointers of empty rows, first and last row empty",
      from_rule(50, 50, [](auto r, auto c) { return r % 3 == 1 && r != 49 && (r * 7 + c) % 5 == 0; }));
  add("empty_columns_64", "columns nobody uses",
      from_rule(64, 64, [](auto r, auto c) { return c % 8 == 3 && (r + c) % 3 == 0; }));
  add("last_row_full_70", "a long row at the end",
      from_rule(70, 70, [](auto r, auto c) { return r == 69 || r == c; }));
  add("one_full_row_300", "one row dominates: balance and carries",
      from_rule(300, 300, [](auto r, auto c) { return r == 140 || r == c; }));
  add("full_column_200", "all rows write the same x entry's products",
      from_rule(200, 200, [](auto r, auto c) { return c == 57 || r == c; }));
  add("power_law_500", "very different row lengths", from_lengths(500, 500, 1, [](std::int64_t r) {
        return std::max<std::int64_t>(1, 400 / (1 + (r * 37) % 500));
      }));
  add("random_257", "sizes that are multiples of nothing",
      from_lengths(257, 257, 2, [](std::int64_t r) { return r % 11; }));
  add("random_wide_100x3000", "column indices past 16 bits of offset",
      from_lengths(100, 3000, 3, [](std::int64_t r) { return 5 + r % 7; }));
  add("far_columns_64x200000", "column spread past 16 bits",
      from_lengths(64, 200000, 4, [](std::int64_t r) { return 3 + r % 5; }));
  add("stencil_7point_12", "the everyday case", stencil_3d(12));
  add("lengths_rising_130", "sorting rows by length",
      from_rule(130, 130, [](auto r, auto c) { return c <= r; }));
  add("lengths_falling_130", "sorting that must keep order",
      from_rule(130, 130, [](auto r, auto c) { return c >= r; }));
  add("explicit_zeros_20", "stored zeros dropped", explicit_zeros());
  add("wide_row_pointers_t8", "64-bit row pointers", with_wide_row_pointers(t8()));
  add("t8", "the catalogue's example", t8());
  add("clspmv_b", "the example of clSpMV", clspmv_b());
  add("clspmv_c", "the example of clSpMV, rectangular", clspmv_c());
  return list;
}

}  // namespace

const ContextPtr& test_context() {
  static const ContextPtr context = Context::host(2);
  return context;
}

const std::vector<BatteryMatrix>& battery() {
  static const std::vector<BatteryMatrix> list = build();
  return list;
}

const CsrMatrix<double>& battery_matrix(const std::string& name) {
  for (const BatteryMatrix& entry : battery())
    if (entry.name == name) return entry.matrix;
  throw std::invalid_argument("no battery matrix " + name);
}

CsrMatrix<double> t8() {
  static const std::vector<std::vector<int>> columns = {
      {0, 1}, {1, 2, 3, 4, 5}, {3}, {}, {0, 4, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {6, 7}, {3, 6, 7}};
  Triplets triplets;
  for (int r = 0; r < 8; ++r)
    for (int c : columns[r]) triplets.push_back({r, c, 10.0 * (r + 1) + c + 1});
  return csr_from_triplets<double>(test_context(), 8, 8, triplets);
}

CsrMatrix<double> clspmv_b() {
  const Triplets triplets = {{0, 0, 3}, {0, 1, 7}, {1, 1, 4}, {1, 2, 8}, {2, 0, 1},
                             {2, 2, 5}, {2, 3, 9}, {3, 1, 2}, {3, 3, 6}};
  return csr_from_triplets<double>(test_context(), 4, 4, triplets);
}

CsrMatrix<double> clspmv_c() {
  Triplets triplets;
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 8; ++c) triplets.push_back({r, c, r * 8.0 + c + 1});
  return csr_from_triplets<double>(test_context(), 4, 8, triplets);
}

}  // namespace protean::test
