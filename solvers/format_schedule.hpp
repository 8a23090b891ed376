// Changes of storage format, and of the order of the rows, at given points of a solve.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/solvers/solver.hpp>

namespace PROTEAN_EXPORT protean {

// The condition of a point of a schedule.
enum class ScheduleTrigger : unsigned char {
  iteration,  // iteration >= at
  residual,   // relative residual (of the recurrence) <= at
  seconds     // seconds since the solve began >= at
};
// "at_iteration", "at_residual", "after_seconds": as in the problem file.
std::string_view to_string(ScheduleTrigger trigger) noexcept;

struct SchedulePoint {
  ScheduleTrigger trigger = ScheduleTrigger::iteration;
  double at = 0;
  FormatSpec to;
  // True: the matrix is built beside the solve and adopted when it is ready. False: the solve waits for it.
  bool overlapped = true;
};

// What happened to the points of the schedule, in order of time.
struct ScheduleEvent {
  enum class Action : unsigned char {
    begun,       // a build beside the solve began
    switched,    // the solve continues in the new format
    stayed,      // the matrix had this format (and order) already
    failed,      // refused, out of memory, wrong product or cancelled: the solve continues in the old format
    not_reached  // the solve ended before the point
  } action = Action::begun;
  std::int64_t iteration = 0;
  double seconds = 0, relative_residual = 0;  // of the solve at that time
  std::string to;                             // FormatSpec::name()
  std::string reason;                         // the point, or the reason of a failure
};
std::string_view to_string(ScheduleEvent::Action action) noexcept;

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
  FormatSchedule(AdaptiveOperator<T>& A, std::vector<SchedulePoint> points, SolveObserver* next = nullptr,
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

  AdaptiveOperator<T>& A_;
  std::vector<SchedulePoint> points_;  // not yet carried out
  SolveObserver* next_;
  std::function<void(const ScheduleEvent&)> on_event_;
  IterationInfo info_;
  std::size_t failures_seen_;
  std::vector<ScheduleEvent> events_;
};

}  // namespace protean
