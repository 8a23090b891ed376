// Values in float next to vectors in double (parameter `values`): the same bits if float rounds nothing, refusals if
// float does not hold a number, and new values. The contract of test_formats.cpp has products of rounded values.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "operators/narrow_values.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "support/stored_values.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

std::vector<StoredWay> ways() { return ways_with(detail::has_float_values); }

class FloatValues : public testing::TestWithParam<StoredWay> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam().space);
    if (!context_) GTEST_SKIP() << no_device;
  }
  std::unique_ptr<AssembledMatrix<double>> make(const CsrMatrix<double>& csr, const char* word) const {
    return make(csr, word, context_);
  }
  std::unique_ptr<AssembledMatrix<double>> make(const CsrMatrix<double>& csr, const char* word,
                                                const ContextPtr& context) const {
    FormatParams params = in(word);
    for (const ParamDoc& doc : GetParam().format->params)
      if (doc.name == "max_fill") params.set("max_fill", 64);
    try {
      return make_matrix(*GetParam().format, placed(context, csr), context, params, GetParam().kernel->name);
    } catch (const FormatRefused&) { return nullptr; }
  }
  CsrMatrix<double> entries(const AssembledMatrix<double>& A) const {
    return fetched(A.context(), A.to_csr());
  }
  // csr in float multiplies several vectors one by one, whose sums have another order than those in one pass.
  static bool in_one_pass(const AssembledMatrix<double>& A) {
    const Ability<HasMultiProduct<double>> multi = A.abilities().multi_product;
    return multi && multi->no_multi_product().empty();
  }
  static bool equal(const AssembledMatrix<double>& one, const AssembledMatrix<double>& other) {
    const bool several = in_one_pass(one) == in_one_pass(other) || one.context()->deterministic();
    return same_bits(products(one, several), products(other, several));
  }
  bool copies() const { return GetParam().format->traits.uses_source; }

  ContextPtr context_;
};

TEST_P(FloatValues, ThatAreExactGiveTheSameBitsOfAllProducts) {
  int seen = 0;
  for (const BatteryMatrix& entry : battery())
    for (const bool deterministic : {false, true})
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(entry.name);
        if (GetParam().space == Space::device && (deterministic || threads > 1)) continue;
        const ContextPtr context = GetParam().space == Space::device
                                       ? context_
                                       : Context::host(threads, {.deterministic = deterministic});
        const auto full = make(entry.matrix, "double", context),
                   narrow = make(entry.matrix, "float", context);
        ASSERT_EQ(full == nullptr, narrow == nullptr);
        if (!full) continue;
        ++seen;
        EXPECT_EQ(full->stored_values(), "double");
        EXPECT_EQ(narrow->stored_values(), "float (exact)");
        EXPECT_TRUE(equal(*full, *narrow));
        const auto by_default = make(entry.matrix, "auto", context);
        EXPECT_EQ(by_default->stored_values(), copies() ? "double" : "float (exact)");
        EXPECT_EQ(by_default->bytes(), (copies() ? full : narrow)->bytes());
        if (entry.matrix.nonzeros() > 0) { EXPECT_LT(narrow->bytes(), full->bytes()); }
      }
  EXPECT_GT(seen, GetParam().space == Space::device ? 10 : 40);
}

// Large enough for the ways of rows and of caches that small matrices do not take.
TEST_P(FloatValues, OfLargeMatricesGiveTheSameBits) {
  for (const char* family : {"poisson-2d", "random-spd"}) {
    SCOPED_TRACE(family);
    CsrMatrix<double> csr =
        generate(test_context(), family, {{"n", family == std::string("poisson-2d") ? 500.0 : 60000.0}});
    csr = convert_values<double>(test_context(), convert_values<float>(test_context(), csr));
    const auto full = make(csr, "double"), narrow = make(csr, "float");
    ASSERT_EQ(full == nullptr, narrow == nullptr);
    if (full) { EXPECT_TRUE(equal(*full, *narrow)); }
  }
}

