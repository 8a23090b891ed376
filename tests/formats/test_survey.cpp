// Surveys of formats from a sample of rows, and the choice of `format: auto`.
#include "formats/survey.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "formats/engines/rows/rows.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "operators/policy/switch_policy.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Sampled {
  const char* kind;
  GeneratorParams params;
};

class Survey : public testing::TestWithParam<Sampled> {
 protected:
  ContextPtr context_ = Context::host(2);
  CsrMatrix<double> csr_ = generate(context_, GetParam().kind, GetParam().params);
};

TEST_P(Survey, TheSampleIsAValidSmallPartWithTheSameDiagonals) {
  const PatternSample sample = sample_rows(context_, csr_.pattern);
  ASSERT_LT(sample.share, 0.5);
  EXPECT_NO_THROW(validate_sorted(*context_, sample.pattern));
  EXPECT_NEAR(static_cast<double>(sample.pattern.nonzeros) / static_cast<double>(csr_.nonzeros()),
              sample.share, 1e-12);
  const double mean = static_cast<double>(csr_.nonzeros()) / static_cast<double>(csr_.rows());
  EXPECT_NEAR(static_cast<double>(sample.pattern.nonzeros) / static_cast<double>(sample.pattern.rows), mean,
              0.15 * mean);
  // The same distances between the entries of rows: columns moved as one.
  const auto distances = [](const SparsityPattern& pattern) {
    std::set<std::int64_t> found;
    for (std::int64_t i = 0; i < pattern.rows; ++i)
      for (const std::int32_t c : pattern.row(i)) found.insert(c - pattern.row(i).front());
    return found;
  };
  const auto whole = distances(csr_.pattern);
  for (const std::int64_t d : distances(sample.pattern)) EXPECT_TRUE(whole.contains(d)) << d;
}

TEST_P(Survey, BytesAreNearThoseOfTheWholeMatrix) {
  int admitted = 0;
  for (const SwitchTarget& format : survey_formats(csr_.pattern, Space::host)) {
    const std::string_view id = format.spec.entry->id;
    // Columns of a sample say nothing, nor do the places at which bccoo-plus cuts them. A sample has one or two groups
    // of argcsr, and another main diagonal of ell-dia. crsd begins a piece when the diagonals change, which they do
    // more often between the parts of a sample. tile-composite pads rows of a tile that have about the same length, of
    // which a sample has fewer.
    const std::string_view other[] = {"csc",     "tjad", "bccoo-plus",    "argcsr",
                                      "ell-dia", "crsd", "tile-composite"};
    if (!format.spec.kernel.empty() || std::find(std::begin(other), std::end(other), id) != std::end(other))
      continue;
    const Admission whole = admit(*format.spec.entry, *context_, csr_.pattern, {}, sizeof(double));
    if (format.admitted && whole.ok) {
      ++admitted;
      EXPECT_NEAR(static_cast<double>(format.bytes) / static_cast<double>(whole.bytes), 1, 0.12)
          << format.spec.entry->id;
    }
    if (!format.admitted) {
      EXPECT_FALSE(whole.ok) << format.spec.entry->id << ": " << format.why;
      EXPECT_NE(format.why.find("in a sample of"), std::string::npos) << format.why;
    }
  }
  EXPECT_GE(admitted, 5);
}

// Of a pattern in device memory the same rows are taken, and little else is copied.
TEST_P(Survey, TheSampleOfADeviceIsThatOfTheHost) {
  for (const ContextPtr& device : {fake_device_context(), test_context(Space::device)}) {
    if (!device) continue;
    const CsrMatrix<double> there = upload(device, csr_);
    const auto same = [](const SparsityPattern& a, const SparsityPattern& b) {
      ASSERT_EQ(a.rows, b.rows);
      ASSERT_EQ(a.cols, b.cols);
      for (std::int64_t i = 0; i < a.rows; ++i)
        ASSERT_TRUE(std::ranges::equal(a.row(i), b.row(i))) << "row " << i;
    };
    for (const int blocks : {1, 4}) {
      const PatternSample here = sample_rows(context_, csr_.pattern, 3072, blocks),
                          copied = sample_rows(device, there.pattern, 3072, blocks);
      EXPECT_EQ(copied.pattern.space, Space::host);
      EXPECT_EQ(copied.share, here.share);
      same(copied.pattern, here.pattern);
    }
    const PatternSample whole = sample_rows(device, there.pattern, csr_.nonzeros(), 4);
    EXPECT_EQ(whole.share, 1);
    same(whole.pattern, csr_.pattern);
    const std::int64_t longest = formats::longest_row(*device, there.pattern),
                       row = formats::row_of_length(*device, there.pattern, longest);
    EXPECT_EQ(longest, formats::longest_row(*context_, csr_.pattern));
    EXPECT_EQ(row, formats::row_of_length(*context_, csr_.pattern, longest));
    EXPECT_EQ(csr_.pattern.row_length(row), longest);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Survey,
                         testing::Values(Sampled{"poisson-3d", {{"n", 40.0}}},
                                         Sampled{"poisson-2d", {{"n", 250.0}}},
                                         Sampled{"elasticity-3d", {{"n", 20.0}}},
                                         Sampled{"anisotropic-3d", {{"n", 40.0}}},
                                         Sampled{"random-spd", {{"n", 40000.0}}}),
                         [](const auto& test) {
                           std::string name = test.param.kind;
                           std::erase(name, '-');
                           return name;
                         });

TEST(SampleRows, ASmallMatrixIsTakenWhole) {
  const ContextPtr context = Context::host(1);
  const CsrMatrix<double> csr = generate(context, "poisson-2d", {{"n", 20.0}});
  const PatternSample sample = sample_rows(context, csr.pattern);
  EXPECT_EQ(sample.share, 1);
  EXPECT_EQ(sample.pattern.col, csr.pattern.col);
}

// One full row in a tridiagonal matrix.
CsrMatrix<double> arrow(const ContextPtr& context, std::int64_t n) {
  CsrBuilder<double> builder(context, n, n, 3 * n - 2 + n - 3);
  std::int64_t at = 0;
  const auto put = [&](std::int64_t col) {
    builder.col()[at] = static_cast<std::int32_t>(col);
    builder.values()[at++] = 1;
  };
  for (std::int64_t i = 0; i < n; ++i) {
    if (i == n / 2)
      for (std::int64_t j = 0; j < n; ++j) put(j);
    else
      for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j <= std::min(i + 1, n - 1); ++j) put(j);
    builder.set_row_ptr(i + 1, at);
  }
  return builder.freeze();
}

