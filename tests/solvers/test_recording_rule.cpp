// The counts by which the steps of a solve on a GPU become a graph, and how many steps are queued together before.
#include <algorithm>

#include "gtest/gtest.h"
#include "solvers/recording_rule.hpp"

namespace protean::test {
namespace {

using detail::RecordingRule;

// How many steps a solve queues before it wants a graph of so many steps.
std::int64_t alone(RecordingRule& rule, std::int64_t graph, bool recorded) {
  std::int64_t steps = 0;
  for (; !rule.graph_pays(graph, recorded); ++steps) rule.queued(1);
  return steps;
}

TEST(RecordingRules, ASolveRecordsWhenItHasBecomeLong) {
  RecordingRule rule;
  rule.begin_solve(false, 0);
  EXPECT_EQ(alone(rule, 16, false), 64);
  rule.recorded();
  EXPECT_TRUE(rule.graph_pays(16, false)) << "after a change in the middle of this solve";
  rule.begin_solve(false, 0);
  EXPECT_EQ(alone(rule, 30, false), 120);
}

TEST(RecordingRules, TheLastSolveSaysHowLongTheNextOneMayBecome) {
  RecordingRule rule;
  rule.begin_solve(false, 200);
  EXPECT_EQ(alone(rule, 16, false), 0);
  // A graph that is there runs to its end, so a solve that may end within it does without.
  rule.begin_solve(false, 8);
  EXPECT_EQ(alone(rule, 16, true), 16);
  rule.begin_solve(false, 20);
  EXPECT_EQ(alone(rule, 16, true), 0);
  rule.begin_solve(false, 20);
  EXPECT_EQ(alone(rule, 16, false), 64);
}

TEST(RecordingRules, WhoAsksForGraphsGetsThemAtOnce) {
  RecordingRule rule;
  rule.begin_solve(true, 0);
  EXPECT_TRUE(rule.graph_pays(256, false));
}

// Pieces end where a period begins if that is near, never behind the limit, and all steps are done at last.
TEST(RecordingRules, PiecesEndWhereAGraphCanBegin) {
  for (std::int64_t period = 1; period <= 7; ++period)
    for (std::int64_t first = 0; first < period; ++first)
      for (std::int64_t limit = 1; limit <= 30; ++limit) {
        std::int64_t phase = first, left = limit;
        while (left > 0) {
          const std::int64_t steps = RecordingRule::piece(phase, period, left);
          ASSERT_GE(steps, 1);
          ASSERT_LE(steps, std::min<std::int64_t>(left, 2));
          if (period > 1) { ASSERT_LE(phase + steps, period); }
          phase = (phase + steps) % period, left -= steps;
        }
      }
  EXPECT_EQ(RecordingRule::piece(0, 1, 100), 2);
  EXPECT_EQ(RecordingRule::piece(1, 2, 100), 1);
  EXPECT_EQ(RecordingRule::piece(4, 5, 100), 1);
  EXPECT_EQ(RecordingRule::piece(0, 2, 100), 2);
}

}  // namespace
}  // namespace protean::test
