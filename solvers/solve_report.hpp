// What a solve says: to an observer in each iteration, and in its report at the end.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/solvers/stopping.hpp>

namespace PROTEAN_EXPORT protean {

struct IterationInfo {
  std::int64_t iteration = 0;    // 0: the initial guess
  double residual = 0;           // norm of the recurrence residual, by SolverOptions::residual_norm
  double relative_residual = 0;  // the norm divided by the baseline of the stopping rule
  double seconds = 0;            // since the solve began
  std::int64_t restarts = 0;     // the number of restarts from the true residual so far
  // Seconds of the host that recording the steps is expected to take after a change of format or order: the time of the
  // last recording (capture, graph, and surplus of the first launch). After a first recording, a third of graph and
  // launch counts. 0 before the first recording, and if steps are not recorded (on a host, and on a device in one
  // kernel or without graphs).
  double record_seconds = 0;
  // If products are with values rounded to float: SolveReport::corrections so far, and ||(b - A x) - r|| / ||b - A x||
  // of the last one, for the residual r of the recurrence; 0 if the method has no r to compare.
  std::int64_t corrections = 0;
  double jump = 0;
  bool rounded = false;  // whether the products of this iteration were with such values
};

// Called between two iterations, also after iteration 0. Only here may an operator change its storage format or its
// values: a solver that finds A.revision() changed starts again from b - A x with the new A. Return false to end the
// solve with StopReason::interrupted.
class SolveObserver {
 public:
  virtual ~SolveObserver() = default;
  virtual bool on_iteration(const IterationInfo& info) = 0;
  // A device computes some iterations ahead of the calls of on_iteration(). It does not compute beyond iteration
  // next_stop() before on_iteration() was called for that iteration. The solver asks each time before it queues more
  // iterations, so a stop must be known that early. A stop in the past has no effect.
  virtual std::int64_t next_stop() const noexcept { return std::numeric_limits<std::int64_t>::max(); }
  // Whether on_iteration(info), which follows, reads the x of the solve. A solve in another order of the rows keeps its
  // own x, and copies it to the caller's x if the observer says so.
  virtual bool reads_solution(const IterationInfo& info) const noexcept {
    (void)info;
    return false;
  }
};

struct SolveReport {
  StopReason reason = StopReason::running;
  std::int64_t iterations = 0;
  // How often the method started again from b - A x: because the recurrence residual was too small, the method broke
  // down, new values came, or a cycle of the method was complete.
  std::int64_t restarts = 0;
  // How often b - A x was computed with the values that were given because products were with values rounded to float
  // (HasGivenMatrix), after the beginning; and why the solve went on with the given values. Empty: it did not.
  std::int64_t corrections = 0;
  std::string left_rounding;
  // Norms by SolverOptions::residual_norm; true_residual belongs to the returned x.
  double rhs_norm = 0, initial_residual = 0;
  double recurrence_residual = 0, true_residual = 0;
  double recurrence_relative = 0, true_relative = 0;  // divided by the baseline norm
  double seconds = 0;
  // On a device: how often steps were recorded into a graph, and how often that needed a new graph instead of an update
  // of the existing one. 0 if the graph of the last solve was used again. Of several columns the numbers are the same.
  std::int64_t graphs_recorded = 0, graphs_made = 0;
  // How the steps ran: "host"; on a device "queued" (one by one), "graph" (some of them in a CUDA graph) or "resident"
  // (SolverOptions::device_steps). steps_reason says why a solve that tried "resident" has other steps.
  std::string steps, steps_reason;
  std::string detail;  // the numbers behind the reason; may be empty
  // What to do, for this method, preconditioner and matrix. Empty if the solve converged.
  std::string advice;
  bool converged() const noexcept { return protean::converged(reason); }
};

struct MultiIterationInfo {
  std::int64_t iteration = 0;  // 0: the initial guesses
  std::int64_t running = 0;    // columns that have not ended
  std::int64_t broken = 0;     // columns ended by a breakdown or an indefinite preconditioner
  // For each column the norm of its recurrence residual, by SolverOptions::residual_norm, and the norm divided by the
  // baseline of its rule. The numbers of a column that has ended stay.
  std::span<const double> residuals, relative_residuals;
  std::span<const unsigned char> runs;       // for each column: 1 if it has not ended, else 0
  std::span<const StopReason> reasons = {};  // for each column: why it has ended; `running` if it has not
  double seconds = 0;                        // since the solve began
};

// Called between two iterations, also after iteration 0. A device computes some iterations ahead and reports several of
// them in one call. Only here may an operator change its storage format or its values; columns then begin again from b
// - A x with the new A. Return false to end all columns with StopReason::interrupted.
class MultiSolveObserver {
 public:
  virtual ~MultiSolveObserver() = default;
  virtual bool on_iteration(const MultiIterationInfo& info) = 0;
  // As SolveObserver::next_stop(), of MultiIterationInfo::iteration.
  virtual std::int64_t next_stop() const noexcept { return std::numeric_limits<std::int64_t>::max(); }
  // As SolveObserver::reads_solution(): whether on_iteration(info), which follows, reads the X of the solve. Columns
  // that run lie in vectors of the solve, and are copied to the caller's X if the observer says so.
  virtual bool reads_solution(const MultiIterationInfo& info) const noexcept {
    (void)info;
    return false;
  }
};

struct MultiSolveReport {
  // One report for each column. seconds: when that column ended, since the solve began.
  std::vector<SolveReport> columns;
  std::int64_t iterations = 0;  // of the column with the most
  // Products with several vectors: each reads the operator once if `product` is "in one pass".
  std::int64_t products = 0;
  // "in one pass", or "column by column: " and why.
  std::string product, preconditioner;  // preconditioner: empty without one; "diagonal" if M^-1 is one
  std::string
      steps;  // as SolveReport::steps: "host", "simulated"; on a GPU "graph", or "queued" if none was replayed
  double seconds = 0;
  // True for no columns.
  bool converged() const noexcept;
};

}  // namespace protean