TEST(SurveyFormats, OnlyFormatsThatCutRowsForOneVeryLongRow) {
  const ContextPtr context = Context::host(2);
  const CsrMatrix<double> csr = arrow(context, 60000);
  for (const SwitchTarget& format : survey_formats(csr.pattern, Space::host)) {
    const bool cuts = format.spec.entry->traits.shares_rows;
    if (format.spec.entry->id == "csr" || format.spec.entry->id == "coo") { EXPECT_TRUE(cuts); }
    EXPECT_EQ(format.admitted, cuts) << format.spec.name();
    EXPECT_EQ(format.why.find("60000 entries") != std::string::npos, !cuts) << format.why;
  }
}

const CostModel& model() {
  static const CostModel built_in(builtin_machine(BuiltinHost::avx512), Space::host);
  return built_in;
}

TEST(RankFormats, TheChoiceIsTheBestOfThem) {
  const ContextPtr context = Context::host(2);
  const CsrMatrix<double> csr = generate(context, "poisson-3d", {{"n", 40.0}});
  const ChoiceOptions options{.expected_iterations = 10000};
  const std::vector<RankedFormat> ranked = rank_formats(csr.pattern, model(), options);
  ASSERT_GT(ranked.size(), 5u);
  EXPECT_EQ(ranked.front().entry->id, choose_format(csr.pattern, model(), options).id);
  std::set<std::string_view> ids;
  std::size_t known = 0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const RankedFormat& format = ranked[i];
    EXPECT_TRUE(ids.insert(format.entry->id).second) << format.entry->id;
    if (!format.cost.known) continue;  // not measured yet: the next test
    EXPECT_EQ(known++, i) << format.entry->id;
    const PolicyOptions doubts;
    const bool csr_itself = format.entry->id == "csr";
    EXPECT_DOUBLE_EQ(format.total_seconds,
                     (csr_itself ? 0 : doubts.convert_margin * format.cost.convert_seconds) +
                         10000 * format.cost.product_seconds *
                             (csr_itself ? 1 : 1 + doubts.pessimism * format.cost.uncertainty));
    if (i > 0) { EXPECT_GE(format.total_seconds, ranked[i - 1].total_seconds); }
  }
  EXPECT_TRUE(ids.count("csr"));
  EXPECT_GT(known, 5u);
}

// Formats that the table does not know follow the formats that it knows, in the order of the catalogue.
TEST(RankFormats, FormatsWithoutTimesComeLast) {
  const MachineTable table{
      "test", {{"a", Space::host, 1000, 7000, {{"csr", 88004, 1e-5, 0}, {"jad", 88004, 2e-5, 1e-5}}}}};
  const ContextPtr context = Context::host(1);
  const CsrMatrix<double> csr = generate(context, "poisson-2d", {{"n", 50.0}});
  const auto ranked = rank_formats(csr.pattern, CostModel(table, Space::host));
  ASSERT_GT(ranked.size(), 4u);
  EXPECT_EQ(ranked[0].entry->id, "csr");
  EXPECT_EQ(ranked[1].entry->id, "jad");
  std::ptrdiff_t last = -1;
  for (std::size_t i = 2; i < ranked.size(); ++i) {
    EXPECT_FALSE(ranked[i].cost.known) << ranked[i].entry->id;
    const auto place =
        std::find(catalogue().begin(), catalogue().end(), ranked[i].entry) - catalogue().begin();
    EXPECT_GT(place, last);
    last = place;
  }
}

