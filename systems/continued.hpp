// A solve in parts: a preconditioner of older values has broken the solve down, or method auto or preconditioner auto
// changes, and the solve goes on from the x that it has. To the caller it is one solve, with one initial residual, one
// baseline, one limit of iterations and of seconds, and one numbering of the iterations. Private to systems/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "solvers/multi_solver.hpp"
#include "solvers/solver.hpp"
#include "systems/kept_columns.hpp"

namespace protean::detail {

// ||b|| or the initial residual of the whole solve.
double baseline_of(const StoppingRule& rule, const SolveReport& first) noexcept;
// Whether the solve ended so that a new preconditioner may help.
bool broke_down(const SolveReport& report) noexcept;
bool broke_down_for(StopReason reason) noexcept;

// Whether it ended for a reason other than a limit or its observer, without a solution.
bool has_failed(StopReason reason) noexcept;

// The rule of the second part: what the first one has left of the limits. seconds: since the solve began.
StoppingRule rest_of(const StoppingRule& rule, const SolveReport& first, double seconds) noexcept;
// The limit that leaves no second part; `running` if there is a second part.
StopReason used_up(const StoppingRule& rule, const SolveReport& first, double seconds) noexcept;

// The report of both parts. seconds: since the solve began.
SolveReport joined(const StoppingRule& rule, const SolveReport& first, SolveReport second, double seconds);
// The report of the first part if the limit leaves no second part. old: its preconditioner was made for older values.
SolveReport ended_by(StopReason limit, const StoppingRule& rule, SolveReport first, double seconds,
                     bool old = true);

// Passes calls on to the observer of a solve, in the numbering of the whole solve.
class Numbered final : public SolveObserver {
 public:
  // next: null for none.
  explicit Numbered(SolveObserver* next) : next_(next) {}
  SolveObserver* observer() noexcept { return next_ ? this : nullptr; }
  // Whether next has ended the solve.
  bool stopped() const noexcept { return stopped_; }
  // The next part begins; its iteration 0 is the last one of the part before. next has seen that, unless a device had
  // computed some steps beyond the one that it was shown.
  void go_on(const StoppingRule& rule, const SolveReport& first, double seconds) noexcept;

  std::int64_t iterations() const noexcept { return iterations_; }
  double seconds() const noexcept { return seconds_; }

  bool on_iteration(const IterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;

 private:
  IterationInfo whole(const IterationInfo& info) const noexcept;
  bool is_known(const IterationInfo& info) const noexcept {
    return second_ && info.iteration == 0 && seen_ == iterations_;
  }

  SolveObserver* const next_;
  bool stopped_ = false, second_ = false;
  std::int64_t seen_ = -1;                      // the last iteration that next has seen
  std::int64_t iterations_ = 0, restarts_ = 0;  // of the first part
  double seconds_ = 0, baseline_ = 0;
};

// The same for several columns, some of which go on. It ends a part for all columns if one of them has ended for a
// reason that concerns them all, such as a preconditioner that breaks down: then all go on from the same iteration.
class NumberedColumns final : public MultiSolveObserver {
 public:
  // next: null for none. ends_all: whether one column has ended so. show: copies the X of a later part to the caller's.
  NumberedColumns(MultiSolveObserver* next, std::function<bool(StopReason)> ends_all,
                  std::function<void()> show)
      : next_(next), ends_all_(std::move(ends_all)), show_(std::move(show)) {}
  // next has ended the solve.
  bool stopped() const noexcept { return stopped_; }
  // columns: the numbers of the columns that go on; baselines: their baselines.
  void go_on(std::int64_t iterations, double seconds, ColumnNumbers columns, std::vector<double> baselines);
  // Of the present part: which of its columns run, and the largest relative residual of these.
  ColumnNumbers running() const;
  double relative_residual() const noexcept;

  bool on_iteration(const MultiIterationInfo& info) override;
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const MultiIterationInfo& info) const noexcept override;

 private:
  // What was reported before, except for the columns of a later part.
  struct Whole {
    std::vector<double> residuals, relative;
    std::vector<unsigned char> runs;
    std::vector<StopReason> reasons;
  };
  MultiIterationInfo whole(const MultiIterationInfo& info, Whole& of) const;

  MultiSolveObserver* const next_;
  const std::function<bool(StopReason)> ends_all_;
  const std::function<void()> show_;
  bool stopped_ = false, seen_ = true;
  ColumnNumbers columns_;  // of a later part; empty in the first
  std::int64_t last_ = 0;  // that was shown
  std::int64_t iterations_ = 0;
  double seconds_ = 0;
  std::vector<double> baselines_;
  Whole whole_;
  std::vector<unsigned char> runs_;  // of the columns of the part
};

}  // namespace protean::detail
