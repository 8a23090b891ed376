// Golden arrays of the sliced ELLPACK family on the catalogue's T8, and the property by which each format differs from
// its neighbours. Each property is also shown not to hold of the neighbour.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

std::int64_t stored(std::string_view format, const FormatParams& params) {
  const Admission admission = admit(find_format(format), *test_context(), t8().pattern, params, 8);
  EXPECT_TRUE(admission.ok) << admission.reason;
  return admission.stored_values;
}

// Parameters with which a format refuses no matrix for its padding.
FormatParams without_limit(std::string_view format) {
  FormatParams params;
  for (const ParamDoc& one : settable_params(find_format(format)))
    if (one.name == "max_fill") params.set("max_fill", 1'000'000);
  return params;
}

TEST(GoldenSlots, HllOnT8) {
  const FormatParams hacks_of_2{{"hack", "2"}};
  EXPECT_EQ(stored("hll", hacks_of_2), 34);
  EXPECT_EQ(stored("hll", {{"hack", "4"}}), 52);
  EXPECT_EQ(stored("hll", {{"hack", "1"}}), 24);
  const auto matrix = build("hll", t8(), hacks_of_2);
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 10, 12, 28, 34}));
  EXPECT_EQ(layout_numbers(*matrix, "lengths"), (Numbers{2, 5, 1, 0, 3, 8, 2, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "diagonal_index"), (Numbers{0, 0, -1, -1, 1, 5, 0, 2}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 12),
            (Numbers{11, 22, 12, 23, 0, 24, 0, 25, 0, 26, 34, 0}));
}

// A window of one row.
TEST(GoldenSlots, HllSortsAMatrixOfOneRow) {
  const auto csr =
      csr_from_triplets<double>(test_context(), 1, 3, std::vector<Triplet<double>>{{0, 0, 2.0}, {0, 2, 5.0}});
  const auto matrix = build("hll", csr, {{"hack", "1"}, {"sort", "all"}});
  EXPECT_TRUE(identical(csr, matrix->to_csr()));
}

TEST(GoldenSlots, EllpackRAndTheEllpackOfPsblasOnT8) {
  // 12 M MAX + 4 M, and 8 M with the places of the diagonal.
  EXPECT_EQ(build("ellpack-r", t8())->bytes(), 12u * 64 + 4 * 8);
  EXPECT_EQ(build("ell-psblas", t8())->bytes(), 12u * 64 + 8 * 8);
  EXPECT_EQ(stored("ellpack-r", {}), 64);
  const auto matrix = build("ellpack-r", t8());
  EXPECT_EQ(layout_numbers(*matrix, "lengths"), (Numbers{2, 5, 1, 0, 3, 8, 2, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), layout_numbers(*build("ell", t8()), "values"));
}

TEST(GoldenSlots, EllpackRpSortsAndStoresAsMuch) {
  EXPECT_EQ(stored("ellpack-rp", {}), 64);
  const auto matrix = build("ellpack-rp", t8());
  EXPECT_EQ(layout_numbers(*matrix, "perm"), (Numbers{5, 1, 4, 7, 0, 6, 2, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "lengths"), (Numbers{8, 5, 3, 3, 2, 2, 1, 0}));
}

TEST(GoldenSlots, SlicedEllrTOnT8) {
  const FormatParams params{{"S", "4"}, {"T", "2"}};
  EXPECT_EQ(stored("sliced-ellr-t", params), 56);
  const auto matrix = build("sliced-ellr-t", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 24, 56}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 24),
            (Numbers{11, 12, 22, 23, 34, 0, 0, 0, 0, 0, 24, 25, 0, 0, 0, 0, 0, 0, 26, 0, 0, 0, 0, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "lengths"), (Numbers{1, 3, 1, 0, 2, 4, 1, 2}));
}

TEST(GoldenSlots, EllrTOnT8) {
  const FormatParams params{{"T", "2"}, {"max_fill", "10"}};
  EXPECT_EQ(stored("ellr-t", params), 128);
  const auto matrix = build("ellr-t", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "lengths"), (Numbers{1, 3, 1, 0, 2, 4, 1, 2}));
  EXPECT_EQ(layout_numbers(*matrix, "values")[34], 24);
  // T = 1 is ELLPACK-R, whose rows are padded to a multiple of 8.
  EXPECT_EQ(layout_numbers(*build("ellr-t", t8(), {{"T", "1"}, {"max_fill", "10"}}), "lengths"),
            layout_numbers(*build("ellpack-r", t8()), "lengths"));
}