// On a GPU kernels are considered that the table has measured, except those of csr; on a host all of them.
TEST(SurveyFormats, OnADeviceAnotherKernelIsConsideredIfTheTableHasMeasuredIt) {
  const MachineTable table{"test",
                           {{"a",
                             Space::device,
                             1000,
                             7000,
                             {{"csr", 88004, 1e-5, 0},
                              {"csr/cooperative", 88004, 5e-6, 0},
                              {"sell-c-sigma", 88004, 2e-5, 1e-5},
                              {"sell-c-sigma/segments", 88004, 8e-6, 1e-5}}}}};
  const CostModel model(table, Space::device);
  EXPECT_TRUE(model.knows("sell-c-sigma/segments"));
  EXPECT_FALSE(model.knows("sell-c-sigma/other"));
  EXPECT_TRUE(model.may_be_fastest("sell-c-sigma"));
  const auto surveyed = [&](const char* format, const char* kernel, Space space, const CostModel* by) {
    return detail::surveyed({.entry = &find_format(format), .params = {}, .kernel = kernel}, space, by);
  };
  EXPECT_TRUE(surveyed("sell-c-sigma", "", Space::device, &model));
  EXPECT_TRUE(surveyed("sell-c-sigma", "segments", Space::device, &model));
  EXPECT_FALSE(surveyed("sell-c-sigma", "other", Space::device, &model));
  EXPECT_FALSE(surveyed("sell-c-sigma", "segments", Space::device, nullptr));
  EXPECT_TRUE(surveyed("csr", "", Space::device, &model));
  EXPECT_FALSE(surveyed("csr", "cooperative", Space::device, &model));
  EXPECT_TRUE(surveyed("csr", "mkl", Space::host, nullptr));
}

TEST(RankFormats, OfAMatrixWithoutEntriesNothingIsPredicted) {
  const ContextPtr context = Context::host(1);
  CsrBuilder<double> builder(context, 3, 3, 0);
  for (int i = 0; i <= 3; ++i) builder.set_row_ptr(i, 0);
  const CsrMatrix<double> csr = builder.freeze();
  for (const RankedFormat& format : rank_formats(csr.pattern, model()))
    EXPECT_FALSE(format.cost.known) << format.entry->id;
}

TEST(ChooseFormat, FewEntriesStayInCsr) {
  const ContextPtr context = Context::host(1);
  EXPECT_EQ(choose_format(generate(context, "poisson-2d", {{"n", 10.0}}).pattern, model()).id, "csr");
}

TEST(ChooseFormat, AStencilOfManyIterationsIsConvertedAndOneProductIsNot) {
  const ContextPtr context = Context::host(2);
  const CsrMatrix<double> csr = generate(context, "poisson-3d", {{"n", 40.0}});
  const FormatChoice once = choose_format(csr.pattern, model(), {.expected_iterations = 1});
  EXPECT_EQ(once.id, "csr");
  const FormatChoice often = choose_format(csr.pattern, model(), {.expected_iterations = 10000});
  EXPECT_TRUE(often.id == "dia" || often.id == "hdi") << often.id << ": " << often.reason;
  EXPECT_NE(often.reason.find("10000 iterations that saves"), std::string::npos) << often.reason;
  const FormatChoice unknown = choose_format(csr.pattern, model());
  EXPECT_NE(unknown.reason.find("300 iterations (assumed)"), std::string::npos) << unknown.reason;
}

// BiCGStab computes two products an iteration, so it pays for a conversion in half as many iterations as CG.
TEST(ChooseFormat, TwoProductsAnIterationCountTwice) {
  const ContextPtr context = Context::host(2);
  const CsrMatrix<double> csr = generate(context, "poisson-3d", {{"n", 20.0}});
  const auto chosen = [&](std::int64_t iterations, double products) {
    return choose_format(csr.pattern, model(),
                         {.expected_iterations = iterations, .products_per_iteration = products})
        .id;
  };
  int differ = 0;
  for (std::int64_t iterations = 1; iterations < 10000; iterations += 1 + iterations / 4) {
    EXPECT_EQ(chosen(iterations, 2), chosen(2 * iterations, 1)) << iterations;
    differ += chosen(iterations, 2) != chosen(iterations, 1);
  }
  EXPECT_GT(differ, 0);
}

TEST(ChooseFormat, ALongRowIsNotPadded) {
  const ContextPtr context = Context::host(2);
  const FormatChoice choice =
      choose_format(arrow(context, 60000).pattern, model(), {.expected_iterations = 10000});
  EXPECT_EQ(choice.id, "csr") << choice.reason;
}

TEST(ChooseFormat, AnEmptyTableMeansCsr) {
  const MachineTable empty;
  const ContextPtr context = Context::host(1);
  const FormatChoice choice =
      choose_format(generate(context, "poisson-2d", {{"n", 50.0}}).pattern, CostModel(empty, Space::host));
  EXPECT_EQ(choice.id, "csr");
  EXPECT_NE(choice.reason.find("no measurement"), std::string::npos);
}

}  // namespace
}  // namespace protean::test
