// Golden arrays of the row, coordinate, column and hybrid formats on T8 and the example B of clSpMV, and the
// ways in which the work is divided among threads.
#include <cmath>
#include <limits>

#include "core/blas1.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

TEST(GoldenRows, CsrIsTheInput) {
  const auto matrix = build("csr", clspmv_b());
  EXPECT_EQ(layout_numbers(*matrix, "row_ptr"), (Numbers{0, 2, 4, 7, 9}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 0, 2, 3, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{3, 7, 4, 8, 1, 5, 9, 2, 6}));
  const auto of_t8 = build("csr", t8());
  EXPECT_EQ(layout_numbers(*of_t8, "row_ptr"), (Numbers{0, 2, 7, 8, 8, 11, 19, 21, 24}));
  EXPECT_EQ(layout_numbers(*of_t8, "col"),
            (Numbers{0, 1, 1, 2, 3, 4, 5, 3, 0, 4, 7, 0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 3, 6, 7}));
  EXPECT_EQ(layout_numbers(*of_t8, "values"), (Numbers{11, 12, 22, 23, 24, 25, 26, 34, 51, 55, 58, 61,
                                                       62, 63, 64, 65, 66, 67, 68, 77, 78, 84, 87, 88}));
}

// The products of the catalogue, in every format and host kernel: whole numbers, so each order of the sums is exact.
TEST(GoldenRows, EveryFormatMultipliesT8) {
  const Numbers ones(8, 1.0), ramp{1, 2, 3, 4, 5, 6, 7, 8};
  std::size_t tested = 0;
  for (const FormatEntry* entry : catalogue()) {
    FormatParams params;
    for (const ParamDoc& doc : entry->params)
      if (doc.name == "max_fill") params.set("max_fill", "1000000");
    for (const Kernel& kernel : kernels_in(*entry, Space::host)) {
      if (!kernel.unavailable.empty() || entry->traits.symmetric_only) continue;
      SCOPED_TRACE(std::string(entry->id) + " " + std::string(kernel.name));
      const auto matrix = make_matrix(*entry, t8(), test_context(), params, kernel.name);
      Numbers y(8);
      matrix->apply(VectorView<const double>{ones.data(), 8}, {y.data(), 8});
      EXPECT_EQ(y, (Numbers{23, 120, 34, 0, 164, 516, 155, 259}));
      matrix->apply(VectorView<const double>{ramp.data(), 8}, {y.data(), 8});
      EXPECT_EQ(y, (Numbers{35, 490, 136, 0, 790, 2364, 1163, 1649}));
      ++tested;
    }
  }
  EXPECT_GE(tested, 100u);
}

TEST(GoldenRows, CsrUsesTheCallersArraysInPlace) {
  const CsrMatrix<double> csr = t8();
  const std::size_t before = allocated_bytes();
  const auto matrix = build("csr", csr);
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_EQ(matrix->to_csr().values, csr.values);
  EXPECT_EQ(matrix->to_csr().pattern.col, csr.pattern.col);
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 9 * 4);
}

// Rows with the diagonal first, as some finite-element codes keep them, and in descending order.
TEST(UnsortedRows, CsrComputesWithThemInPlaceAndOthersRefuse) {
  const CsrMatrix<double> sorted = battery_matrix("random_257");
  std::vector<std::int32_t> row_ptr{0}, col;
  std::vector<double> values;
  for (std::int64_t r = 0; r < sorted.rows(); ++r) {
    for (std::int64_t k = sorted.pattern.row_ptr[r]; k < sorted.pattern.row_ptr[r + 1]; ++k)
      col.push_back(sorted.pattern.col[k]), values.push_back(sorted.values[k]);
    row_ptr.push_back(static_cast<std::int32_t>(col.size()));
    // Descending order; but in the first rows only their diagonal entry is moved to the front.
    const auto begin = col.begin() + row_ptr[r], own = std::find(begin, col.end(), r);
    const auto rotate = [&](auto first, auto middle, auto last) { std::rotate(first, middle, last); };
    if (r < 100 && own != col.end()) {
      rotate(values.begin() + row_ptr[r], values.begin() + (own - col.begin()),
             values.begin() + (own - col.begin()) + 1);
      rotate(begin, own, own + 1);
    } else {
      std::reverse(begin, col.end());
      std::reverse(values.begin() + row_ptr[r], values.end());
    }
  }
  const auto csr = csr_view(sorted.rows(), sorted.cols(), row_ptr.data(), col.data(), values.data());
  ASSERT_FALSE(is_sorted(*Context::host(2), csr.pattern));
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (int threads : {1, 2, 5})
    for (const char* balance : {"rows", "merge", "blocks"}) {
      const auto A = make_matrix(find_format("csr"), csr, Context::host(threads), {{"balance", balance}});
      auto y = y0;
      A->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(sorted, -0.5, x, 2.0, y0, y)) << threads << balance;
      Numbers d(csr.rows()), expected(csr.rows());
      dynamic_cast<const HasDiagonal<double>&>(*A).diagonal({d.data(), csr.rows()});
      extract_diagonal(*Context::host(1), sorted, expected.data());
      EXPECT_EQ(d, expected);
      EXPECT_TRUE(identical(sorted_copy(Context::host(1), A->to_csr()), sorted));
    }
  for (const FormatEntry* entry : catalogue()) {
    if (entry->traits.unsorted_rows || entry->kernels.empty()) continue;
    EXPECT_THROW(make_matrix(*entry, csr, Context::host(2)), BadMatrix) << entry->id;
  }
  // In deterministic mode the order of the sums is promised.
  EXPECT_THROW(make_matrix(find_format("csr"), csr, Context::host(2, {.deterministic = true})), BadMatrix);
}