// A matrix with a history equals a new one: the storage, the bytes, the entries and the bits of products.
TEST_P(FloatValues, FollowNewValues) {
  std::mt19937 random(7);
  for (const char* name : {"stencil_7point_12", "band_asymmetric_67", "dense_17x17", "zero_7x7"}) {
    SCOPED_TRACE(name);
    const CsrMatrix<double>& csr = battery_matrix(name);
    for (const char* word : {"auto", "float", "double"}) {
      const auto old = make(csr, word);
      ASSERT_NE(old, nullptr);
      for (int step = 0; step < 12; ++step) {
        const CsrMatrix<double> next =
            scaled(csr, random() % 2 ? 1.0 / 3 : static_cast<double>(1 + random() % 9));
        old->update_values(placed(context_, next));
        const auto fresh = make(next, word);
        EXPECT_EQ(old->stored_values(), fresh->stored_values()) << word << ", step " << step;
        EXPECT_EQ(old->rounds_values(), fresh->rounds_values());
        EXPECT_EQ(old->bytes(), fresh->bytes());
        EXPECT_TRUE(identical(entries(*old), entries(*fresh)));
        EXPECT_TRUE(same_bits(products(*old), products(*fresh)));
      }
    }
  }
}

TEST_P(FloatValues, AreStoredInFullForGood) {
  const CsrMatrix<double> csr = scaled(battery_matrix("stencil_7point_12"), 1.0 / 3);
  const auto narrow = make(csr, "float"), full = make(csr, "double");
  EXPECT_TRUE(narrow->rounds_values());
  EXPECT_FALSE(identical(entries(*narrow), csr));
  const Revision before = narrow->revision();
  narrow->store_in_full(placed(context_, csr));
  EXPECT_NE(narrow->revision(), before);
  EXPECT_EQ(narrow->stored_values(), "double");
  EXPECT_TRUE(identical(entries(*narrow), csr));
  EXPECT_EQ(narrow->bytes(), full->bytes());
  EXPECT_TRUE(same_bits(products(*narrow), products(*full)));
  narrow->update_values(placed(context_, battery_matrix("stencil_7point_12")));
  EXPECT_EQ(narrow->stored_values(), "double");
}

TEST_P(FloatValues, ThatFloatCannotHoldAreRefusedByName) {
  const CsrMatrix<double>& good = battery_matrix("stencil_7point_12");
  const std::int64_t k = good.nonzeros() / 2;
  const std::string place = "row " +
                            std::to_string(detail::row_of_entry(good.pattern.row_ptr, good.rows(), k)) +
                            ", column " + std::to_string(good.pattern.col[k]);
  const auto matrix = make(good, "float");
  const std::vector<double> before = products(*matrix);
  for (const auto& [value, text] : {std::pair{-3.5e38, "-3.5e+38"}, {1e-39, "1e-39"}, {-1e-60, "-1e-60"}}) {
    SCOPED_TRACE(text);
    std::vector<double> values = values_of(good);
    values[static_cast<std::size_t>(k)] = value, values.back() = 1e300;
    const CsrMatrix<double> bad = with_values(good, values);
    try {
      (void)make_matrix(*GetParam().format, placed(context_, bad), context_, in("float"),
                        GetParam().kernel->name);
      ADD_FAILURE() << "taken";
    } catch (const FormatRefused& refusal) {
      EXPECT_TRUE(has(refusal.reason(), place) && has(refusal.reason(), text)) << refusal.reason();
    }
    try {
      matrix->update_values(placed(context_, bad));
      ADD_FAILURE() << "taken";
    } catch (const BadMatrix& error) { EXPECT_TRUE(has(error.what(), place)) << error.what(); }
    EXPECT_TRUE(same_bits(products(*matrix), before)) << "changed by what was refused";
    const auto by_default = make(bad, "auto");
    EXPECT_EQ(by_default->stored_values(), "double");
    EXPECT_TRUE(identical(entries(*by_default), bad));
  }
}

