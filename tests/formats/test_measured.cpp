// Parameters that are chosen by trying. A clock of the test says how long products take, so nothing depends on time.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/measured_params.hpp"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Runs each product once, and says that it took the next of these seconds.
struct Script {
  std::vector<double> seconds;
  std::size_t next = 0;
  detail::ProductClock clock() {
    return [this](const std::function<void()>& product) {
      product();
      return seconds.at(next++);
    };
  }
};

FormatParams complete(const FormatEntry& entry, const FormatParams& given) {
  return resolve_params(entry, given, &find_kernel(entry, {}, Space::host));
}
FormatParams found(const char* format, const FormatParams& given, Script& script,
                   const CsrMatrix<double>& csr) {
  const FormatEntry& entry = find_format(format);
  return detail::measured_params(entry, "", csr, test_context(), complete(entry, given), 0, script.clock());
}

TEST(Measured, TheFirstOfTheLeastTimeIsTaken) {
  Script script{{5, 4, 2, 3, 2, 9}};  // T = 1, 2, 4, 8, 16, 32
  const FormatParams params =
      found("ellr-t", {{"T", "measured"}, {"max_fill", "1000"}}, script, battery_matrix("random_257"));
  EXPECT_EQ(params.word("T"), "4");
  EXPECT_EQ(script.next, 6u);
}

TEST(Measured, AllCombinationsAreTriedAndOtherParametersStay) {
  Script script{std::vector<double>(25, 2.0)};
  script.seconds[5 * 3 + 1] = 1;  // tile changes first: its second word, and the fourth of work
  const FormatParams params = found("tile-composite", {{"tile", "measured"}, {"work", "measured"}}, script,
                                    battery_matrix("random_257"));
  EXPECT_EQ(params.word("tile"), "8192");
  EXPECT_EQ(params.word("work"), "8192");
  EXPECT_EQ(script.next, 25u);
  Script one{{1, 2, 3, 4, 5}};
  EXPECT_EQ(found("tile-composite", {{"tile", "measured"}, {"work", "77"}}, one, t8()).word("work"), "77");
}

// Blocks of more values than max_fill allows are refused, so only the others are multiplied.
TEST(Measured, WhatIsRefusedIsPassedOver) {
  Script script{std::vector<double>(64, 1.0)};
  const FormatParams params = found("bcsr", {{"rows", "measured"}, {"cols", "measured"}, {"max_fill", "1"}},
                                    script, battery_matrix("blocks_3x3_60"));
  EXPECT_EQ(params.word("rows"), "1");
  EXPECT_EQ(params.word("cols"), "1");
  EXPECT_EQ(script.next, 4u);  // 1 and 3 of both
  Script none{{1}};
  try {
    found("ellr-t", {{"T", "measured"}, {"max_fill", "1"}}, none, battery_matrix("one_full_row_300"));
    FAIL();
  } catch (const FormatRefused& refusal) {
    EXPECT_NE(refusal.reason().find("measured"), std::string::npos) << refusal.reason();
  }
  EXPECT_EQ(none.next, 0u);
}

// Slices that are measured decide between bccoo and bccoo-plus: with one slice the arrays are the arrays of bccoo.
TEST(Measured, SlicesChooseBetweenBccooAndBccooPlus) {
  const CsrMatrix<double>& csr = battery_matrix("random_257");
  FormatParams given{{"rows", "1"}, {"cols", "1"}, {"slices", "measured"}, {"max_fill_percent", "10000"}};
  const auto bytes = [&](const char* format, FormatParams params, const char* slices) {
    if (slices) params.set("slices", slices);
    return build(format, csr, params)->bytes();
  };
  Script none{{1, 2, 3, 4, 5, 6}};  // slices = 2, 1, 4, 8, 16, 32
  none.seconds[1] = 0.5;
  const FormatParams one = found("bccoo-plus", given, none, csr);
  EXPECT_EQ(one.word("slices"), "1");
  EXPECT_EQ(none.next, 6u);
  const auto plain = build("bccoo", csr, {{"rows", "1"}, {"cols", "1"}}),
             same = build("bccoo-plus", csr, one);
  EXPECT_EQ(same->bytes(), plain->bytes());
  for (const char* name : {"flags", "block_col", "values", "first_row", "entries"})
    EXPECT_EQ(layout_numbers(*same, name), layout_numbers(*plain, name)) << name;
  Script eight{{6, 5, 4, 1, 3, 2}};
  const FormatParams sliced = found("bccoo-plus", given, eight, csr);
  EXPECT_EQ(sliced.word("slices"), "8");
  EXPECT_NE(bytes("bccoo-plus", sliced, nullptr), plain->bytes());
  EXPECT_EQ(bytes("bccoo-plus", sliced, nullptr), bytes("bccoo-plus", given, "8"));
}

