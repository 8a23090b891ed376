// Formats that are sums of disjoint parts: golden arrays on the catalogue's T8, the rule of each format for every
// entry, and the property by which each format differs from its neighbours, which is also shown not to hold of the
// neighbour.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

constexpr const char* ids[] = {"hyb", "hec", "csr-ell-maringanti", "csr-ell-matam", "shec", "hdc", "ell-dia"};
const FormatParams& tolerant(std::string_view id) {
  static const FormatParams none, wide{{"max_fill", "1000000"}};
  return find_format(id).admit && (id == "csr-ell-maringanti" || id == "ell-dia") ? wide : none;
}

bool has_array(const AssembledMatrix<double>& matrix, std::string_view name) {
  const auto arrays = dynamic_cast<const HasLayout&>(matrix).layout();
  return std::any_of(arrays.begin(), arrays.end(), [&](const LayoutArray& a) { return a.name == name; });
}
Numbers array(const AssembledMatrix<double>& matrix, std::string_view name) {
  return has_array(matrix, name) ? layout_numbers(matrix, name) : Numbers{};
}

// An entry, and the part that it lies in: "ell", "csr3", ...
struct Found {
  std::int64_t row, col;
  double value;
  std::string part;
};

// The entries of all parts, from the arrays alone. Stored values that are 0 are padding: the matrices here have none.
std::vector<Found> entries(const AssembledMatrix<double>& matrix) {
  std::vector<Found> found;
  const Numbers list = array(matrix, "row_list");
  std::size_t position = 0;
  const auto row_at = [&](std::size_t p) {
    return list.empty() ? static_cast<std::int64_t>(p) : static_cast<std::int64_t>(list[p]);
  };
  const auto rows = static_cast<std::size_t>(matrix.rows());
  const auto ell = [&](const std::string& name, std::size_t count, std::size_t first) {
    const Numbers col = array(matrix, name + "_col"), values = array(matrix, name + "_values");
    for (std::size_t at = 0; at < values.size(); ++at)
      if (values[at] != 0)
        found.push_back({row_at(first + at % count), static_cast<std::int64_t>(col[at]), values[at], name});
  };
  const auto csr = [&](const std::string& name, std::size_t first) {
    const Numbers row_ptr = array(matrix, name + "_row_ptr"), col = array(matrix, name + "_col"),
                  values = array(matrix, name + "_values");
    for (std::size_t p = 0; p + 1 < row_ptr.size(); ++p)
      for (auto k = static_cast<std::size_t>(row_ptr[p]); k < row_ptr[p + 1]; ++k)
        found.push_back({row_at(first + p), static_cast<std::int64_t>(col[k]), values[k], name});
    return row_ptr.empty() ? 0 : row_ptr.size() - 1;
  };
  if (matrix.name() == "shec") {
    // An ELLPACK segment has all rows with a length of its power of two.
    std::map<int, std::size_t> rows_of_class;
    const CsrMatrix<double> whole = matrix.to_csr();
    for (std::int64_t r = 0; r < matrix.rows(); ++r)
      ++rows_of_class[whole.pattern.row_length(r) == 0
                          ? -1
                          : std::ilogb(static_cast<double>(whole.pattern.row_length(r)))];
    int segment = 0;
    for (const auto& [power, count] : rows_of_class) {
      const std::string number = std::to_string(segment++);
      if (has_array(matrix, "ell" + number + "_col"))
        ell("ell" + number, count, position);
      else
        EXPECT_EQ(csr("csr" + number, position), count);
      position += count;
    }
    return found;
  }
  const bool by_length = matrix.name() == "csr-ell-maringanti" || matrix.name() == "csr-ell-matam";
  const Numbers row_ptr = array(matrix, "csr_row_ptr");
  const std::size_t of_ell = by_length ? rows - (row_ptr.empty() ? 0 : row_ptr.size() - 1) : rows;
  ell("ell", std::max<std::size_t>(1, of_ell), 0);
  csr("csr", by_length ? of_ell : 0);
  const Numbers coo_row = array(matrix, "coo_row"), coo_col = array(matrix, "coo_col"),
                coo = array(matrix, "coo_values");
  for (std::size_t k = 0; k < coo.size(); ++k)
    found.push_back(
        {static_cast<std::int64_t>(coo_row[k]), static_cast<std::int64_t>(coo_col[k]), coo[k], "coo"});
  const Numbers off = array(matrix, "dia_off"), dia = array(matrix, "dia_values");
  for (std::size_t at = 0; at < dia.size(); ++at)
    if (dia[at] != 0) {
      const auto r = static_cast<std::int64_t>(at % rows);
      found.push_back({r, r + static_cast<std::int64_t>(off[at / rows]), dia[at], "dia"});
    }
  return found;
}

