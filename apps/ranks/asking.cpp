#include "apps/ranks/asking.hpp"

#include <algorithm>

#include "apps/command/interrupt.hpp"

namespace protean::apps::ranks {

StopReason Asking::operator()(std::int64_t iteration, double seconds) {
  if (iteration < next_) return StopReason::running;
  constexpr double period = 0.05;
  double told[3] = {InterruptGuard::asked() ? static_cast<double>(InterruptGuard::exit_code()) : 0,
                    seconds > max_seconds_ ? 1.0 : 0.0, seconds};
  MPI_Allreduce(MPI_IN_PLACE, told, 3, MPI_DOUBLE, MPI_MAX, comm_);
  const auto done = static_cast<double>(iteration - last_);
  const double each = std::max(told[2] - asked_at_, 1e-9) / done;
  const double steps = std::clamp(period / each, 1.0, 2 * done);
  last_ = iteration, next_ = iteration + static_cast<std::int64_t>(steps), asked_at_ = told[2];
  signal_code_ = static_cast<int>(told[0]);
  if (signal_code_ != 0) return StopReason::interrupted;
  return told[1] != 0 ? StopReason::time_limit : StopReason::running;
}

}  // namespace protean::apps::ranks
