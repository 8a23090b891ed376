// Changes of storage format, and of the order of the rows, at given points of a solve.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/operators/matrix/matrix.hpp>
#include <protean/solvers/schedule.hpp>
#include <protean/solvers/solver.hpp>

namespace PROTEAN_EXPORT protean {

// The observer that carries out a schedule in one solve: give it to Solver::solve() with the operator, and
// call finish() afterwards. Points are independent of each other, and each is carried out once. If a point
// becomes due while the build of another is running, that build is cancelled. Points at an iteration are
// exact, also on a device. Residuals and seconds are noticed there some iterations late, and an overlapped
// change takes effect with the next steps that are recorded.
template <class T>
class FormatSchedule final : public SolveObserver {
 public:
  // A must outlive this object. `next`, if given, is called first in each iteration. `on_event` is called
  // with each event when it happens, except not_reached. Throws BadArgument for a point without format and
  // order, or whose `at` is negative or NaN.
  FormatSchedule(Matrix<T>& A, std::vector<SchedulePoint> points, SolveObserver* next = nullptr,
                 std::function<void(const ScheduleEvent&)> on_event = {});

  bool on_iteration(const IterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;

  // To be called after the solve: cancels a running build and records the points that were not reached.
  void finish();

  const std::vector<ScheduleEvent>& events() const noexcept { return events_; }

 private:
  using Action = ScheduleEvent::Action;
  void take(const SchedulePoint& point);
  void adopt_when_ready();
  void add(Action action, std::string to, std::string reason);
  // Adds the failures that the operator has recorded since the last call.
  void add_failures();

  Matrix<T>& A_;
  std::vector<SchedulePoint> points_;  // not yet carried out
  SolveObserver* next_;
  std::function<void(const ScheduleEvent&)> on_event_;
  IterationInfo info_;
  std::size_t failures_seen_;
  std::vector<ScheduleEvent> events_;
};

}  // namespace protean
