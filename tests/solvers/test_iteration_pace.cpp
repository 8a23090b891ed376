// The time of an iteration from the times of the reports: one by one, or in the bursts of a device.
#include "solvers/iteration_pace.hpp"

#include <gtest/gtest.h>

#include "solvers/switcher/time_account.hpp"

namespace protean {
namespace {

// A burst of `count` iterations that take `each` seconds. The report of each takes a microsecond.
void burst(IterationPace& pace, int count, double each) {
  pace.add(count * each);
  for (int i = 1; i < count; ++i) pace.add(1e-6);
}

TEST(IterationPace, NothingIsKnownAtFirst) { EXPECT_EQ(IterationPace(false).seconds(), 0); }

TEST(IterationPace, OneByOneIsTheMedianOfMeans) {
  IterationPace pace(false);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(pace.add(i == 50 ? 1.0 : 0.002));
  EXPECT_DOUBLE_EQ(pace.seconds(), 0.002);
}

// Other work takes the processor in two of three iterations. Medians and means contain it, a product does not.
TEST(IterationPace, InterruptionsDoNotCountInWhatIsComparedWithProducts) {
  IterationPace pace(false);
  EXPECT_EQ(pace.undisturbed(), 0);
  for (int i = 0; i < 100; ++i) {
    pace.add(i % 3 != 0 ? 1.0 : 0.002);
    EXPECT_DOUBLE_EQ(pace.undisturbed(), 0.002) << i;
  }
  EXPECT_GT(pace.seconds(), 0.2);
  pace.clear();
  pace.add(0.001);
  EXPECT_DOUBLE_EQ(pace.undisturbed(), 0.001);
}

TEST(IterationPace, AfterAChangeTheNewFormatAloneCounts) {
  IterationPace pace(false);
  for (int i = 0; i < 40; ++i) pace.add(0.002);
  pace.clear();
  EXPECT_EQ(pace.seconds(), 0);
  EXPECT_TRUE(pace.add(0.001));
  EXPECT_DOUBLE_EQ(pace.seconds(), 0.001);
}

TEST(IterationPace, BurstsCountWhole) {
  // In the middle of a burst of any length, with one slow burst among them.
  for (const int length : {16, 18, 50}) {
    IterationPace pace(true);
    for (int k = 0; k < 9; ++k) burst(pace, length, k == 4 ? 0.02 : 0.002);
    for (int i = 0; i < length / 2; ++i) {
      pace.add(i == 0 ? 0.002 * length : 1e-6);
      EXPECT_NEAR(pace.seconds(), 0.002, 2e-5) << length << " " << i;
    }
  }
}

TEST(IterationPace, IterationsComputedBeforeTheChangeDoNotCount) {
  IterationPace pace(true);
  for (int k = 0; k < 5; ++k) burst(pace, 16, 0.002);
  pace.clear();
  // The rest of the burst that was being reported, and of the one that was being computed.
  for (int i = 0; i < 27; ++i) EXPECT_FALSE(pace.add(1e-6));
  for (int k = 0; k < 5; ++k) burst(pace, 16, 0.001);
  EXPECT_NEAR(pace.seconds(), 0.001, 1e-5);
}

TEST(IterationPace, OnlyAWaitAsLongAsTwoIterationsEndsTheBurstFromBeforeAChange) {
  IterationPace pace(true);
  for (int k = 0; k < 5; ++k) burst(pace, 16, 0.002);
  for (int change = 0; change < 2; ++change) {
    pace.clear();
    EXPECT_FALSE(pace.add(0.0039)) << change;
    EXPECT_EQ(pace.seconds(), 0);
    EXPECT_TRUE(pace.add(0.0041)) << change;
    for (int i = 0; i < 15; ++i) pace.add(1e-6);
    for (int k = 0; k < 5; ++k) burst(pace, 16, 0.002);
  }
}

TEST(IterationPace, AfterEachChangeIterationsAreSkippedAgain) {
  IterationPace pace(true);
  for (int change = 0; change < 3; ++change) {
    for (int i = 0; i < 100; ++i) pace.add(0.002);
    pace.clear();
    int skipped = 0;
    while (!pace.add(0.002) && skipped < 100) ++skipped;
    EXPECT_NEAR(skipped, 6, 1) << "up to three times a wait of two iterations, change " << change;
  }
}

TEST(IterationPace, ADeviceWithoutBurstsIsCountedAgainSoonAfterAChange) {
  IterationPace pace(true);
  for (int i = 0; i < 100; ++i) pace.add(0.002);
  EXPECT_DOUBLE_EQ(pace.seconds(), 0.002);
  pace.clear();
  int skipped = 0;
  while (!pace.add(0.001) && skipped < 1000) ++skipped;
  EXPECT_LE(skipped, 12);
  for (int i = 0; i < 600; ++i) pace.add(0.001);
  EXPECT_NEAR(pace.seconds(), 0.001, 1e-9);
}

// A device that reports no bursts: 256 iterations are one mean.
TEST(IterationPace, ALongRowOfReportsIsOneMean) {
  IterationPace pace(true);
  for (int i = 0; i < 256; ++i) pace.add(0.001);
  pace.add(0.005);
  EXPECT_NEAR(pace.seconds(), 0.001, 1e-9);
}

TEST(TimeAccount, OfADeviceIsNotAheadOfTheClock) {
  detail::TimeAccount account(true, 0);
  EXPECT_EQ(account.since_change(), 0);
  account.begin(1, 1), account.leave(1, 1);
  account.charge(3, true, true);
  account.pause(0.5);
  EXPECT_DOUBLE_EQ(account.elapsed(3.2), 3.2) << "the reported iterations may still have run";
  EXPECT_DOUBLE_EQ(account.elapsed(9), 3.5) << "1 s before, 2 s of iterations, 0.5 s of pause";
}

// What a recording takes after a change back to the first format is spent, would not have been spent without changes,
// and is no time of an iteration.
TEST(TimeAccount, RecordingsAfterAChangeAreNotOfTheFirstFormat) {
  for (const double recorded : {0.0, 7.0}) {
    detail::TimeAccount account(true, 0);
    double now = 0;
    account.begin(now, 0), account.leave(now, now);
    const auto bursts = [&](int count, double before) {
      for (int k = 0; k < count; ++k)
        for (int i = 0; i < 16; ++i) {
          const double recording = k == 0 && i == 0 ? before : 0;
          now += recording + (i == 0 ? 16.0 : 0.0);
          account.charge(now, true, true, recording), account.leave(now, now);
        }
    };
    bursts(4, 0);
    account.changed();
    bursts(4, recorded);
    EXPECT_NEAR(account.elapsed(now), 128 + recorded, 1e-9);
    EXPECT_NEAR(account.stay_seconds(), 128, 1e-9);
    EXPECT_NEAR(account.pace(), 1, 1e-9);
    EXPECT_NEAR(account.first_pace(), 1, 1e-9);
  }
}

TEST(TimeAccount, CountsAnewAfterABuildAChangeAndInAnotherSolve) {
  for (const int what : {0, 1, 2}) {
    detail::TimeAccount account(false, 0);
    account.begin(0, 0), account.leave(0, 0);
    for (int i = 1; i <= 8; ++i) account.charge(i, true, true), account.leave(i, i);
    EXPECT_EQ(account.since_change(), 8);
    EXPECT_DOUBLE_EQ(account.pace(), 1);
    if (what == 0) account.disturbed();
    if (what == 1) account.changed();
    if (what == 2) account.end(8), account.begin_another(10);
    EXPECT_EQ(account.since_change(), 0) << what;
    EXPECT_DOUBLE_EQ(account.pace(), what == 0 ? 1 : 0) << what;
    EXPECT_DOUBLE_EQ(account.first_pace(), 1) << what;
  }
}

TEST(IterationPace, OfALongSolveIsThatOfItsLastIterations) {
  IterationPace pace(false);
  for (int i = 0; i < 1000; ++i) pace.add(0.002);
  for (int i = 0; i < 1000; ++i) pace.add(0.001);
  EXPECT_DOUBLE_EQ(pace.seconds(), 0.001);
}

}  // namespace
}  // namespace protean
