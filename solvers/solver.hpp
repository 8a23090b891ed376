// Krylov solvers of A x = b against an abstract operator.
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <protean/core/vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/stopping.hpp>

namespace protean {

struct IterationInfo {
  std::int64_t iteration = 0;    // 0: the initial guess
  double residual = 0;           // 2-norm of the recurrence residual
  double relative_residual = 0;  // divided by the baseline
  double seconds = 0;            // since the solve began
  std::int64_t restarts = 0;     // from the true residual so far
};

// Called between two iterations, iteration 0 included. The one safe point at which an operator may change its
// storage format, or its values: a solver that sees A's revision() changed begins again from b - A x, with A
// as it is then. Return false to end the solve with StopReason::interrupted.
class SolveObserver {
 public:
  virtual ~SolveObserver() = default;
  virtual bool on_iteration(const IterationInfo& info) = 0;
  // A device computes some iterations ahead of what the observer is told. It does not pass this iteration
  // before on_iteration() has been called with it; asked for whenever work is queued that was not foreseen,
  // so name the next stop in good time. A stop that has been passed already means nothing.
  virtual std::int64_t next_stop() const noexcept { return std::numeric_limits<std::int64_t>::max(); }
};

namespace detail {
template <class T>
class Method;
template <class T>
struct Workspace;
struct WorkspaceLayout;
}  // namespace detail

struct SolveReport {
  StopReason reason = StopReason::running;
  std::int64_t iterations = 0;
  std::int64_t restarts =
      0;  // from b - A x: the recurrence had lied or broken down, or the method's own cycle ended
  double rhs_norm = 0, initial_residual = 0;
  double recurrence_residual = 0, true_residual = 0;  // 2-norms; true_residual is of the x returned
  double recurrence_relative = 0, true_relative = 0;  // divided by the baseline norm
  double seconds = 0;
  // On a device: how often steps were recorded into a graph, and how often that took a new graph instead of
  // an update of the one there was. 0 where the graph of the solve before was used as it is.
  std::int64_t graphs_recorded = 0, graphs_made = 0;
  // How the steps ran: "host"; on a device "graph", or "resident" (SolverOptions::device_steps).
  // steps_reason: why not "resident", where that was looked at.
  std::string steps, steps_reason;
  std::string detail;  // numbers behind the reason, where there are some
  bool converged() const noexcept { return protean::converged(reason); }
};

struct SolverOptions {
  StoppingRule stopping = {};
  std::int64_t restart = 30;               // gmres: basis vectors before a restart
  std::string orthogonalization = "cgs2";  // gmres: cgs2 | mgs
  // On a device: auto | graph | resident. A graph of some steps is replayed, for any method and operator.
  // resident: cg, without preconditioner or with a diagonal one, of a matrix that shows its rows
  // (HasRowArrays) and fits into the shared memory of the processors together with the vectors: one kernel
  // does many steps and keeps all that there. auto: resident where it can be, else graph; resident:
  // BadArgument from solve() where it cannot be. Both give the same bits in every run, and differ by
  // rounding.
  std::string device_steps = "auto";
};

// A solver keeps its workspace between solves and reuses it while size and context stay; on a device also the
// recorded graph, while operator, preconditioner and x are the same and LinearOperator::recording() tells of
// no change. Not for use from two threads at once, nor from its own observer (BadArgument); two solvers in
// two threads are fine.
template <class T>
class Solver {
 public:
  virtual ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // x: initial guess on entry, solution on return. Both vectors in A's space, not overlapping. M is set up by
  // the caller (Preconditioner::ensure) or null for none. Numerical trouble is a reason in the report; bad
  // arguments throw ShapeMismatch, WrongSpace, BadArgument, ArraysChanged (watched()). What A, M or the
  // observer throw passes through; x is some iterate then.
  SolveReport solve(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x,
                    const Preconditioner<T>* M = nullptr, SolveObserver* observer = nullptr);

  const SolverOptions& options() const noexcept { return options_; }
  virtual std::string_view name() const noexcept = 0;

 protected:
  explicit Solver(SolverOptions options);

 private:
  // The recurrence itself with its vectors; see solvers/method.hpp.
  virtual std::unique_ptr<detail::Method<T>> make_method(const detail::WorkspaceLayout& layout) const = 0;

  SolverOptions options_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<detail::Workspace<T>> workspace_;  // of the solve before
};

struct SolverEntry {
  std::string_view id, title, source;
  std::unique_ptr<Solver<double>> (*make_f64)(const SolverOptions&);
  std::unique_ptr<Solver<float>> (*make_f32)(const SolverOptions&);
};

// cg, bicgstab, gmres.
std::span<const SolverEntry> solvers() noexcept;

// BadArgument for an unknown method (with the nearest name) or options out of range.
template <class T>
std::unique_ptr<Solver<T>> make_solver(std::string_view method, const SolverOptions& options = {});

}  // namespace protean
