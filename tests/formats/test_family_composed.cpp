// Sums that a user composes (formats/compose.hpp): the rules that cut a matrix, the text of parts, and cocktail. Any
// parts keep the contract of test_formats.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"
#include "formats/composed/planners.hpp"
#include "formats/engines/composed/cut.hpp"
#include "gtest/gtest.h"
#include "solvers/solver.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

using Parts = std::vector<PartOfSum>;
using Matrix = AssembledMatrix<double>;

// The part of each entry.
std::vector<int> owners(const CsrMatrix<double>& csr, const std::string& text, int threads = 2) {
  const ContextPtr context = Context::host(threads);
  std::vector<formats::CutRule> rules;
  for (const PartOfSum& part : parts_of(text)) rules.push_back(formats::rule_of(part));
  const auto cut = formats::cuts_on_host().cut(*context, csr.pattern, rules, 8);
  std::vector<int> owner(static_cast<std::size_t>(csr.nonzeros()), -1);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const CsrMatrix<double> part = cut->part_of(context, csr, static_cast<int>(i));
    EXPECT_EQ(part.nonzeros(), cut->entries[i]);
    validate_sorted(*context, part.pattern);
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      for (std::int64_t k = part.pattern.row_ptr[r]; k < part.pattern.row_ptr[r + 1]; ++k) {
        const auto row = csr.pattern.row(r);
        const auto at = std::lower_bound(row.begin(), row.end(), part.pattern.col[k]) - row.begin();
        const auto place = static_cast<std::size_t>(csr.pattern.row_ptr[r] + at);
        EXPECT_EQ(owner[place], -1) << "an entry lies in two parts";
        owner[place] = static_cast<int>(i);
        EXPECT_EQ(part.values[k], csr.values[place]);
      }
  }
  return owner;
}
std::vector<int> owners_of_t8(const std::string& text) { return owners(t8(), text); }

// T8 has in rows 0 to 7 the columns {0,1} {1,..,5} {3} {} {0,4,7} {0,..,7} {6,7} {3,6,7}.
TEST(Cuts, DiagonalsOfT8) {
  // Offsets -4 (3 of 4), 0 (6 of 8) and 1 (5 of 7) are filled to more than 2/3, as the catalogue says of hdc.
  EXPECT_EQ(owners_of_t8("dia:diagonals + csr"),
            (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0}));
  // More than 72 %: offset 1 has 71.4 %.
  EXPECT_EQ(owners_of_t8("dia:diagonals(min_fill=72) + csr"),
            (std::vector<int>{0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 0}));
  // Exactly 75 % is not more.
  EXPECT_EQ(owners_of_t8("dia:diagonals(min_fill=75) + csr"), std::vector<int>(24, 1));
}

TEST(Cuts, BandOfT8) {
  EXPECT_EQ(owners_of_t8("dia[max_fill=100]:band(lower=1) + csr"),
            (std::vector<int>{0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0}));
}

TEST(Cuts, RowsOfT8) {
  EXPECT_EQ(owners_of_t8("ell:rows(longer_than=2,at_most=5) + csr"),
            (std::vector<int>{1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}));
}

TEST(Cuts, WidthOfT8) {
  EXPECT_EQ(owners_of_t8("ell:width(entries=2) + coo"),
            (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1}));
}

// Slices of 4 rows: lengths 2 5 1 0 and 3 8 2 3. More than 63 % of the slots are filled with 1 entry a row of the first
// (3 of 4; with 2 entries 5 of 8), and with 5 of the second (13 of 20; with 6 entries 14 of 24).
TEST(Cuts, WidthOfEachSliceOfT8) {
  EXPECT_EQ(owners_of_t8("ell:width(min_fill=63,slice=4) + coo"),
            (std::vector<int>{0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0}));
}

