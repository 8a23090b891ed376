// The observer that changes the format at given points.
#include <algorithm>
#include <cmath>
#include <thread>

#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "solvers/format_schedule.hpp"
#include "solving.hpp"

namespace protean::test {
namespace {

using Action = ScheduleEvent::Action;

class Schedule : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam());
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = matrix_of(test_context(), system_);
    source_ = placed(context_, csr_);
    A_ = std::make_unique<Matrix<double>>(source_, make_matrix(find_format("csr"), source_, context_));
  }
  static SchedulePoint point(ScheduleTrigger trigger, double at, const FormatEntry& to, bool overlapped) {
    return {.trigger = trigger, .at = at, .to = spec_of(to), .overlapped = overlapped};
  }
  Solved solve(FormatSchedule<double>& schedule) {
    const Solved solved = solve_with(*A_, csr_, system_, &schedule);
    schedule.finish();
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
    return solved;
  }
  static std::vector<Action> actions(const FormatSchedule<double>& schedule) {
    std::vector<Action> list;
    for (const ScheduleEvent& event : schedule.events()) list.push_back(event.action);
    return list;
  }

  const SwitchedSystem& system_ = switched_systems[0];
  ContextPtr context_;
  CsrMatrix<double> csr_, source_;
  std::unique_ptr<Matrix<double>> A_;
};
INSTANTIATE_TEST_SUITE_P(All, Schedule, testing::Values(Space::host, Space::device),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(Schedule, BlockingPointsAreExact) {
  FormatSchedule<double> schedule(*A_,
                                  {point(ScheduleTrigger::iteration, 21, find_format("ell"), false),
                                   point(ScheduleTrigger::iteration, 3, find_format("sell-c-sigma"), false),
                                   point(ScheduleTrigger::iteration, 0, find_format("coo"), false)});
  EXPECT_EQ(schedule.next_stop(), 0);
  solve(schedule);
  ASSERT_EQ(A_->history().size(), 3u);
  EXPECT_EQ(A_->history()[0].iteration, 0);
  EXPECT_EQ(A_->history()[0].to, "coo");
  EXPECT_EQ(A_->history()[1].iteration, 3);
  EXPECT_EQ(A_->history()[2].iteration, 21);
  EXPECT_EQ(A_->history()[2].to, "ell");
  EXPECT_FALSE(A_->history()[2].overlapped);
  EXPECT_EQ(A_->history()[2].reason, "at_iteration 21");
  EXPECT_EQ(actions(schedule), (std::vector<Action>(3, Action::switched)));
}

TEST_P(Schedule, PointsAtResidualsAndSeconds) {
  std::vector<ScheduleEvent> reported;
  FormatSchedule<double> schedule(*A_,
                                  {point(ScheduleTrigger::residual, 1e-3, find_format("ell"), false),
                                   point(ScheduleTrigger::seconds, 0, find_format("coo"), false),
                                   point(ScheduleTrigger::seconds, 1e6, find_format("csc"), false),
                                   point(ScheduleTrigger::iteration, 100000, find_format("csc"), true)},
                                  nullptr, [&](const ScheduleEvent& event) { reported.push_back(event); });
  solve(schedule);
  EXPECT_EQ(actions(schedule), (std::vector<Action>{Action::switched, Action::switched, Action::not_reached,
                                                    Action::not_reached}));
  EXPECT_EQ(reported.size(), 2u) << "points that were not reached are not reported";
  EXPECT_EQ(schedule.events()[0].to, "coo");
  EXPECT_EQ(schedule.events()[0].iteration, 0);
  EXPECT_EQ(schedule.events()[1].to, "ell");
  EXPECT_LE(schedule.events()[1].relative_residual, 1e-3);
  EXPECT_GT(schedule.events()[1].relative_residual, 1e-5);
  EXPECT_GT(schedule.events()[1].iteration, 0);
}

TEST_P(Schedule, OverlappedBuildsBeginAtThePointAndAreAdoptedLater) {
  // Waits in an iteration until the build is ready.
  struct Patient final : SolveObserver {
    Matrix<double>& A;
    explicit Patient(Matrix<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 12) (void)A.wait_prepared();
      return true;
    }
  } patient(*A_);
  FormatSchedule<double> schedule(
      *A_, {point(ScheduleTrigger::iteration, 4, find_format("sell-c-sigma"), true)}, &patient);
  solve(schedule);
  EXPECT_EQ(actions(schedule), (std::vector<Action>{Action::begun, Action::switched}));
  ASSERT_EQ(A_->history().size(), 1u);
  EXPECT_TRUE(A_->history()[0].overlapped);
  EXPECT_EQ(A_->history()[0].begun_iteration, 4);
  EXPECT_GE(A_->history()[0].iteration, 4);
  EXPECT_LE(A_->history()[0].iteration, 12);
}

