// Artificial matrices have the features that were requested, or the request is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "core/statistics.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

// The mean distance from the first to the last entry of a row, divided by the number of columns.
double mean_span(const SparsityPattern& p) {
  double sum = 0;
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    if (p.row_length(i) == 0) continue;
    sum += p.row(i).back() - p.row(i).front() + 1;
    ++rows;
  }
  return rows > 0 ? sum / static_cast<double>(rows) / static_cast<double>(p.cols) : 0;
}

bool near(double got, double wanted, double relative, double absolute = 0) {
  return std::fabs(got - wanted) <= relative * std::fabs(wanted) + absolute;
}

// Not every combination of features is possible. An entry of a row of k entries has at most 2 (k - 1) / k
// neighbours. And k random columns in a window of w have 2 k / w neighbours by chance. This is a mean over
// entries, not over rows, so the long rows of a large skew count most.
bool possible(double mean, double skew, double neighbours, double window) {
  const double by_chance = 2 * mean * (1 + skew) / (skew > 0 ? 2 : 1) / window;
  return neighbours <= 0.85 * 2 * (mean - 1) / mean && by_chance <= 0.5 * neighbours;
}

TEST(Artificial, HasTheFeaturesThatWereAskedForOverAGrid) {
  constexpr double rows = 4000;
  const ContextPtr one_thread = Context::host(1);  // small matrices; threads would only wait for each other
  int settings = 0, apart = 0;
  for (const double mean : {5.0, 10.0, 20.0, 30.0})
    for (const double skew : {0.0, 6.0, 12.0})
      for (const double similarity : {0.2, 0.5, 0.85})
        for (const double neighbours : {0.2, 0.5, 0.95, 1.4})
          for (const double bandwidth : {0.3, 0.6}) {
            if (!possible(mean, skew, neighbours, bandwidth * rows)) continue;
            const CsrMatrix<double> A = generate(one_thread, "artificial",
                                                 {{"n", rows},
                                                  {"mean", mean},
                                                  {"deviation", skew > 0 ? 0.0 : 0.2 * mean},
                                                  {"skew", skew},
                                                  {"similarity", similarity},
                                                  {"neighbours", neighbours},
                                                  {"bandwidth", bandwidth}});
            const Statistics s = statistics(*one_thread, A.pattern);
            ++settings;
            EXPECT_NEAR(s.mean, mean, 1e-3 * mean);
            if (skew > 0) {
              EXPECT_TRUE(near(s.features.skew, skew, 0.01, 1 / mean)) << s.features.skew << " for " << skew;
            } else {
              EXPECT_TRUE(near(s.deviation, 0.2 * mean, 0.05, 0.5)) << s.deviation << " for " << 0.2 * mean;
            }
            const bool good = near(s.features.cross_row_similarity, similarity, 0.05) &&
                              near(s.features.neighbours, neighbours, 0.05);
            apart += !good;
            EXPECT_TRUE(good) << "mean " << mean << " skew " << skew << " bandwidth " << bandwidth
                              << ": similarity " << s.features.cross_row_similarity << " for " << similarity
                              << ", neighbours " << s.features.neighbours << " for " << neighbours;
            if (skew == 0 && neighbours < 0.9 && mean >= 10) {
              EXPECT_TRUE(near(mean_span(A.pattern), bandwidth, 0.25)) << mean_span(A.pattern);
            }
          }
  EXPECT_GE(settings, 200);
  EXPECT_EQ(apart, 0) << "of " << settings;
}

TEST(Artificial, IsTheSameForAnyNumberOfThreads) {
  const GeneratorParams params{{"n", 5000}, {"mean", 7.5}, {"deviation", 3}, {"skew", 20}, {"seed", 3}};
  const CsrMatrix<double> one = generate(Context::host(1), "artificial", params);
  EXPECT_TRUE(identical(one, generate(Context::host(2), "artificial", params)));
  EXPECT_TRUE(identical(one, generate(Context::host(3), "artificial", params)));
  EXPECT_EQ(one.nonzeros(), 37500);
  validate_sorted(*test_context(), one.pattern);
  GeneratorParams other = params;
  other["seed"] = 4;
  EXPECT_FALSE(same_pattern(one.pattern, generate(Context::host(1), "artificial", other).pattern));
}

// Lengths vary about the part that the skew gives; the longest row is exact all the same.
TEST(Artificial, TheLongestRowIsAsLongAsTheSkewSaysWhateverTheDeviation) {
  for (int seed = 0; seed < 20; ++seed) {
    const CsrMatrix<double> A =
        generate(test_context(), "artificial",
                 {{"n", 20}, {"cols", 200}, {"mean", 10}, {"deviation", 20}, {"skew", 10}, {"seed", seed}});
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < A.rows(); ++i) longest = std::max(longest, A.pattern.row_length(i));
    EXPECT_EQ(longest, 10 * (1 + 10)) << "seed " << seed;
    EXPECT_EQ(A.nonzeros(), 200) << "seed " << seed;
  }
}

TEST(Artificial, TakesRectanglesGammasAndCrowdedWindows) {
  for (const GeneratorParams& params :
       {GeneratorParams{{"n", 300}, {"cols", 40}, {"mean", 39}, {"bandwidth", 0.01}},
        GeneratorParams{{"n", 2000}, {"cols", 9000}, {"mean", 12}, {"deviation", 12}, {"distribution", 1}},
        GeneratorParams{{"n", 1}, {"mean", 1}}, GeneratorParams{{"n", 50}, {"mean", 0}},
        GeneratorParams{{"n", 1000}, {"mean", 4}, {"placement", 0}, {"bandwidth", 0.1}}}) {
    const CsrMatrix<double> A = generate(test_context(), "artificial", params);
    validate_sorted(*test_context(), A.pattern);
    EXPECT_EQ(A.nonzeros(), std::llround(params.at("mean") * params.at("n")));
  }
}

TEST(Artificial, RefusesWhatCannotBe) {
  EXPECT_THROW((void)generate(test_context(), "artificial", {{"n", 10}, {"mean", 11}}), BadArgument);
  EXPECT_THROW((void)generate(test_context(), "artificial", {{"n", 100}, {"mean", 10}, {"skew", 10}}),
               BadArgument);
}

}  // namespace
}  // namespace protean::test