// Few long rows, many short ones, some without entries, and a band: 1 + (a hash of row and column) is never 0.
CsrMatrix<double> random_rows(std::int64_t rows, std::int64_t cols, unsigned seed, bool band) {
  std::mt19937 random(seed);
  std::vector<Triplet<double>> triplets;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::set<std::int64_t> columns;
    const auto wanted = static_cast<std::size_t>(std::min<double>(
        static_cast<double>(cols), std::pow(static_cast<double>(random() % 1000 + 1) / 1000.0, -0.9) - 0.5));
    while (columns.size() < wanted) columns.insert(static_cast<std::int64_t>(random()) % cols);
    for (const std::int64_t offset : {-3, -1, 0, 1, 7})
      if (band && r + offset >= 0 && r + offset < cols && random() % 10 > 1) columns.insert(r + offset);
    for (const std::int64_t c : columns)
      triplets.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c),
                          1 + static_cast<double>((r * 31 + c * 7) % 97) / 8});
  }
  return csr_from_triplets<double>(test_context(), rows, cols, triplets);
}
std::vector<CsrMatrix<double>> matrices() {
  return {t8(), random_rows(200, 200, 1, true), random_rows(333, 200, 2, true),
          random_rows(150, 420, 3, false), random_rows(65, 65, 4, false)};
}

// Disjoint parts that add up, for every format.
TEST(SumsOfParts, EachEntryLiesInExactlyOnePart) {
  for (const char* id : ids)
    for (const CsrMatrix<double>& csr : matrices()) {
      const auto matrix = build(id, csr, tolerant(id));
      std::map<std::pair<std::int64_t, std::int64_t>, double> all;
      for (const Found& entry : entries(*matrix))
        EXPECT_TRUE(all.emplace(std::pair{entry.row, entry.col}, entry.value).second)
            << id << ": " << entry.row << ", " << entry.col << " lies in " << entry.part
            << " and in another part";
      EXPECT_EQ(static_cast<std::int64_t>(all.size()), csr.nonzeros()) << id;
      for (std::int64_t r = 0; r < csr.rows(); ++r)
        for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
          EXPECT_EQ((all[{r, csr.pattern.col[k]}]), csr.values[k]) << id;
      EXPECT_TRUE(identical(csr, matrix->to_csr())) << id;
    }
}

// Whether `in_part(entry, number of the entry in its row, length of the row)` names the part of every entry.
using PartOf = std::function<std::string(const Found&, std::int64_t, std::int64_t)>;
bool follows(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr, const PartOf& in_part) {
  for (const Found& entry : entries(matrix)) {
    const auto row = csr.pattern.row(entry.row);
    const auto number =
        std::lower_bound(row.begin(), row.end(), static_cast<std::int32_t>(entry.col)) - row.begin();
    if (entry.part != in_part(entry, number, csr.pattern.row_length(entry.row))) return false;
  }
  return true;
}
std::int64_t width_of(const AssembledMatrix<double>& matrix) {
  return static_cast<std::int64_t>(array(matrix, "ell_values").size()) /
         std::max<std::int64_t>(1, matrix.rows());
}
// The L that minimises L rows + p (entries beyond L), by trying all.
std::int64_t cheapest_width(const CsrMatrix<double>& csr, std::int64_t p) {
  std::int64_t best = 0, least = -1;
  for (std::int64_t L = 0; L <= csr.cols(); ++L) {
    std::int64_t cost = L * csr.rows();
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      cost += p * std::max<std::int64_t>(0, csr.pattern.row_length(r) - L);
    if (least < 0 || cost < least) least = cost, best = L;
  }
  return best;
}
PartOf by_width(std::int64_t width, const char* tail) {
  return [=](const Found&, std::int64_t number, std::int64_t) { return number < width ? "ell" : tail; };
}
PartOf by_length(std::int64_t longest) {
  return [=](const Found&, std::int64_t, std::int64_t length) { return length <= longest ? "ell" : "csr"; };
}

