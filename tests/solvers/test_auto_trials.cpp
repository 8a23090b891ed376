// What the policy learns from a change: trials of a new format, ways back, and builds that fail or are cancelled.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "operators/matrix/matrix.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/live_switcher.hpp"

namespace protean::test {
namespace {

TEST(AutoSwitcher, GoesBackFromASlowFormatAndDoesNotTryItAgain) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&slow});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 2U);
  EXPECT_EQ(live.A.history()[0].to, "slow");
  EXPECT_EQ(live.A.history()[1].to, "csr");
  EXPECT_TRUE(of(switcher->candidates(), "slow").lost);
}

// After a change the next decision comes when the trial is over, and not with the growing intervals. A format that is
// far slower than promised has a second trial: by then it is known to be slow.
TEST(AutoSwitcher, DecidesAgainWhenTheTrialIsOver) {
  for (const int trial : {8, 13}) {
    Live live;
    live.options.policy.overlapped = false, live.options.policy.trial_products = trial;
    const auto switcher = live.switcher({&slow});
    live.solve(*switcher);
    switcher->finish();
    ASSERT_EQ(live.A.history().size(), 2U);
    EXPECT_EQ(live.A.history()[1].to, "csr");
    EXPECT_EQ(live.A.history()[1].iteration - live.A.history()[0].iteration, 2 * trial);
  }
}

// Other work on the machine that slows the first products of a new format does not make the policy give it up.
TEST(AutoSwitcher, ADisturbedTrialIsMadeAgain) {
  Live live;
  live.options.policy.overlapped = false;
  struct Disturbance final : SolveObserver {
    const Matrix<double>& A;
    int products = 0;
    explicit Disturbance(const Matrix<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo&) override {
      delay = !A.history().empty() && products++ < 7 ? 20000 : 0;
      return true;
    }
  } disturbance(live.A);
  const auto switcher = live.switcher({&fast}, &disturbance);
  live.solve(*switcher);
  switcher->finish();
  delay = 0;
  ASSERT_EQ(live.A.history().size(), 1U) << "it went back";
  EXPECT_EQ(live.A.history()[0].to, "fast");
  EXPECT_GE(disturbance.products, 16);
}

// The solve stays in the slow format, since nothing else is left; it does not try to go back with each decision.
TEST(AutoSwitcher, AWayBackThatFailsIsTriedOnce) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&slow});
  start_cannot_be_built = true;
  live.solve(*switcher);
  start_cannot_be_built = false;
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to, "slow");
  ASSERT_EQ(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].to, "csr");
  EXPECT_NE(live.A.failures()[0].why.find("it is gone"), std::string::npos) << live.A.failures()[0].why;
}

// What the first build took beside its prediction is expected of the next ones: here less, and more.
TEST(AutoSwitcher, AMeasuredConversionCorrectsThePredictionsOfOthers) {
  for (const double convert : {1.0, 0.5}) {
    Live live;
    live.options.policy.overlapped = false;
    // A product of `fast` takes what the table promises, so that the unit of the predictions stays the product of csr.
    live.promise = 0.05, live.convert = convert;
    const auto switcher = live.switcher({&fast, &slow});
    double before = 0, after = 0, predicted = 0;
    for (std::int64_t k = 0; k < 300 && after == 0; ++k) {
      live.A.apply(live.b, live.x);
      iterate(*switcher, k, 0.97);
      if (switcher->candidates().empty()) continue;
      const double now = of(switcher->candidates(), "slow").predicted_convert;
      if (live.A.history().empty()) continue;
      // The predictions are those before the change until the next decision, after the trial.
      if (const std::int64_t since = k - live.A.history()[0].iteration; since == 0)
        before = now, predicted = of(switcher->candidates(), "fast").predicted_convert;
      else if (since > live.options.policy.trial_products)
        after = now;
    }
    ASSERT_EQ(live.A.history().size(), 1U);
    EXPECT_EQ(live.A.history()[0].to, "fast");
    ASSERT_GT(before, 0);
    const double measured = live.A.history()[0].convert_seconds;
    EXPECT_GT(std::abs(measured / predicted - 1), 0.1) << "the prediction must have been wrong";
    EXPECT_NEAR(after / before, measured / predicted, 0.02 * measured / predicted) << convert;
    switcher->finish();
  }
}