TEST(GoldenSlots, SellPOnT8) {
  const auto count = [](const char* C, const char* round) {
    return stored("sell-c-sigma", {{"C", C}, {"sigma", "1"}, {"round", round}});
  };
  EXPECT_EQ(count("4", "2"), 56);
  EXPECT_EQ(count("2", "2"), 40);
  EXPECT_EQ(count("2", "4"), 48);
  EXPECT_EQ(count("4", "4"), 64);
  const auto matrix = build("sell-c-sigma", t8(), {{"C", "4"}, {"sigma", "1"}, {"round", "2"}});
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 24, 56}));
  const Numbers values = layout_numbers(*matrix, "values");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 24),
            (Numbers{11, 22, 34, 0, 12, 23, 0, 0, 0, 24, 0, 0, 0, 25, 0, 0, 0, 26, 0, 0, 0, 0, 0, 0}));
}

TEST(GoldenSlots, SicOnT8) {
  EXPECT_EQ(layout_numbers(*build("sell-c-sigma", t8(), {{"C", "2"}, {"sigma", "8"}}), "slice_ptr"),
            (Numbers{0, 16, 22, 26, 28}));
}

TEST(GoldenSlots, SellOfVariableHeightsOnT8) {
  const auto count = [](const char* C, const char* padding) {
    return stored("sell-variable", {{"C", C}, {"padding", padding}});
  };
  EXPECT_EQ(count("4", "0"), 24);
  EXPECT_EQ(count("4", "50"), 15 + 32);
  EXPECT_EQ(count("2", "30"), 10 + 1 + 11 + 6);
  const auto matrix = build("sell-variable", t8(), {{"C", "4"}, {"padding", "50"}});
  EXPECT_EQ(layout_numbers(*matrix, "row_start"), (Numbers{0, 3, 4, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 15, 15, 47}));
  EXPECT_EQ(layout_numbers(*matrix, "empty"), Numbers{3});
  const Numbers values = layout_numbers(*matrix, "values"), col = layout_numbers(*matrix, "col");
  EXPECT_EQ(Numbers(values.begin(), values.begin() + 19),
            (Numbers{11, 22, 34, 12, 23, 0, 0, 24, 0, 0, 25, 0, 0, 26, 0, 51, 61, 77, 84}));
  EXPECT_EQ(Numbers(col.begin(), col.begin() + 19),
            (Numbers{0, 1, 3, 1, 2, 3, 1, 3, 3, 1, 4, 3, 1, 5, 3, 0, 0, 6, 3}));
}

TEST(GoldenSlots, SellOfVariableHeightsInTheHeadOfItsFile) {
  CsrBuilder<double> builder(test_context(), 4, 4, 8);
  const std::int32_t col[] = {0, 2, 1, 2, 0, 0, 1, 3};
  for (std::int64_t k = 0; k < 8; ++k) builder.col()[k] = col[k], builder.values()[k] = 1 + double(k);
  for (std::int64_t r = 1; const std::int64_t end : {2, 4, 5, 8}) builder.set_row_ptr(r++, end);
  const auto matrix = build("sell-variable", builder.freeze(), {{"C", "4"}, {"padding", "25"}});
  EXPECT_EQ(layout_numbers(*matrix, "row_start"), (Numbers{0, 3, 4}));
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 6, 9}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 0, 2, 2, 0, 0, 1, 3}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{1, 3, 5, 2, 4, 0, 6, 7, 8}));
}