// Of the dense diagonals -4, 0 and 1 the last two are a band.
TEST(Cuts, ThickBandsOfT8) {
  EXPECT_EQ(owners_of_t8("dia:diagonals(min_band=2) + csr"),
            (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(owners_of_t8("dia:diagonals(min_band=3) + csr"), std::vector<int>(24, 1));
}

TEST(Cuts, BlocksOfT8) {
  // 2 x 2 blocks with 3 entries: rows 0/1, columns 0/1; rows 4/5, columns 0/1, 4/5 and 6/7; with 4: rows 6/7, columns
  // 6/7.
  EXPECT_EQ(owners_of_t8("bcsr[rows=2,cols=2]:blocks(rows=2,cols=2) + csr"),
            (std::vector<int>{0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(owners_of_t8("bcsr[rows=2,cols=2]:blocks(rows=2,cols=2,min_fill=76) + csr"),
            (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0}));
}

TEST(Cuts, LaterRulesSeeWhatIsLeft) {
  // Without the dense diagonals row 5 has columns 0, 2, 3, 4 and 7 left, and block (4, 0) one entry.
  EXPECT_EQ(
      owners_of_t8("dia:diagonals + bcsr[rows=2,cols=2]:blocks(rows=2,cols=2) + ell:width(entries=1) + csr"),
      (std::vector<int>{0, 0, 0, 0, 2, 3, 3, 0, 0, 0, 2, 2, 0, 3, 3, 3, 0, 0, 3, 0, 0, 0, 2, 0}));
}

TEST(Cuts, APartBelowItsShareTakesNothing) {
  // The diagonals have 14 of 24 entries, 58.3 %.
  EXPECT_NE(owners_of_t8("dia:diagonals(min_share=58) + csr"), std::vector<int>(24, 1));
  EXPECT_EQ(owners_of_t8("dia:diagonals(min_share=59) + csr"), std::vector<int>(24, 1));
}

TEST(Cuts, TheSameWithAnyNumberOfThreads) {
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 9}});
  for (const char* text :
       {"dia:diagonals + bcsr[rows=3,cols=3]:blocks(rows=3,cols=3,min_fill=60) + csr",
        "bcsr[rows=5,cols=2]:blocks(rows=5,cols=2,min_fill=90) + ell:width(entries=7) + csr",
        "ell:rows(at_most=60) + sell:band(lower=40,upper=3) + coo"}) {
    SCOPED_TRACE(text);
    const std::vector<int> one = owners(csr, text, 1);
    EXPECT_NE(std::count(one.begin(), one.end(), 0), 0);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(one, owners(csr, text, threads));
  }
}

// Sums of many kinds on the whole battery. All that a format of the catalogue must do.
class AnySum : public testing::TestWithParam<std::string> {
 protected:
  template <class T>
  static void check(const CsrMatrix<T>& csr, const ContextPtr& context) {
    const CsrMatrix<T> source = placed(context, csr);
    std::unique_ptr<AssembledMatrix<T>> matrix;
    const FormatParams params{{"parts", GetParam()}};
    const Admission admission = admit(find_format("sum"), *context, source.pattern, params, sizeof(T));
    try {
      matrix = make_matrix(find_format("sum"), source, context, params);
    } catch (const FormatRefused& refused) {
      EXPECT_TRUE(!admission.ok || refused.reason().find("sss: the entries") != std::string::npos)
          << refused.what();
      EXPECT_EQ(refused.reason().rfind("part ", 0), 0u) << refused.reason();
      return;
    }
    ++built_;
    EXPECT_EQ(matrix->bytes(), admission.bytes);
    const auto& shown = dynamic_cast<const HasParts&>(*matrix);
    std::int64_t entries = 0;
    std::size_t bytes = 0;
    for (const PartShare& share : shown.part_shares()) entries += share.entries, bytes += share.bytes;
    EXPECT_EQ(entries, csr.nonzeros());
    EXPECT_EQ(bytes, matrix->bytes());
    const auto x = sample_vector<T>(csr.cols(), 1), y0 = sample_vector<T>(csr.rows(), 2);
    const Placed<T> px(context, x);
    const std::vector<T> poison(y0.size(), std::numeric_limits<T>::quiet_NaN());
    CsrMatrix<T> now = csr;
    for (int update = 0; update < 2; ++update) {
      if (update == 1) {
        now = deep_copy(test_context(), csr);
        for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
          const_cast<T*>(now.values)[k] = csr.values[k] * 2 + 1;
        const Recording before = matrix->recording();
        matrix->update_values(placed(context, now));
        EXPECT_NE(before.version, matrix->recording().version);
      }
      for (const auto& [alpha, beta] : {std::pair<T, T>{1, 0}, {T(-0.75), T(2.5)}, {0, 1}}) {
        Placed<T> y(context, beta == T(0) ? poison : y0);
        matrix->apply(alpha, px.read(), beta, y.view());
        EXPECT_TRUE(product_is_right(now, alpha, x, beta, y0, y.fetch()));
      }
      EXPECT_TRUE(identical(now, fetched(context, matrix->to_csr())));
      const std::int64_t n = std::min(csr.rows(), csr.cols());
      std::vector<T> expected(static_cast<std::size_t>(n));
      extract_diagonal(*test_context(), now, expected.data());
      Placed<T> found(context,
                      std::vector<T>(static_cast<std::size_t>(n), std::numeric_limits<T>::quiet_NaN()));
      matrix->diagonal(found.view());
      EXPECT_EQ(expected, found.fetch());
    }
  }
  static void check_all(const ContextPtr& context) {
    built_ = 0;
    for (const BatteryMatrix& one : symmetric_battery()) {
      SCOPED_TRACE(one.name);
      check<double>(one.matrix, context);
      check<float>(convert_values<float>(test_context(), one.matrix), context);
    }
    EXPECT_GE(built_, 2 * 5);
  }
  static inline int built_ = 0;
};

TEST_P(AnySum, KeepsTheContract) { check_all(Context::host(3)); }

TEST_P(AnySum, KeepsTheContractOnADevice) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  check_all(context);
}

