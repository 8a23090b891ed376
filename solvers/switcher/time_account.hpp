// The account of a solve that changes its format: how long it has lasted, and how long the same iterations would have
// taken in the first format. Times are seconds of one clock; the caller reads it. Private to solvers/.
#pragma once
#include <cstdint>

#include "solvers/iteration_pace.hpp"

namespace protean::detail {

class TimeAccount {
 public:
  TimeAccount(bool on_device, double created)
      : on_device_(on_device), created_(created), first_pace_(on_device), pace_(on_device) {}

  bool begun() const noexcept { return solve_begin_ >= 0; }
  // Begins another solve; excess and bounds are for all solves together.
  void begin_another(double now) noexcept;
  // Ends the solve.
  void end(double now) noexcept { earlier_seconds_ = elapsed(now); }
  // At iteration 0, when the solve has lasted `seconds`: the work before the first iteration costs the same in every
  // format.
  void begin(double now, double seconds);
  // Charges the iteration that was computed since leave(). undisturbed: without a parallel build; first: in the first
  // format; recorded: seconds of it in which steps were recorded again, since the format had changed; progress: how
  // many iterations in the first format come as far.
  void charge(double now, bool undisturbed, bool first, double recorded = 0, double progress = 1);
  // Charges work that takes as long in every format, or takes back what was charged too much.
  void charge_any_format(double seconds) noexcept { stay_seconds_ += seconds; }
  // Seconds of the present call in which no iterations were computed.
  void pause(double seconds) noexcept { paused_ += seconds; }
  // Ends a call, which looked from `looked` to `now`. While the host decides, a device continues with the iterations
  // that are queued.
  void leave(double looked, double now) noexcept;
  // Restarts the count of the iterations: after a build, and, with their pace, after a change of format.
  void disturbed() noexcept { since_change_ = 0; }
  void changed() noexcept {
    estimate_ = first_pace(), before_ = 0;
    since_change_ = 0, pace_.clear();
  }
  // From now on an iteration multiplies a different number of vectors. Its time in the first format, unless that is
  // measured again, is assumed to change like the time in the present format: the format that is kept has fewer bytes
  // to read, so its time depends more on the vectors. Until that is known, the time changes by the factor `least`.
  void columns_changed(double least) noexcept;

  // Forgets the pace of the first format, which is another one now.
  void forget_first() noexcept { first_pace_.clear(), estimate_ = before_ = 0; }

  // The time of the same iterations in the first format: of all solves, and of the present one.
  double stay_seconds() const noexcept { return stay_seconds_; }
  double present_stay_seconds() const noexcept { return stay_seconds_ - earlier_stay_seconds_; }
  // The time of all solves up to now. On a device only iterations count that have been computed.
  double elapsed(double now) const noexcept;
  // The time since the present solve began, whatever has been computed.
  double since_begin(double now) const noexcept { return now - solve_begin_; }
  // Seconds of an iteration in the first format, and in the present one.
  double first_pace() const noexcept;
  double pace() const noexcept { return pace_.seconds(); }
  double undisturbed_pace() const noexcept { return pace_.undisturbed(); }
  // Iterations in the present format without a parallel build.
  std::int64_t since_change() const noexcept { return since_change_; }

 private:
  // Iterations that a device reports together: all were computed while the host waited for the first report. So the
  // measured time is right only at the beginning of a burst. Within a burst each iteration is taken to last as long as
  // the pace says.
  struct Burst {
    double begin = 0;
    double paused = 0;    // seconds in which no iterations were computed, also of recordings after a change
    double credited = 0;  // seconds added to stay_seconds_
    std::int64_t iterations = 0;
    bool first = true;  // all in the first format, without a parallel build
  };

  bool on_device_;
  double created_, solve_begin_ = -1, last_exit_ = 0, paused_ = 0;
  double stay_seconds_ = 0, earlier_seconds_ = 0,
         earlier_stay_seconds_ = 0;  // earlier: before the present solve
  Burst burst_;
  std::int64_t since_change_ = 0;
  IterationPace first_pace_, pace_;
  // After columns_changed(): the time of an iteration in the first format, as long as it has not been measured, which
  // is still to be multiplied by pace() / before_; before_ 0: it is not.
  double estimate_ = 0, before_ = 0, least_ = 1;
};

}  // namespace protean::detail