TEST_P(Schedule, FailuresAreReportedAndTheSolveGoesOn) {
  FormatSchedule<double> schedule(*A_, {point(ScheduleTrigger::iteration, 1, refusing_format(), false),
                                        point(ScheduleTrigger::iteration, 2, wrong_format(), false),
                                        point(ScheduleTrigger::iteration, 3, find_format("csr"), false),
                                        point(ScheduleTrigger::iteration, 4, endless_format(), true),
                                        point(ScheduleTrigger::iteration, 6, find_format("csr"), true),
                                        point(ScheduleTrigger::iteration, 7, endless_format(), true)});
  solve(schedule);
  EXPECT_EQ(actions(schedule),
            (std::vector<Action>{Action::failed, Action::failed, Action::stayed, Action::begun,
                                 Action::failed, Action::stayed, Action::begun, Action::failed}));
  EXPECT_TRUE(A_->history().empty());
  EXPECT_NE(schedule.events()[0].reason.find("it refuses everything"), std::string::npos)
      << schedule.events()[0].reason;
  EXPECT_NE(schedule.events()[7].reason.find("the solve ended"), std::string::npos)
      << schedule.events()[7].reason;
}

TEST_P(Schedule, FailuresFromBeforeTheScheduleAreNotReported) {
  EXPECT_FALSE(A_->switch_to(spec_of(refusing_format()), 0));
  ASSERT_EQ(A_->failures().size(), 1u);
  FormatSchedule<double> schedule(*A_, {point(ScheduleTrigger::iteration, 3, find_format("ell"), false)});
  solve(schedule);
  EXPECT_EQ(actions(schedule), (std::vector<Action>{Action::switched}));
}

TEST_P(Schedule, AnInterruptedSolveEndsAtOnceAlsoWhileAFormatIsPrepared) {
  struct Impatient final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override { return info.iteration < 5; }
  } impatient;
  const int outlasted = endless_builds_outlasted();
  {
    FormatSchedule<double> schedule(*A_, {point(ScheduleTrigger::iteration, 2, endless_format(), true)},
                                    &impatient);
    const Solved solved = solve_with(*A_, csr_, system_, &schedule);
    EXPECT_EQ(solved.report.reason, StopReason::interrupted);
    A_.reset();  // as when an exception ends the program's solve
  }
  EXPECT_EQ(endless_builds_outlasted(), outlasted);
}

TEST_P(Schedule, BrokenPointsAreErrors) {
  const auto nan = std::nan("");
  EXPECT_THROW(FormatSchedule<double>(*A_, {SchedulePoint{}}), BadArgument);
  EXPECT_THROW(FormatSchedule<double>(*A_, {point(ScheduleTrigger::seconds, nan, find_format("ell"), true)}),
               BadArgument);
  EXPECT_THROW(FormatSchedule<double>(*A_, {point(ScheduleTrigger::iteration, -1, find_format("ell"), true)}),
               BadArgument);
}

}  // namespace
}  // namespace protean::test
