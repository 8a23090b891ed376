#include "solvers/switcher/time_account.hpp"

#include <algorithm>

namespace protean::detail {

void TimeAccount::begin_another(double now) noexcept {
  earlier_stay_seconds_ = stay_seconds_;
  created_ = now, solve_begin_ = -1, burst_ = {}, paused_ = 0;
  since_change_ = 0, pace_.clear();
}

double TimeAccount::first_pace() const noexcept {
  if (const double measured = first_pace_.seconds(); measured > 0) return measured;
  if (before_ <= 0) return estimate_;
  const double now = pace_.seconds();
  return estimate_ * (now > 0 ? now / before_ : least_);
}

void TimeAccount::columns_changed(double least) noexcept {
  estimate_ = first_pace(), before_ = pace_.seconds(), least_ = least;
  if (before_ <= 0) estimate_ *= least;
  first_pace_.clear(), pace_.clear();
  since_change_ = 0;
}

void TimeAccount::begin(double now, double seconds) {
  const double before = std::min(seconds, now - created_);
  solve_begin_ = now - before;
  stay_seconds_ += before;
}

void TimeAccount::charge(double now, bool undisturbed, bool first, double recorded, double progress) {
  const double seconds = std::max(now - last_exit_ - recorded, 0.0);
  if (undisturbed && pace_.add(seconds)) ++since_change_;
  if (first) first_pace_.add(seconds);
  const double pace = first_pace();
  if (!on_device_) {
    stay_seconds_ += first ? seconds : pace * progress;
    return;
  }
  if (burst_.iterations == 0 || seconds > 0.5 * pace_.seconds()) {
    // A new burst begins, so the time of the last one is known: it replaces the estimate.
    if (burst_.iterations > 0 && burst_.first)
      stay_seconds_ += last_exit_ - burst_.begin - burst_.paused - burst_.credited;
    burst_ = Burst{.begin = last_exit_};
  }
  burst_.first = burst_.first && first;
  burst_.paused += recorded;
  stay_seconds_ += pace * progress, burst_.credited += pace * progress, ++burst_.iterations;
}

void TimeAccount::leave(double looked, double now) noexcept {
  last_exit_ = on_device_ ? looked + paused_ : now;
  burst_.paused += paused_, paused_ = 0;
}

double TimeAccount::elapsed(double now) const noexcept {
  if (solve_begin_ < 0) return earlier_seconds_;
  if (!on_device_ || burst_.iterations == 0) return earlier_seconds_ + now - solve_begin_;
  const double paused = burst_.paused + paused_, pace = pace_.seconds() > 0 ? pace_.seconds() : first_pace();
  return earlier_seconds_ + burst_.begin - solve_begin_ + paused +
         std::min(now - burst_.begin - paused, static_cast<double>(burst_.iterations) * pace);
}

}  // namespace protean::detail
