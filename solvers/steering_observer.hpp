// An observer of several right-hand sides that lets an observer of one steer the solve. Private.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "solvers/solve_report.hpp"
#include "solvers/stopping.hpp"

namespace protean::detail {

// Shows an observer of one right-hand side the column that is furthest from its tolerance: of the columns that run, the
// one with the largest residual. When all have ended, it is chosen among all.
class SlowestColumn final : public MultiSolveObserver {
 public:
  // Residuals are compared, and shown, relative to their baselines: for a schedule. Keeps references. next: the
  // observer of the columns, which is called first; null for none.
  SlowestColumn(SolveObserver& steering, MultiSolveObserver* next) : steering_(steering), next_(next) {}
  // Residuals are compared, and shown, as multiples of their tolerances, since columns may have different ones: for
  // what decides by forecasts, whose goal is 1. rules: of each column. columns_left(number), unless it is empty, is
  // called before each on_iteration().
  SlowestColumn(SolveObserver& steering, MultiSolveObserver* next, std::vector<StoppingRule> rules,
                std::function<void(std::int64_t)> columns_left)
      : steering_(steering), next_(next), rules_(std::move(rules)), columns_left_(std::move(columns_left)) {}

  bool on_iteration(const MultiIterationInfo& info) override {
    iteration_ = info.iteration;
    if (next_ && !next_->on_iteration(info)) return false;
    if (columns_left_) columns_left_(info.running);
    return steering_.on_iteration(slowest(info));
  }
  bool reads_solution(const MultiIterationInfo& info) const noexcept override {
    return (next_ && next_->reads_solution(info)) || steering_.reads_solution(slowest(info));
  }
  // The earlier of both stops. A stop in the past does not count.
  std::int64_t next_stop() const noexcept override {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    if (const std::int64_t stop = steering_.next_stop(); stop > iteration_) first = stop;
    if (const std::int64_t stop = next_ ? next_->next_stop() : first; stop > iteration_)
      first = std::min(first, stop);
    return first;
  }

 private:
  IterationInfo slowest(const MultiIterationInfo& info) const noexcept {
    IterationInfo slowest{.iteration = info.iteration, .seconds = info.seconds};
    bool found = false;
    for (std::size_t c = 0; c < info.residuals.size(); ++c) {
      if (info.running > 0 && info.runs[c] == 0) continue;
      const double shown = multiple(c, info.residuals[c], info.relative_residuals[c]);
      if (found && shown <= slowest.relative_residual) continue;
      found = true;
      slowest.residual = rules_.empty() ? info.residuals[c] : shown, slowest.relative_residual = shown;
    }
    return slowest;
  }
  double multiple(std::size_t c, double residual, double relative) const noexcept {
    if (rules_.empty() || !(relative > 0)) return relative;
    const double baseline = residual / relative;
    return residual / std::max(rules_[c].relative_tolerance * baseline, rules_[c].absolute_tolerance);
  }

  SolveObserver& steering_;
  MultiSolveObserver* const next_;
  const std::vector<StoppingRule> rules_;
  const std::function<void(std::int64_t)> columns_left_;
  std::int64_t iteration_ = 0;
};

}  // namespace protean::detail
