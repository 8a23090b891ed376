// When a kept system sets its preconditioner up again for new values. Private to systems/.
#pragma once
#include <algorithm>
#include <cstdint>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// A pure function of numbers that its caller measures. How long an old M is used depends on `how`:
//   every        not at all: each set of new values has a setup
//   when_slower  until its age has cost as much time as a setup. The time lost in a solve is the number of iterations
//                that it takes more than the first solve after the setup, times the seconds of an iteration. So the
//                solves and setups together take at most twice as long as with the best times for setups, if new
//                preconditioners take similar numbers of iterations.
//   never        as long as it works
// It is set up again in any case after a solve that did not converge with old values, or that took more than twice the
// iterations of the first one after a setup. A solve that breaks down with an old M goes on at once with a new one.
class RefreshRule {
 public:
  // M was set up, or was replaced.
  void note_setup(double seconds) noexcept { *this = {}, setup_seconds_ = seconds; }
  void note_new_values() noexcept { old_ = true; }
  void note_solve(std::int64_t iterations, double seconds, bool converged) noexcept {
    const auto now = static_cast<double>(std::max<std::int64_t>(iterations, 1));
    if (first_ == 0)
      first_ = now;
    else
      lost_ += std::max(0.0, now - first_) * seconds / now, too_old_ = too_old_ || now > 2 * first_;
    too_old_ = too_old_ || (!converged && old_);
  }
  // Whether M was made for values other than the present values of the matrix.
  bool old() const noexcept { return old_; }
  // Whether M must be set up before the next solve.
  bool due(Refresh how) const noexcept {
    if (too_old_) return true;
    if (!old_) return false;
    return how == Refresh::every || (how == Refresh::when_slower && lost_ >= setup_seconds_);
  }

 private:
  bool old_ = false, too_old_ = false;
  double first_ = 0;  // iterations of the first solve after the setup
  double setup_seconds_ = 0, lost_ = 0;
};

}  // namespace protean::detail