INSTANTIATE_TEST_SUITE_P(
    Composed, AnySum,
    testing::Values("csr", "dia[max_fill=1000000]:diagonals + csr",
                    "dia:diagonals(min_fill=60) + sell-packed",
                    "dia[max_fill=1000000]:band(lower=2,upper=2) + hyb", "ell:width(entries=2) + coo",
                    "csr:rows(longer_than=20) + ell[max_fill=1000000]",
                    "jad[max_fill=1000000]:rows(at_most=3) + csr5",
                    "bcsr[rows=2,cols=2]:blocks(rows=2,cols=2) + csr[balance=merge]@native",
                    "bell[rows=3,cols=3,max_fill=1000000]:blocks(rows=3,cols=3,min_fill=40) + csc",
                    "sss:band(lower=4,upper=4) + sell-c-sigma[max_fill=1000000]",
                    "bdia[max_fill=1000000]:diagonals(min_share=30) + "
                    "bcoo[rows=4,cols=4,max_fill=1000000]:blocks(rows=4,cols=4) + "
                    "ell:width(entries=1) + ell:width(entries=1) + csr:rows(longer_than=3) + coo"));

TEST(Sums, TheTextOfPartsIsReadAsItIsWritten) {
  const Parts parts{{.format = "dia",
                     .take = "diagonals",
                     .take_parameters = {{"min_fill", "60"}, {"min_share", "5"}},
                     .parameters = {{"max_fill", "8"}}},
                    {.format = "csr", .parameters = {{"balance", "rows"}}, .kernel = "native"}};
  const std::string text = "dia[max_fill=8]:diagonals(min_fill=60,min_share=5) + csr[balance=rows]@native";
  EXPECT_EQ(text_of(parts), text);
  EXPECT_EQ(text_of(parts_of(text)), text);
  EXPECT_EQ(text_of(parts_of(" dia [ max_fill = 8 ] : diagonals+csr ")), "dia[max_fill=8]:diagonals + csr");
}

TEST(Sums, MistakesInPartsSayWhatIsAllowed) {
  const auto says = [](const std::string& text, const std::string& part) {
    try {
      (void)parts_of(text);
      FAIL() << text << " was taken";
    } catch (const BadArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << text << ": " << error.what();
    }
  };
  says("", "character 1 must be the id of a format");
  says("dia:diagonals +", "character 16 must be the id of a format");
  says("csr csr", "character 5 must be '+'");
  says("dia[max_fill]:diagonals + csr", "'='");
  says("dia[max_fill=3,max_fill=3]:diagonals + csr", "max_fill is given twice");
  says("dia[max_fill=3:diagonals + csr", "',' or ']'");
  says("dja:diagonals + csr", "'dia'");
  says("dia:diagonal + csr",
       "take is one of: diagonals, band, rows, width, blocks, rest. Did you mean 'diagonals'?");
  says("dia:diagonals(min_fil=3) + csr", "it has min_fill, min_band, min_share");
  says("dia:diagonals(min_fill=100) + csr", "from 0 to 99");
  says("dia:diagonals(min_fill=x) + csr", "must be an integer");
  says("ell:rows + csr", "give it longer_than, at_most or both");
  says("dia[fill=3]:diagonals + csr", "format dia has no parameter 'fill'");
  says("csr@magic", "format csr has no kernel 'magic'");
  says("dia:diagonals", "the last part, dia, takes diagonals; it must take the rest");
  says("csr + csr", "part 1, csr, takes the rest");
  says("cocktail", "a part cannot be a cocktail itself");
  says("sum:diagonals + csr", "a part cannot be a sum itself");
  says("ell:width + ell:width + ell:width + ell:width + ell:width + ell:width + ell:width + ell:width + csr",
       "at most 8 are allowed");
}

