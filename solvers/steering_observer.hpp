// An observer of several right-hand sides that lets an observer of one steer the solve. Private.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "solvers/solve_report.hpp"

namespace protean::detail {

// Shows an observer of one right-hand side, such as a schedule, the column that has furthest to go: of those that run
// the one with the largest relative residual. When all have ended, it is that of all.
class SlowestColumn final : public MultiSolveObserver {
 public:
  // Keeps references. next: the observer of the columns, which is called first; null for none.
  SlowestColumn(SolveObserver& steering, MultiSolveObserver* next) : steering_(steering), next_(next) {}

  bool on_iteration(const MultiIterationInfo& info) override {
    iteration_ = info.iteration;
    if (next_ && !next_->on_iteration(info)) return false;
    IterationInfo slowest{.iteration = info.iteration, .seconds = info.seconds};
    bool found = false;
    for (std::size_t c = 0; c < info.residuals.size(); ++c) {
      if (info.running > 0 && info.runs[c] == 0) continue;
      if (found && info.relative_residuals[c] <= slowest.relative_residual) continue;
      found = true;
      slowest.residual = info.residuals[c], slowest.relative_residual = info.relative_residuals[c];
    }
    return steering_.on_iteration(slowest);
  }
  // The first of both stops. One in the past is none.
  std::int64_t next_stop() const noexcept override {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    if (const std::int64_t stop = steering_.next_stop(); stop > iteration_) first = stop;
    if (const std::int64_t stop = next_ ? next_->next_stop() : first; stop > iteration_)
      first = std::min(first, stop);
    return first;
  }

 private:
  SolveObserver& steering_;
  MultiSolveObserver* const next_;
  std::int64_t iteration_ = 0;
};

}  // namespace protean::detail