TEST(GoldenSlots, SellOfVariableHeightsWithSlicesOfOneRowIsCsr) {
  const auto matrix = build("sell-variable", t8(), {{"C", "1"}}), csr = build("csr", t8());
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), layout_numbers(*csr, "row_ptr"));
  EXPECT_EQ(layout_numbers(*matrix, "values"), layout_numbers(*csr, "values"));
}

TEST(GoldenSlots, BinCsrOnT8) {
  const FormatParams params{{"C", "4"}};
  EXPECT_EQ(stored("bin-csr", params), 44 + 8);
  const auto matrix = build("bin-csr", t8(), params);
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 16, 44}));
  EXPECT_EQ(layout_numbers(*matrix, "diagonal"), (Numbers{11, 22, 0, 0, 55, 66, 77, 88}));
  EXPECT_EQ(layout_numbers(*matrix, "without_diagonal"), (Numbers{2, 3}));
  // Row 1 without its diagonal: columns 2 to 5. Row 3 has no entries and shows its own column.
  const Numbers col = layout_numbers(*matrix, "col");
  EXPECT_EQ(Numbers(col.begin(), col.begin() + 8), (Numbers{1, 2, 3, 3, 1, 3, 3, 3}));
}

// x . A x comes out of the product in every kernel of these formats on a host.
TEST(SlotFormats, HaveTheDotProductOfTheirProduct) {
  for (const char* format :
       {"ell", "sell-c-sigma", "sell-variable", "hll", "ellpack-rp", "sliced-ellr-t", "ellr-t", "bin-csr"})
    for (const char* name : {"random_257", "stencil_7point_12", "power_law_500"}) {
      const CsrMatrix<double> csr = battery_matrix(name);
      const auto A = build(format, csr, without_limit(format));
      ASSERT_NE(dynamic_cast<const HasApplyDot<double>*>(A.get()), nullptr) << format;
      const std::vector<double> x = sample_vector<double>(csr.cols(), 1);
      std::vector<double> y(x.size()), plain(x.size());
      double result = 0;
      apply_dot<double>(*A, {x.data(), csr.cols()}, {y.data(), csr.rows()}, &result);
      A->apply({x.data(), csr.cols()}, {plain.data(), csr.rows()});
      EXPECT_EQ(y, plain) << format << " " << name;
      double sum = 0, size = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i], size += std::abs(x[i] * y[i]);
      EXPECT_NEAR(result, sum, 1e-13 * size) << format << " " << name;
    }
}

TEST(GoldenSlots, BinCsrTellsAStoredZeroOnTheDiagonalFromNone) {
  const auto diagonal_of_zeros = [](bool stored_zero) {
    CsrBuilder<double> builder(test_context(), 2, 2, stored_zero ? 2 : 1);
    std::int64_t k = 0;
    if (stored_zero) builder.col()[k] = 0, builder.values()[k++] = 0;
    builder.set_row_ptr(1, k);
    builder.col()[k] = 0, builder.values()[k++] = 5;
    builder.set_row_ptr(2, k);
    return builder.freeze();
  };
  for (const bool there : {false, true})
    EXPECT_TRUE(identical(build("bin-csr", diagonal_of_zeros(there), {{"max_fill", "1000"}})->to_csr(),
                          diagonal_of_zeros(there)));
}

// 300 rows of 1 to 9 entries, the diagonal among them.
CsrMatrix<double> varying() {
  constexpr std::int64_t n = 300;
  std::int64_t nonzeros = 0;
  const auto length = [](std::int64_t r) { return 1 + r * 7 % 9; };
  for (std::int64_t r = 0; r < n; ++r) nonzeros += length(r);
  CsrBuilder<double> builder(test_context(), n, n, nonzeros);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t first = std::min(r, n - length(r));
    for (std::int64_t i = 0; i < length(r); ++i, ++k)
      builder.col()[k] = static_cast<std::int32_t>(first + i),
      builder.values()[k] = 1 + static_cast<double>(i);
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}