TEST(AutoSwitcher, ABrokenBuildIsRememberedAndTheNextBestTaken) {
  for (const bool overlapped : {false, true}) {
    Live live;
    live.options.policy.overlapped = overlapped;
    const auto switcher = live.switcher({&broken, &fast}, &live.patient);
    live.solve(*switcher);
    switcher->finish();
    ASSERT_EQ(live.A.failures().size(), 1U);
    EXPECT_EQ(live.A.failures()[0].order, "") << "the order was to stay";
    EXPECT_TRUE(of(switcher->candidates(), "broken").lost);
    EXPECT_NE(of(switcher->candidates(), "broken").why.find("no luck"), std::string::npos);
    ASSERT_FALSE(live.A.history().empty());
    EXPECT_EQ(live.A.history()[0].to, "fast");
  }
}

TEST(AutoSwitcher, ABuildThatDoesNotEndIsCancelledWithTheSolve) {
  Live live;
  live.options.policy.overlapped = true;
  const auto switcher = live.switcher({&endless});
  live.solve(*switcher);
  switcher->finish();
  EXPECT_TRUE(live.A.history().empty());
  ASSERT_EQ(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].failure, SwitchFailure::cancelled);
  EXPECT_EQ(live.A.preparation(), Preparation::none);
}

// The next build is likely to be slowed down like the cancelled one.
TEST(AutoSwitcher, AfterACancelledBuildConversionsAreExpectedToTakeTwiceAsLong) {
  Live live;
  live.options.policy.overlapped = true;
  const auto switcher = live.switcher({&endless, &fast});
  const auto expected = [&] { return of(switcher->candidates(), "fast").predicted_convert; };
  double before = 0, after = 0;
  for (std::int64_t k = 0; k < 400 && after == 0; ++k) {
    live.A.apply(live.b, live.x);
    const bool building = live.A.preparation() == Preparation::running;
    if (building) microseconds += 10000;  // the build slows the solve down more than was expected
    iterate(*switcher, k, 0.97);
    if (switcher->candidates().empty()) continue;
    while (live.A.abandoned()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (live.A.failures().empty()) before = expected();
    if (!live.A.failures().empty() && expected() != before) after = expected();
  }
  ASSERT_EQ(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].failure, SwitchFailure::cancelled);
  EXPECT_TRUE(of(switcher->candidates(), "endless").lost);
  EXPECT_GT(before, 0);
  EXPECT_NEAR(after / before, 2, 1e-6);
  switcher->finish();
}

// The change to the format that is a little slower costs so little that another one may follow; the change back
// does not count.
TEST(AutoSwitcher, ChangesAreCounted) {
  for (const int most : {1, 2}) {
    Live live;
    live.options.policy.overlapped = false;
    live.options.policy.most_switches = most;
    const auto switcher = live.switcher({&slower, &fast});
    live.solve(*switcher);
    switcher->finish();
    std::vector<std::string> changes;
    for (const SwitchRecord& change : live.A.history()) changes.push_back(change.to);
    if (most == 1) {
      EXPECT_EQ(changes, (std::vector<std::string>{"slower", "csr"}));
      EXPECT_NE(switcher->decisions().back().reason.find(
                    "has been changed 1 time, the largest number allowed; ways back"),
                std::string::npos)
          << switcher->decisions().back().reason;
    } else {
      EXPECT_EQ(changes, (std::vector<std::string>{"slower", "csr", "fast"}));
    }
  }
}

// The same time is predicted for both, so after a change to one of them the other gains nothing.
TEST(AutoSwitcher, AfterAChangePredictionsAreRelativeToTheNewFormat) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&fast, &slow});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to, "fast");
}

}  // namespace
}  // namespace protean::test