// The sums of the slices may be too many for the matrix: then bccoo is left.
TEST(Measured, SlicesThatAreRefusedLeaveBccoo) {
  Script only{{1}};
  const FormatParams params = found("bccoo-plus", {{"slices", "measured"}, {"max_fill", "1000"}}, only,
                                    battery_matrix("identity_33"));
  EXPECT_EQ(params.word("slices"), "1");
  EXPECT_EQ(only.next, 1u);
}

// The whole search of the paper: the four sizes of blocks with the fewest bytes, slices and tiles.
TEST(Measured, TheSearchOfBccooPlusHasFourSizesOfBlocks) {
  const CsrMatrix<double>& csr = battery_matrix("random_257");
  const FormatParams all{{"shape", "measured"},
                         {"slices", "measured"},
                         {"tile", "measured"},
                         {"max_fill", "1000000"},
                         {"max_fill_percent", "1000000"}};
  Script script{std::vector<double>(4 * 6 * 4, 2.0)};
  script.seconds[24 * 2 + 6 * 2 + 1] = 1;  // slices change first, then shape, then tile
  const FormatParams params = found("bccoo-plus", all, script, csr);
  EXPECT_EQ(script.next, 96u);
  EXPECT_EQ(params.word("slices"), "1");
  EXPECT_EQ(params.word("shape"), "3");
  EXPECT_EQ(params.word("tile"), "32");
  EXPECT_EQ(params.word("rows"), "auto");
  const auto matrix = build("bccoo-plus", csr, params);
  EXPECT_EQ(build("bccoo-plus", csr, matrix->params())->bytes(), matrix->bytes());
}

TEST(Measured, SlicesOutOfRangeAreRefused) {
  for (const char* slices : {"0", "33", "x"})
    EXPECT_THROW(build("bccoo-plus", t8(), {{"slices", slices}}), BadArgument) << slices;
}

TEST(Measured, TooManyCombinationsAreRefused) {
  static constexpr ParamDoc params[] = {
      {.name = "a", .doc = "a", .default_value = "1", .choices = "measured|1|2|3|4|5"},
      {.name = "b", .doc = "b", .default_value = "1", .choices = "measured|1|2|3|4|5"},
      {.name = "c", .doc = "c", .default_value = "1", .choices = "measured|1|2|3|4"}};
  FormatEntry entry = find_format("csr");
  entry.params = params;
  Script script;
  const FormatParams all{{"a", "measured"}, {"b", "measured"}, {"c", "measured"}};
  try {
    detail::measured_params(entry, "native", t8(), test_context(), all, 0, script.clock());
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("100 combinations"), std::string::npos) << error.what();
  }
}

// With the clock of the machine any word may be the fastest; the matrix says which one it was, and can be built again
// from that.
TEST(Measured, AMatrixSaysWhatWasFound) {
  const CsrMatrix<double>& csr = battery_matrix("random_257");
  struct Its {
    const char *format, *name;
  };
  for (const Its& its :
       {Its{"ellr-t", "T"}, Its{"sliced-ellr-t", "T"}, Its{"sic", "C"}, Its{"tile-composite", "tile"},
        Its{"bellpack", "rows"}, Its{"bcsr-choi", "cols"}, Its{"bccoo", "rows"}, Its{"hec", "p"}}) {
    SCOPED_TRACE(its.format);
    FormatParams given{{its.name, "measured"}};
    const FormatEntry& entry = find_format(its.format);
    if (std::any_of(entry.params.begin(), entry.params.end(),
                    [](const ParamDoc& doc) { return doc.name == "max_fill"; }))
      given.set("max_fill", "1000000");
    const auto matrix = build(its.format, csr, given);
    const std::string value = matrix->params().word(its.name);
    EXPECT_NE(value, "measured");
    EXPECT_GT(matrix->params().integer(its.name), -1);
    EXPECT_EQ(build(its.format, csr, matrix->params())->bytes(), matrix->bytes());
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    auto y = y0;
    matrix->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
    EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y));
  }
}

// admit() sees no values and runs no products: it answers for the default.
TEST(Measured, AdmitAnswersForTheDefault) {
  const SparsityPattern pattern = battery_matrix("random_257").pattern;
  const auto bytes = [&](const FormatParams& params) {
    return admit(find_format("hec"), *test_context(), pattern, params, 8).bytes;
  };
  EXPECT_EQ(bytes({{"p", "measured"}}), bytes({}));
  EXPECT_NE(bytes({{"p", "20"}}), bytes({}));
}

TEST(Measured, OnlyNamedParametersAreMeasured) {
  EXPECT_THROW(build("csr5", t8(), {{"sigma", "measured"}}), BadArgument);
  EXPECT_THROW(build("hec", t8(), {{"p", "0"}}), BadArgument);
  EXPECT_THROW(build("hec", t8(), {{"p", "1001"}}), BadArgument);
  EXPECT_THROW(build("tile-composite", t8(), {{"tile", "x"}}), BadArgument);
}

}  // namespace
}  // namespace protean::test
