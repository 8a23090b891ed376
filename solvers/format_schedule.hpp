// Changes of storage format at points of a solve that were named beforehand.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <protean/operators/adaptive_operator.hpp>
#include <protean/solvers/solver.hpp>

namespace protean {

// What a point of a schedule waits for.
enum class ScheduleTrigger : unsigned char {
  iteration,  // this iteration
  residual,   // a relative residual (of the recurrence) of this or less
  seconds     // so many seconds since the solve began
};
// "at_iteration", "at_residual", "after_seconds": as in the problem file.
std::string_view to_string(ScheduleTrigger trigger) noexcept;

struct SchedulePoint {
  ScheduleTrigger trigger = ScheduleTrigger::iteration;
  double at = 0;
  FormatSpec to;
  // Built beside the solve from there on and adopted when ready; else the solve waits for it there.
  bool overlapped = true;
};

// What became of the schedule, in the order it happened.
struct ScheduleEvent {
  enum class Action : unsigned char {
    begun,       // a preparation beside the solve
    switched,    // the solve goes on in the new format
    stayed,      // the matrix had this format already
    failed,      // refused, out of memory, wrong, cancelled: the solve goes on as it was
    not_reached  // the solve ended before
  } action = Action::begun;
  std::int64_t iteration = 0;
  double seconds = 0, relative_residual = 0;  // of the solve, then
  std::string to;                             // FormatSpec::name()
  std::string reason;                         // the point, or why not
};
std::string_view to_string(ScheduleEvent::Action action) noexcept;

// The observer that carries a schedule out, for one solve: give it to Solver::solve() with the operator, and
// call finish() afterwards. Points wait independently of each other; each is taken once. When one is due
// while another's preparation runs, that one is cancelled. Points at an iteration are exact, on a device too;
// residuals and seconds are seen there some iterations late, and an overlapped change is adopted by the next
// steps that are recorded.
template <class T>
class FormatSchedule final : public SolveObserver {
 public:
  // A outlives it. `next`, when given, is asked first in each iteration; `told` is called with each event but
  // not_reached as it happens. Throws BadArgument for a point without a format or with a negative or
  // undefined place.
  FormatSchedule(AdaptiveOperator<T>& A, std::vector<SchedulePoint> points, SolveObserver* next = nullptr,
                 std::function<void(const ScheduleEvent&)> told = {});

  bool on_iteration(const IterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;

  // After the solve: cancels what is still being prepared, and says which points were not reached.
  void finish();

  const std::vector<ScheduleEvent>& events() const noexcept { return events_; }

 private:
  using Action = ScheduleEvent::Action;
  void take(const SchedulePoint& point);
  void adopt_when_ready();
  void add(Action action, std::string to, std::string reason);
  // Failures the operator has recorded since the last call.
  void add_failures();

  AdaptiveOperator<T>& A_;
  std::vector<SchedulePoint> points_;  // not yet taken
  SolveObserver* next_;
  std::function<void(const ScheduleEvent&)> told_;
  IterationInfo info_;
  std::size_t failures_seen_;
  std::vector<ScheduleEvent> events_;
};

}  // namespace protean