bool skips_padding(const AssembledMatrix<double>& A, const CsrMatrix<double>& csr) {
  Numbers x(static_cast<std::size_t>(csr.cols()), 1), y(static_cast<std::size_t>(csr.rows()));
  x[6] = std::numeric_limits<double>::infinity();  // the last column of row 3, which has 4 entries
  A.apply({x.data(), csr.cols()}, {y.data(), csr.rows()});
  return std::none_of(y.begin(), y.end(), [](double v) { return std::isnan(v); });
}
bool has(const AssembledMatrix<double>& A, std::string_view array) {
  const auto arrays = dynamic_cast<const HasLayout&>(A).layout();
  return std::any_of(arrays.begin(), arrays.end(), [&](const LayoutArray& one) { return one.name == array; });
}

TEST(SlotNeighbours, EachPropertyHoldsOfItsFormatAlone) {
  using Matrix = AssembledMatrix<double>;
  const CsrMatrix<double> csr = varying();
  const auto slices = [](const Matrix& A) { return layout_numbers(A, "slice_ptr").size(); };
  struct Difference {
    const char *format, *neighbour;
    std::function<bool(const Matrix&)> property;
  };
  const Difference differences[] = {
      {"ellpack-r", "ell", [&](const Matrix& A) { return skips_padding(A, csr); }},
      {"hll", "sell", [&](const Matrix& A) { return skips_padding(A, csr); }},
      {"rgcsr", "hll", [&](const Matrix& A) { return slices(A) == 4 && skips_padding(A, csr); }},
      {"ell-psblas", "ellpack-r",
       [&](const Matrix& A) { return has(A, "diagonal_index") && slices(A) == 0; }},
      {"ell-psblas", "hll", [&](const Matrix& A) { return has(A, "diagonal_index") && slices(A) == 0; }},
      {"ellpack-rp", "ellpack-r",
       [&](const Matrix& A) {
         const Numbers lengths = layout_numbers(A, "lengths");
         return std::is_sorted(lengths.begin(), lengths.end(), std::greater<>());
       }},
      {"sliced-ellr-t", "hll",
       [&](const Matrix& A) {
         // Neighbouring slots are of one row: 4 threads read side by side.
         return layout_numbers(A, "lengths")[3] == 1 && layout_numbers(A, "values")[3 * 4 + 1] == 2;
       }},
      {"ellr-t", "sliced-ellr-t", [&](const Matrix& A) { return slices(A) == 0; }},
      {"sell-p", "sell",
       [&](const Matrix& A) {
         const Numbers ptr = layout_numbers(A, "slice_ptr");
         return ptr.size() == 11 &&
                std::all_of(ptr.begin(), ptr.end(), [](double p) { return std::fmod(p, 32 * 4) == 0; });
       }},
      {"sell-variable", "sell",
       [&](const Matrix& A) {
         // Slices of different heights, and none has more than a tenth of padding.
         if (!has(A, "row_start")) return false;
         const Numbers start = layout_numbers(A, "row_start");
         return start.back() == 300 && start.size() > 32 &&
                static_cast<double>(layout_numbers(A, "values").size()) <=
                    static_cast<double>(csr.nonzeros()) / 0.9;
       }},
      {"sic", "ell-warp",
       [&](const Matrix& A) { return slices(A) == 300 / 16 + 2 && layout_numbers(A, "perm").size() == 300; }},
      {"bin-csr", "sell", [&](const Matrix& A) { return has(A, "diagonal"); }},
      {"bin-csr", "hll", [&](const Matrix& A) { return has(A, "diagonal"); }},
  };
  for (const Difference& one : differences) {
    EXPECT_TRUE(one.property(*build(one.format, csr, without_limit(one.format)))) << one.format;
    EXPECT_FALSE(one.property(*build(one.neighbour, csr, without_limit(one.neighbour))))
        << one.neighbour << " passes as " << one.format;
  }
}

}  // namespace
}  // namespace protean::test