TEST(Sums, PartsAreNamedWithTheirShares) {
  const Parts parts{{.format = "dia", .take = "diagonals"}, {.format = "csr"}};
  const auto matrix = make_sum<double>(parts, t8(), test_context());
  EXPECT_EQ(matrix->name(), "sum");
  const std::vector<PartShare> shares = dynamic_cast<const HasParts&>(*matrix).part_shares();
  EXPECT_EQ(text_of(shares), "dia(58%) csr(42%)");
  // dia as hdc stores it, and csr of the rest.
  EXPECT_EQ(shares[0].bytes,
            (build("dia", t8(), {{"max_fill", "100"}, {"values", "double"}})->bytes() - 16) / 10 * 3 + 16);
  EXPECT_EQ(shares[1].bytes, 12u * 10 + 4 * 9);
  // A part without entries is not stored.
  const auto all = make_sum<double>(
      Parts{{.format = "bcsr", .take = "blocks", .take_parameters = {{"rows", "8"}, {"cols", "8"}}},
            {.format = "csr"}},
      t8(), test_context());
  EXPECT_EQ(text_of(dynamic_cast<const HasParts&>(*all).part_shares()), "bcsr(0%) csr(100%)");
  EXPECT_EQ(all->bytes(), build("csr", t8())->bytes());
}

TEST(Sums, ARefusedPartIsNamed) {
  const CsrMatrix<double> csr = battery_matrix("power_law_500");
  const auto reason = [&](const std::string& text) {
    try {
      build("sum", csr, {{"parts", text}});
    } catch (const FormatRefused& refused) { return refused.reason(); }
    return std::string("was built");
  };
  EXPECT_EQ(reason("coo:width(entries=1) + ell[max_fill=2]").rfind("part 2, ell: ", 0), 0u);
  EXPECT_EQ(reason("coo:width(entries=1) + ell[max_fill=1000000]"), "was built");
  // Values that are not symmetric are found by the maker of the part.
  CsrMatrix<double> band = deep_copy(test_context(), generate(test_context(), "poisson-2d", {{"n", 6}}));
  const_cast<double*>(band.values)[1] += 1;
  try {
    build("sum", band, {{"parts", "sss:band(lower=1,upper=1) + csr"}});
    FAIL();
  } catch (const FormatRefused& refused) {
    EXPECT_EQ(refused.format(), "sum");
    EXPECT_EQ(refused.reason().rfind("part 1, sss: the entries", 0), 0u) << refused.reason();
  }
}

// Values that one part refuses change no part.
TEST(Sums, RefusedValuesChangeNothing) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 6}});
  const auto matrix = build("sum", csr,
                            {{"parts",
                              "sss:band(lower=0,upper=0) + "
                              "sss:band(lower=1,upper=1) + csr"}});
  CsrMatrix<double> changed = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(changed.values)[k] = 3;
  matrix->update_values(changed);
  const Revision before = matrix->revision();
  CsrMatrix<double> broken = deep_copy(test_context(), changed);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
    const_cast<double*>(broken.values)[k] = static_cast<double>(k);
  EXPECT_THROW(matrix->update_values(broken), FormatRefused);
  EXPECT_EQ(matrix->revision(), before);
  EXPECT_TRUE(identical(changed, matrix->to_csr()));
}

TEST(Sums, DeterministicModeOnAHostIsRefused) {
  EXPECT_THROW(make_matrix(find_format("sum"), t8(), Context::host(2, {.deterministic = true})),
               FormatRefused);
}

TEST(Sums, CgConvergesAsWithCsr) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 12}});
  const std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0);
  std::int64_t iterations[2];
  for (const int i : {0, 1}) {
    std::vector<double> x(b.size(), 0.0);
    const auto A =
        i == 0 ? build("csr", csr) : build("sum", csr, {{"parts", "dia:diagonals(min_fill=95) + csr"}});
    const SolveReport report = make_solver<double>("cg")->solve(
        *A, VectorView<const double>{b.data(), csr.rows()}, VectorView<double>{x.data(), csr.rows()});
    EXPECT_TRUE(report.converged());
    iterations[i] = report.iterations;
  }
  EXPECT_NEAR(static_cast<double>(iterations[0]), static_cast<double>(iterations[1]), 2);
}

}  // namespace
}  // namespace protean::test
