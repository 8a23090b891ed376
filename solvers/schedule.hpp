// The points of a schedule of changes, and what happened to them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/operators/policy/switch_records.hpp>

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
  FormatSpec to = {};
  // True: the matrix is built next to the solve and adopted when it is ready. False: the solve waits for it.
  bool overlapped = true;
  // The name of the format, such as "ell", for solve(), LinearSystem and SystemSolver. Empty: the format of `to`, which
  // also has parameters, kernel and order. A FormatSchedule of your own reads to.entry only.
  std::string format = {};
};

// What happened to the points of the schedule, in order of time.
struct ScheduleEvent {
  enum class Action : unsigned char {
    begun,       // a build next to the solve began
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

}  // namespace protean
