// The candidates of the policy and the forecast of iterations, without a solve.
#include "solvers/switcher/candidates.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "solvers/switcher/iteration_forecast.hpp"

namespace protean::detail {
namespace {

SwitchTarget target(std::string_view format, std::size_t bytes = 100) {
  SwitchTarget result;
  result.spec.entry = &find_format(format), result.bytes = bytes;
  return result;
}

// csr, ell and dia in the caller's order, then in rcm. The solve has begun in csr.
Candidates six() {
  Candidates all("lma-atomic");
  for (const char* order : {"none", "rcm"})
    for (const char* format : {"csr", "ell", "dia"}) all.add(target(format), order);
  all.start_in(0, 90);
  return all;
}

TEST(Candidates, HaveNamesOfTheTableAndNamesForPeople) {
  Candidates all = six();
  SwitchTarget elements;
  elements.spec.elements = true;
  all.add(elements, "none");
  EXPECT_EQ(all[4].format, "ell");
  EXPECT_EQ(all[4].seen.name, "ell in order rcm");
  EXPECT_EQ(all[4].target.spec.order, "rcm");
  EXPECT_EQ(all[6].format, "lma-atomic");
  EXPECT_EQ(all.find("dia", "rcm"), 5u);
  EXPECT_EQ(all.find("dia", "amd"), all.size());
  EXPECT_EQ(all[0].seen.bytes, 90u) << "those of the running matrix";
}

TEST(Candidates, OfAnOrderThatFailedAreAllLost) {
  Candidates all = six();
  all.exclude(5, {.reason = Reason::not_in_table});
  all.fail(3, {.reason = Reason::change_failed, .other = "no levels"});
  const std::vector<CandidateRecord> seen = all.records();
  ASSERT_EQ(seen.size(), 6u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(seen[i].lost) << seen[i].format;
  EXPECT_TRUE(seen[3].lost && seen[4].lost);
  EXPECT_NE(seen[4].why.find("csr in order rcm"), std::string::npos) << seen[4].why;
  EXPECT_FALSE(seen[5].lost) << "it could not be chosen anyway";

  Candidates other = six();
  other.fail(1, {.reason = Reason::change_failed, .other = "no room"});
  int lost = 0;
  for (const CandidateRecord& one : other.records()) lost += one.lost;
  EXPECT_EQ(lost, 1) << "in the present order a format fails alone";
}

TEST(Candidates, RememberWhatWasMeasuredInEachOrder) {
  Candidates all = six();
  EXPECT_EQ(all.last_measured_in("none"), all.size());
  all[0].seen.measured = true;
  all.estimates_made();
  all.change_to(4, 70);
  EXPECT_FALSE(all.estimated()) << "estimates are relative to the candidate that runs";
  EXPECT_EQ(all.last_measured_in("none"), 0u);
  EXPECT_EQ(all.last_measured_in("rcm"), all.size());
  EXPECT_FALSE(all.in_first());
  EXPECT_TRUE(all[4].ran);
  EXPECT_EQ(all[4].seen.bytes, 70u);
  all[4].seen.measured = true;
  all.change_to(5, 60);
  all.change_to(0, 90);  // dia was not measured
  EXPECT_EQ(all.last_measured_in("rcm"), 4u);
  EXPECT_FALSE(all[0].seen.measured) << "it is measured anew";
}

TEST(Candidates, AreShownToTheRuleAsTheyAre) {
  Candidates all = six();
  all[1].seen.product_seconds = 2e-3;
  EXPECT_EQ(all.seen().size(), 6u);
  EXPECT_EQ(all.seen()[1].product_seconds, 2e-3);
  all[1].seen.product_seconds = 1e-3;
  EXPECT_EQ(all.seen()[1].product_seconds, 1e-3);
  all.clear();
  EXPECT_TRUE(all.seen().empty());
}

TEST(Candidates, AreRenewedByASurveyUnlessTheyAreLost) {
  Candidates all = six();
  all.lose(4, {.reason = Reason::build_dear, .name = "ell"});
  const std::string why = all[4].seen.why;
  SwitchTarget found = target("ell", 55);
  found.admitted = false, found.why = "too wide";
  all.renew(1, found);
  all.renew(4, found);
  EXPECT_EQ(all[1].seen.why, "too wide");
  EXPECT_EQ(all[4].seen.why, why);
  EXPECT_EQ(all[4].seen.bytes, 55u);
  EXPECT_EQ(all[4].target.spec.order, "rcm");
}

TEST(IterationForecast, FollowsEarlierSolvesUntilHalfOfTheirIterations) {
  IterationForecast forecast;
  AutoSwitchOptions options;
  options.expected_iterations = 100, options.following_iterations = 50;
  forecast.begin(options);
  forecast.add({.iteration = 10, .residual = 1, .relative_residual = 1});
  const Forecast left = forecast.remaining();
  EXPECT_TRUE(left.known);
  EXPECT_EQ(left.likely, 90 + 50);
  EXPECT_EQ(left.low, 45 + 25);
  EXPECT_EQ(left.high, 180 + 200);
  forecast.add({.iteration = 60, .residual = 1, .relative_residual = 1});
  EXPECT_FALSE(forecast.remaining().known) << "the residual has not fallen";
}

TEST(IterationForecast, MeetsTheGoalThatIsReachedFirst) {
  // The norm of the first residual is 100, so an absolute goal of 1 is a relative one of 1e-2.
  const auto left = [](double absolute) {
    IterationForecast forecast;
    AutoSwitchOptions options;
    options.goal = 1e-8, options.absolute_goal = absolute;
    forecast.begin(options);
    forecast.first({.iteration = 0, .residual = 100, .relative_residual = 1});
    double residual = 1;
    for (std::int64_t i = 0; i < 200; ++i, residual *= 0.99)
      forecast.add({.iteration = i, .residual = 100 * residual, .relative_residual = residual});
    return forecast.remaining();
  };
  ASSERT_TRUE(left(0).known && left(1).known);
  EXPECT_LT(left(1).likely, left(0).likely / 4);
}

}  // namespace
}  // namespace protean::detail