TEST(SumsOfParts, HybAndHecCutByWidthEachWithItsOwnRuleAndTail) {
  bool rules_differ = false;
  for (const CsrMatrix<double>& csr : matrices()) {
    const auto hyb = build("hyb", csr), hec = build("hec", csr, {{"p", "5"}});
    EXPECT_TRUE(follows(*hyb, csr, by_width(width_of(*hyb), "coo")));
    EXPECT_FALSE(follows(*hyb, csr, by_width(width_of(*hyb), "csr")));
    EXPECT_TRUE(follows(*hec, csr, by_width(cheapest_width(csr, 5), "csr")));
    rules_differ = rules_differ || width_of(*hyb) != cheapest_width(csr, 5);
  }
  EXPECT_TRUE(rules_differ);
}

TEST(SumsOfParts, HecOnT8) {
  const auto matrix = build("hec", t8(), {{"p", "2"}});
  EXPECT_EQ(array(*matrix, "ell_values").size(), 16u);  // L = 2 costs 38, as L = 3 does
  EXPECT_EQ(array(*matrix, "csr_row_ptr"), (Numbers{0, 0, 3, 3, 3, 4, 10, 10, 11}));
  EXPECT_EQ(array(*matrix, "csr_col"), (Numbers{3, 4, 5, 7, 2, 3, 4, 5, 6, 7, 7}));
  EXPECT_EQ(array(*matrix, "empty_row"), (Numbers{3}));
  EXPECT_EQ(matrix->bytes(), 16u * 12 + 11 * 12 + 9 * 4 + 4);
  const auto wide = build("hec", t8(), {{"p", "20"}});
  EXPECT_EQ(array(*wide, "ell_values").size(), 64u);
  EXPECT_EQ(wide->bytes(), 64u * 12 + 4);
}

TEST(SumsOfParts, MaringantiOnT8) {
  const auto matrix = build("csr-ell-maringanti", t8(), {{"W", "4"}});
  EXPECT_EQ(array(*matrix, "row_list"), (Numbers{0, 2, 3, 4, 6, 7, 1, 5}));
  EXPECT_EQ(array(*matrix, "ell_values"),
            (Numbers{11, 34, 0, 51, 77, 84, 12, 0, 0, 55, 78, 87, 0, 0, 0, 58, 0, 88}));
  EXPECT_EQ(array(*matrix, "ell_col"), (Numbers{0, 3, 0, 0, 6, 3, 1, 3, 0, 4, 7, 6, 1, 3, 0, 7, 7, 7}));
  EXPECT_EQ(array(*matrix, "csr_row_ptr"), (Numbers{0, 5, 13}));
  EXPECT_EQ(array(*matrix, "empty"), (Numbers{2}));
  EXPECT_EQ(matrix->bytes(), 18u * 12 + 13 * 12 + 3 * 4 + 8 * 4 + 4);
}

TEST(SumsOfParts, MaringantiCutsAtWAndMatamWhereItIsCheapest) {
  const CsrMatrix<double> csr = random_rows(333, 200, 2, true);
  for (const std::int64_t W : {3, 8, 32})
    EXPECT_TRUE(follows(*build("csr-ell-maringanti", csr, {{"W", std::to_string(W)}, {"max_fill", "1000"}}),
                        csr, by_length(W)));
  EXPECT_FALSE(follows(*build("csr-ell-matam", csr), csr, by_length(32)));

  // One of both parts for regular rows, and for long ones; both parts on T8.
  const CsrMatrix<double>& stencil = battery_matrix("stencil_7point_12");
  std::vector<Triplet<double>> triplets;
  for (std::int32_t r = 0; r < 50; ++r)
    for (std::int32_t c = 0; c < 300; ++c) triplets.push_back({r, c, 1.0 + r + c});
  const auto dense = csr_from_triplets<double>(test_context(), 50, 300, triplets);
  const auto parts = [](std::string_view id, const CsrMatrix<double>& of, const FormatParams& params) {
    const auto matrix = build(id, of, params);
    return std::pair{array(*matrix, "ell_values").size() > 0, array(*matrix, "csr_values").size() > 0};
  };
  EXPECT_EQ(parts("csr-ell-matam", stencil, {}), (std::pair{true, false}));
  EXPECT_EQ(parts("csr-ell-matam", dense, {}), (std::pair{false, true}));
  EXPECT_EQ(parts("csr-ell-matam", t8(), {}), (std::pair{true, true}));
  EXPECT_EQ(array(*build("csr-ell-matam", t8()), "csr_row_ptr"), (Numbers{0, 5, 13}));  // t = 3 costs 44
  EXPECT_EQ(parts("csr-ell-maringanti", stencil, {{"W", "4"}}), (std::pair{true, true}));
  // No row of ELLPACK has more than Pt entries, the work of a thread.
  const auto limited = build("csr-ell-matam", csr, {{"Pt", "5"}, {"ell_speed", "1000"}});
  EXPECT_FALSE(array(*limited, "ell_values").empty());
  EXPECT_TRUE(follows(*limited, csr, by_length(5)));
}