// Also at the beginning of a thread's rows, and if only one row is not sorted.
TEST(UnsortedRows, AreFound) {
  const CsrMatrix<double> sorted = battery_matrix("random_257");
  std::vector<std::int32_t> col(sorted.pattern.col, sorted.pattern.col + sorted.nonzeros());
  CsrMatrix<double> csr = sorted;
  csr.pattern.col = col.data();
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    if (csr.pattern.row_length(r) < 2) continue;
    const auto last = static_cast<std::size_t>(csr.pattern.row_ptr[r + 1]) - 1;
    std::swap(col[last], col[last - 1]);
    for (int threads : {1, 3}) EXPECT_FALSE(is_sorted(*Context::host(threads), csr.pattern)) << r;
    std::swap(col[last], col[last - 1]);
    for (int threads : {1, 3}) EXPECT_TRUE(is_sorted(*Context::host(threads), csr.pattern)) << r;
  }
}

TEST(GoldenRows, Coo) {
  const auto matrix = build("coo", clspmv_b());
  EXPECT_EQ(layout_numbers(*matrix, "row"), (Numbers{0, 0, 1, 1, 2, 2, 2, 3, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 0, 2, 3, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{3, 7, 4, 8, 1, 5, 9, 2, 6}));
  const auto of_t8 = build("coo", t8());
  EXPECT_EQ(layout_numbers(*of_t8, "row"),
            (Numbers{0, 0, 1, 1, 1, 1, 1, 2, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 7, 7, 7}));
  EXPECT_EQ(of_t8->bytes(), 24u * 16);
}

TEST(GoldenRows, Csc) {
  const auto matrix = build("csc", t8());
  EXPECT_EQ(layout_numbers(*matrix, "col_ptr"), (Numbers{0, 3, 6, 8, 12, 15, 17, 20, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "row"),
            (Numbers{0, 4, 5, 0, 1, 5, 1, 5, 1, 2, 5, 7, 1, 4, 5, 1, 5, 5, 6, 7, 4, 5, 6, 7}));
  EXPECT_EQ(matrix->bytes(), 24u * 12 + 9 * 4);
  const auto b = build("csc", clspmv_b());
  EXPECT_EQ(layout_numbers(*b, "col_ptr"), (Numbers{0, 2, 5, 7, 9}));
  EXPECT_EQ(layout_numbers(*b, "values"), (Numbers{3, 1, 7, 4, 2, 8, 5, 9, 6}));
}

TEST(GoldenRows, CscGivesEachThreadItsRows) {
  const CsrMatrix<double>& csr = battery_matrix("stencil_7point_12");
  const auto matrix = build("csc", csr);
  const Numbers col_ptr = layout_numbers(*matrix, "col_ptr"), row = layout_numbers(*matrix, "row"),
                split = layout_numbers(*matrix, "split");
  ASSERT_EQ(split.size(), static_cast<std::size_t>(csr.cols()));
  double above = -1, below = std::numeric_limits<double>::max();
  for (std::size_t j = 0; j < split.size(); ++j)
    for (double k = col_ptr[j]; k < col_ptr[j + 1]; ++k) {
      double& border = k < split[j] ? above : below;
      border = k < split[j] ? std::max(border, row[k]) : std::min(border, row[k]);
    }
  EXPECT_LT(above, below);
  EXPECT_NEAR(below, csr.rows() / 2.0, 2.0);
}

TEST(GoldenRows, HybOnT8) {
  const auto matrix = build("hyb", t8());
  const Numbers ell = layout_numbers(*matrix, "ell_values");
  EXPECT_EQ(ell, (Numbers{11, 22, 34, 0, 51, 61, 77, 84,  //
                          12, 23, 0,  0, 55, 62, 78, 87,  //
                          0,  24, 0,  0, 58, 63, 0,  88}));
  EXPECT_EQ(layout_numbers(*matrix, "ell_col"), (Numbers{0, 1, 3, 0, 0, 0, 6, 3,  //
                                                         1, 2, 3, 0, 4, 1, 7, 6,  //
                                                         1, 3, 3, 0, 7, 2, 7, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "empty_row"), (Numbers{3}));
  EXPECT_EQ(layout_numbers(*matrix, "coo_row"), (Numbers{1, 1, 5, 5, 5, 5, 5}));
  EXPECT_EQ(layout_numbers(*matrix, "coo_col"), (Numbers{4, 5, 3, 4, 5, 6, 7}));
}

TEST(GoldenRows, HybCountsForEachK) {
  const std::size_t ell[] = {0, 8, 16, 24, 32}, coo[] = {24, 17, 11, 7, 5};
  for (int k = 0; k <= 4; ++k) {
    const auto matrix = build("hyb", t8(), {{"K", std::to_string(k)}});
    EXPECT_EQ(layout_numbers(*matrix, "ell_values").size(), ell[k]) << k;
    EXPECT_EQ(layout_numbers(*matrix, "coo_values").size(), coo[k]) << k;
    EXPECT_TRUE(identical(t8(), matrix->to_csr())) << k;
  }
  const auto small = build("hyb", t8(), {{"break_even", "4096"}});
  EXPECT_EQ(layout_numbers(*small, "coo_values").size(), 24u);
}

// K grows as long as at least a third of the rows, and at least break_even rows, have more than K entries.
// Here `longer` of `rows` rows have 3 entries and the others 1.
TEST(GoldenRows, TheOneThirdRuleOfHybAtItsBorder) {
  const auto slots = [](std::int32_t rows, std::int32_t longer, std::int64_t break_even) {
    std::vector<Triplet<double>> triplets;
    for (std::int32_t r = 0; r < rows; ++r)
      for (std::int32_t c = 0; c < (r < longer ? 3 : 1); ++c) triplets.push_back({r, c, 1.0 + r + c});
    const auto csr = csr_from_triplets<double>(test_context(), rows, 4, triplets);
    const auto matrix = build("hyb", csr, {{"break_even", std::to_string(break_even)}});
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
    const std::size_t stored = layout_numbers(*matrix, "ell_values").size();
    EXPECT_EQ(layout_numbers(*matrix, "coo_values").size(),
              stored == static_cast<std::size_t>(rows) ? 2u * static_cast<unsigned>(longer) : 0u);
    return static_cast<int>(stored / static_cast<std::size_t>(rows));
  };
  EXPECT_EQ(slots(9, 3, 0), 3);   // exactly a third
  EXPECT_EQ(slots(10, 3, 0), 1);  // less
  EXPECT_EQ(slots(8, 3, 0), 3);   // more
  EXPECT_EQ(slots(8, 3, 3), 3);   // exactly break_even rows
  EXPECT_EQ(slots(8, 3, 4), 1);   // fewer
}

TEST(GoldenRows, PaddingOfHybCarriesNoNaN) {
  const auto matrix = build("hyb", t8(), {{"K", "4"}});
  Numbers x(8, 1.0), y(8);
  x[0] = std::numeric_limits<double>::quiet_NaN();
  matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
  for (int r : {1, 2, 3, 6, 7}) EXPECT_TRUE(std::isfinite(y[r])) << r;
  for (int r : {0, 4, 5}) EXPECT_TRUE(std::isnan(y[r])) << r;
}

// One row of 20000 entries among 2000 short ones.
CsrMatrix<double> one_giant_row() {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t r = 0; r < 2000; ++r) {
    if (r % 5 != 2) triplets.push_back({r, r, 1 + r % 3 * 0.25});
    if (r == 700)
      for (std::int32_t c = 0; c < 20000; ++c)
        if (c != 700) triplets.push_back({r, c, 0.5 - c % 7 * 0.125});
  }
  return csr_from_triplets<double>(test_context(), 2000, 20000, triplets);
}

TEST(BalanceOfCsr, RowsThatAreCutAreStillRight) {
  const CsrMatrix<double> csr = one_giant_row();
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  for (int threads : {1, 2, 3, 7, 12})
    for (const char* balance : {"auto", "rows", "merge", "blocks"}) {
      const auto matrix =
          make_matrix(find_format("csr"), csr, Context::host(threads), FormatParams{{"balance", balance}});
      auto y = y0;
      matrix->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y)) << threads << balance;
    }
}

TEST(BalanceOfCsr, WholeRowsGiveTheSameBitsForAnyNumberOfThreads) {
  const CsrMatrix<double> csr = one_giant_row();
  const auto x = sample_vector<double>(csr.cols(), 1);
  std::vector<Numbers> results;
  for (int threads : {1, 2, 3, 7}) {
    Numbers y(csr.rows());
    make_matrix(find_format("csr"), csr, Context::host(threads), {{"balance", "rows"}})
        ->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
    results.push_back(y);
  }
  for (const Numbers& y : results) EXPECT_EQ(y, results.front());
}

TEST(BalanceOfCsr, UnknownRuleIsRefused) {
  EXPECT_THROW(build("csr", t8(), {{"balance", "row"}}), BadArgument);
}

}  // namespace
}  // namespace protean::test
