// An observer that changes the matrix of a solve with several right-hand sides: what MultiSolver asks it beyond
// MultiSolveObserver. Private.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

#include "solvers/solve_report.hpp"

namespace protean::detail {

class SteeringObserver : public MultiSolveObserver {
 public:
  // Called before each on_iteration(). runs[c]: 1 if column c has not ended, else 0.
  virtual void columns_that_run(std::span<const unsigned char> runs) = 0;
  // SolveObserver::next_stop() of MultiIterationInfo::iteration.
  virtual std::int64_t next_stop() const noexcept = 0;

  static constexpr std::int64_t no_stop = std::numeric_limits<std::int64_t>::max();
};

// Shows an observer of one right-hand side, such as a schedule, the column that has furthest to go: of those that run
// the one with the largest relative residual. When all have ended, it is that of all.
class SlowestColumn final : public SteeringObserver {
 public:
  // Keeps references. next: the observer of the columns, which is called first; null for none.
  SlowestColumn(SolveObserver& steering, MultiSolveObserver* next) : steering_(steering), next_(next) {}

  void columns_that_run(std::span<const unsigned char> runs) override { runs_ = runs; }
  bool on_iteration(const MultiIterationInfo& info) override {
    if (next_ && !next_->on_iteration(info)) return false;
    IterationInfo slowest{.iteration = info.iteration, .seconds = info.seconds};
    bool found = false;
    for (std::size_t c = 0; c < info.residuals.size(); ++c) {
      if (info.running > 0 && runs_[c] == 0) continue;
      if (found && info.relative_residuals[c] <= slowest.relative_residual) continue;
      found = true;
      slowest.residual = info.residuals[c], slowest.relative_residual = info.relative_residuals[c];
    }
    return steering_.on_iteration(slowest);
  }
  std::int64_t next_stop() const noexcept override { return steering_.next_stop(); }

 private:
  SolveObserver& steering_;
  MultiSolveObserver* const next_;
  std::span<const unsigned char> runs_;
};

}  // namespace protean::detail