TEST(SumsOfParts, ShecOnT8) {
  const auto matrix = build("shec", t8(), {{"ell_below", "8"}});
  EXPECT_EQ(array(*matrix, "row_list"), (Numbers{3, 2, 0, 4, 6, 7, 1, 5}));
  EXPECT_TRUE(array(*matrix, "ell0_values").empty());
  EXPECT_EQ(array(*matrix, "ell1_values"), (Numbers{34}));
  EXPECT_EQ(array(*matrix, "ell2_values"), (Numbers{11, 51, 77, 84, 12, 55, 78, 87, 0, 58, 0, 88}));
  EXPECT_EQ(array(*matrix, "ell3_values"), (Numbers{22, 23, 24, 25, 26}));
  EXPECT_EQ(array(*matrix, "csr4_row_ptr"), (Numbers{0, 8}));
  EXPECT_EQ(matrix->bytes(), 26u * 12 + 2 * 4 + 8 * 4);
}

// The lengths of the rows of one part are within a factor of two.
bool lengths_alike(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> range;
  for (const Found& entry : entries(matrix)) {
    const std::int64_t length = csr.pattern.row_length(entry.row);
    auto& [least, most] = range.emplace(entry.part, std::pair{length, length}).first->second;
    least = std::min(least, length), most = std::max(most, length);
  }
  return std::all_of(range.begin(), range.end(),
                     [](const auto& part) { return part.second.second < 2 * part.second.first; });
}
TEST(SumsOfParts, SegmentsOfShecAreAlikeAndShortOnesEllpack) {
  for (const CsrMatrix<double>& csr : matrices()) {
    const auto matrix = build("shec", csr, {{"ell_below", "8"}});
    EXPECT_TRUE(lengths_alike(*matrix, csr));
    EXPECT_TRUE(follows(*matrix, csr, [](const Found& entry, std::int64_t, std::int64_t length) {
      return (length < 8 ? "ell" : "csr") + entry.part.substr(3);
    }));
    for (const char* neighbour : {"csr-ell-matam", "csr-ell-maringanti"})
      EXPECT_FALSE(lengths_alike(*build(neighbour, csr, tolerant(neighbour)), csr)) << neighbour;
  }
}

TEST(SumsOfParts, HdcOnT8) {
  const auto matrix = build("hdc", t8());
  EXPECT_EQ(array(*matrix, "dia_off"), (Numbers{-4, 0, 1}));
  EXPECT_EQ(array(*matrix, "dia_values"), (Numbers{0,  0,  0,  0, 51, 62, 0,  84,  //
                                                   11, 22, 0,  0, 55, 66, 77, 88,  //
                                                   12, 23, 34, 0, 0,  67, 78, 0}));
  EXPECT_EQ(array(*matrix, "csr_values").size(), 10u);
  EXPECT_EQ(array(*matrix, "csr_row_ptr"), (Numbers{0, 0, 3, 3, 3, 4, 9, 9, 10}));
  EXPECT_EQ(matrix->bytes(), 3u * (8 * 8 + 4 + 1) + 10 * 12 + 9 * 4);
}

TEST(SumsOfParts, EllDiaOnT8) {
  const auto matrix = build("ell-dia", t8());
  EXPECT_EQ(array(*matrix, "dia_off"), (Numbers{0, 1}));
  EXPECT_EQ(array(*matrix, "ell_values").size(), 48u);  // row 5 has six other entries
  EXPECT_EQ(array(*matrix, "empty_row"), (Numbers{0, 2, 3, 6}));
  // The main diagonal is one of the diagonals: nothing has to be looked for.
  const Numbers dia = array(*matrix, "dia_values");
  Numbers diagonal(8);
  matrix->diagonal(VectorView<double>{diagonal.data(), 8});
  EXPECT_EQ(diagonal, Numbers(dia.begin(), dia.begin() + 8));
}