// Float holds these, and a processor that takes small numbers for zero does not.
TEST_P(FloatValues, BelowTheNormalNumbersAreNoReasonForFloat) {
  std::vector<double> values = values_of(battery_matrix("band_asymmetric_67"));
  values[3] = 0x1p-130;
  EXPECT_EQ(make(with_values(battery_matrix("band_asymmetric_67"), values), "auto")->stored_values(),
            "double");
  values[3] = 0x1p-126;
  EXPECT_EQ(make(with_values(battery_matrix("band_asymmetric_67"), values), "auto")->stored_values(),
            copies() ? "double" : "float (exact)");
  values[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(make(with_values(battery_matrix("band_asymmetric_67"), values), "auto")->stored_values(),
            "double");
}

TEST_P(FloatValues, AreThoseOfVectorsInFloat) {
  const CsrMatrix<float> csr =
      placed(context_, convert_values<float>(test_context(), battery_matrix("dense_17x17")));
  for (const char* word : {"auto", "float"})
    EXPECT_EQ(make_matrix(*GetParam().format, csr, context_, in(word))->stored_values(), "float");
  EXPECT_THROW((void)make_matrix(*GetParam().format, csr, context_, in("double")), BadArgument);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, FloatValues, testing::ValuesIn(ways()), name_of);

TEST(FloatValuesOfFormats, OthersNameTheFormatsThatHaveThem) {
  std::string names;
  for (const FormatEntry* format : layouts())
    if (std::ranges::any_of(format->kernels, detail::has_float_values))
      names += (names.empty() ? "" : ", ") + std::string(format->id);
  for (const char* id : {"csr", "sell-packed", "dia"}) EXPECT_TRUE(has(names, id)) << names;
  int others = 0;
  for (const FormatEntry* format : catalogue()) {
    EXPECT_EQ(format->float_formats, names);
    if (format->kernels.empty() || std::ranges::any_of(format->kernels, detail::has_float_values)) continue;
    if (!format->params.empty() &&
        std::ranges::any_of(format->params, [](const ParamDoc& doc) { return doc.name == "values"; }))
      continue;  // a number of mgpu-csr
    ++others;
    try {
      (void)resolve_params(*format, in("float"));
      ADD_FAILURE() << format->id;
    } catch (const BadArgument& error) {
      EXPECT_TRUE(has(error.what(), names) && has(error.what(), std::string(format->id))) << error.what();
    }
  }
  EXPECT_GT(others, 50);
  // The kernel is not the one that has them.
  EXPECT_THROW((void)make_matrix(find_format("csr"), t8(), test_context(), in("float"), "naive"),
               BadArgument);
}

// Bytes are predicted as they will be, and what the model compares matrices by stays as it was.
TEST(FloatValuesOfFormats, SurveysCountTheSmallerBytes) {
  const CsrMatrix<double> exact = generate(test_context(), "poisson-2d", {{"n", 300}}),
                          inexact = scaled(exact, 1.0 / 3);
  const auto of = [](const std::vector<SwitchTarget>& targets, std::string_view id) {
    for (const SwitchTarget& target : targets)
      if (target.spec.entry->id == id && (target.spec.kernel.empty() || target.spec.kernel == "native"))
        return target;
    ADD_FAILURE() << id;
    return SwitchTarget{};
  };
  const CostModel model(builtin_machine(), Space::host);
  const auto survey = [&](const CsrMatrix<double>& csr) {
    const Matrix<double> A(csr, make_matrix(find_format("csr"), csr, test_context()));
    return survey_formats(A, model);
  };
  const auto narrow = survey(exact), full = survey(inexact);
  // The table of the processor says which formats are worth a look.
  std::string_view id;
  for (const std::string_view one : {"sell-packed", "dia", "hdi"})
    if (id.empty() &&
        std::ranges::any_of(narrow, [&](const SwitchTarget& target) { return target.spec.entry->id == one; }))
      id = one;
  ASSERT_FALSE(id.empty());
  const SwitchTarget packed = of(narrow, id), wide = of(full, id);
  // Bytes are estimated by a sample of the rows, and rounded.
  EXPECT_NEAR(static_cast<double>(packed.bytes + packed.saved_bytes), static_cast<double>(wide.bytes), 8);
  EXPECT_EQ(wide.saved_bytes, 0u);
  EXPECT_GT(packed.saved_bytes, static_cast<std::size_t>(exact.nonzeros()) * 39 / 10);
  EXPECT_EQ(of(narrow, "csr").bytes, of(full, "csr").bytes);
  const auto made = make_matrix(find_format(id), exact, test_context());
  EXPECT_NEAR(static_cast<double>(packed.bytes), static_cast<double>(made->bytes()),
              0.02 * static_cast<double>(made->bytes()));
}

// The whole of a sum is as admitted, whatever its parts would do alone.
TEST(FloatValuesOfFormats, PartsOfASumAreAsAdmitted) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  const FormatEntry& sum = find_format("sum");
  const FormatParams params{{"parts", "dia:band(lower=1,upper=1) + sell-packed"}};
  const auto made = make_matrix(sum, csr, test_context(), params);
  EXPECT_EQ(made->bytes(), admit(sum, *test_context(), csr.pattern, params, 8).bytes);
}

}  // namespace
}  // namespace protean::test