// The offsets that are stored as diagonals are the offsets with more than `fill` percent of their places filled, of at
// least half of the rows, between low and high.
bool stores_dense_diagonals(const AssembledMatrix<double>& matrix, const CsrMatrix<double>& csr,
                            std::int64_t fill, std::int64_t low, std::int64_t high) {
  Numbers expected;
  for (std::int64_t offset = std::max(low, 1 - csr.rows()); offset <= std::min(high, csr.cols() - 1);
       ++offset) {
    std::int64_t places = 0, count = 0;
    for (std::int64_t r = 0; r < csr.rows(); ++r) {
      const auto row = csr.pattern.row(r);
      places += r + offset >= 0 && r + offset < csr.cols();
      count += std::binary_search(row.begin(), row.end(), static_cast<std::int32_t>(r + offset));
    }
    if (2 * places >= csr.rows() && 100 * count > fill * places)
      expected.push_back(static_cast<double>(offset));
  }
  const std::set<double> kept(expected.begin(), expected.end());
  return array(matrix, "dia_off") == expected &&
         follows(matrix, csr, [&](const Found& entry, std::int64_t, std::int64_t) {
           return kept.count(static_cast<double>(entry.col - entry.row)) ? std::string("dia")
                  : entry.part == "dia"                                  ? "no"
                                                                         : entry.part;
         });
}
TEST(SumsOfParts, HdcTakesAllDenseDiagonalsAndEllDiaThreeAtMost) {
  const FormatParams half{{"fill", "50"}}, half_wide{{"fill", "50"}, {"max_fill", "1000000"}};
  bool more_than_three = false;
  for (const CsrMatrix<double>& csr : matrices()) {
    const auto hdc = build("hdc", csr, half), ell_dia = build("ell-dia", csr, half_wide);
    EXPECT_TRUE(stores_dense_diagonals(*hdc, csr, 50, -csr.rows(), csr.cols()));
    EXPECT_TRUE(stores_dense_diagonals(*ell_dia, csr, 50, -1, 1));
    more_than_three = more_than_three || !stores_dense_diagonals(*ell_dia, csr, 50, -csr.rows(), csr.cols());
    more_than_three = more_than_three || array(*hdc, "dia_off").size() > 3;
  }
  EXPECT_TRUE(more_than_three);
  // A stored zero is an entry, and a place without entry is not.
  const auto csr = csr_from_triplets<double>(
      test_context(), 3, 3, std::vector<Triplet<double>>{{0, 0, 1}, {1, 1, 0}, {2, 2, 3}, {2, 0, 0}});
  for (const char* id : {"hdc", "ell-dia"})
    EXPECT_TRUE(identical(csr, build(id, csr, tolerant(id))->to_csr())) << id;
}

// The diagonals of few entries are found by sorting them, the diagonals of many entries by counting.
TEST(SumsOfParts, DenseDiagonalsOfFewEntries) {
  const std::int64_t n = 1500;
  std::vector<Triplet<double>> entries;
  for (std::int32_t r = 100; r < 160; ++r) {
    entries.push_back({r, r, 1.0 + r}), entries.push_back({r, r + 7, 2.0});
    if (r % 2) entries.push_back({r, r - 100, 3.0});
  }
  const auto few = csr_from_triplets<double>(test_context(), n, n, entries);
  ASSERT_LT(16 * few.nonzeros(), 2 * n);
  for (const char* fill : {"1", "3", "5"}) {
    const FormatParams params{{"fill", fill}, {"max_fill", "1000000"}};
    const auto hdc = build("hdc", few, FormatParams{{"fill", fill}}), ell_dia = build("ell-dia", few, params);
    EXPECT_TRUE(stores_dense_diagonals(*hdc, few, std::stoi(fill), -n, n)) << fill;
    EXPECT_TRUE(stores_dense_diagonals(*ell_dia, few, std::stoi(fill), -1, 1)) << fill;
  }
  EXPECT_EQ(array(*build("hdc", few, FormatParams{{"fill", "3"}}), "dia_off"), (Numbers{0, 7}));
}

// Fill of diagonals reads x in columns in which a row has no entry; in the other formats padding does not.
TEST(SumsOfParts, ANaNInXReachesOnlyRowsThatUseItButForFillOfDiagonals) {
  for (const char* id : ids) {
    const auto matrix = build(id, t8(), tolerant(id));
    Numbers x(8, 1.0), y(8);
    x[0] = std::numeric_limits<double>::quiet_NaN();
    matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
    for (int r : {1, 2, 3, 6, 7}) EXPECT_TRUE(std::isfinite(y[r])) << id << r;
    for (int r : {0, 4, 5}) EXPECT_TRUE(std::isnan(y[r])) << id << r;
  }
}

}  // namespace
}  // namespace protean::test
