// Krylov solvers of A x = b against an abstract operator.
#pragma once
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <protean/core/blas1.hpp>
#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/stopping.hpp>

namespace PROTEAN_EXPORT protean {

struct IterationInfo {
  std::int64_t iteration = 0;    // 0: the initial guess
  double residual = 0;           // norm of the recurrence residual (SolverOptions::residual_norm)
  double relative_residual = 0;  // divided by the baseline
  double seconds = 0;            // since the solve began
  std::int64_t restarts = 0;     // from the true residual so far
  // Seconds of the host that the steps are expected to be recorded in after a change of format or order. They are those
  // of the last recording: of its capture, of the graph, and of the surplus of its first launch. Of a first one, whose
  // graph is made and not updated, a third of the last two counts. That of a process's first solve is larger, since the
  // driver loads kernels. 0 before the first one, and where steps are not recorded: on a host, and on a device in
  // one kernel or without graphs.
  double record_seconds = 0;
};

// Called between two iterations, also after iteration 0. Only here may an operator change its storage format
// or its values: a solver that finds A.revision() changed starts again from b - A x with the new A. Return
// false to end the solve with StopReason::interrupted.
class SolveObserver {
 public:
  virtual ~SolveObserver() = default;
  virtual bool on_iteration(const IterationInfo& info) = 0;
  // A device computes some iterations ahead of the calls of on_iteration(). It does not compute beyond
  // iteration next_stop() before on_iteration() was called for it. The solver asks each time before it queues
  // more iterations, so a stop must be known that early. A stop in the past has no effect.
  virtual std::int64_t next_stop() const noexcept { return std::numeric_limits<std::int64_t>::max(); }
  // Whether on_iteration(info), which follows, reads the x of the solve. A solve in another order of the rows keeps its
  // own x, and copies it to the caller's for an observer that says so.
  virtual bool reads_solution(const IterationInfo& info) const noexcept {
    (void)info;
    return false;
  }
};

namespace PROTEAN_HIDDEN detail {
template <class T>
class Method;
template <class T>
struct Workspace;
struct WorkspaceLayout;
}  // namespace detail

struct SolveReport {
  StopReason reason = StopReason::running;
  std::int64_t iterations = 0;
  // How often the method started again from b - A x: the recurrence residual was too small, the method broke
  // down, new values came, or a cycle of the method was complete.
  std::int64_t restarts = 0;
  // Norms by SolverOptions::residual_norm; true_residual belongs to the x returned.
  double rhs_norm = 0, initial_residual = 0;
  double recurrence_residual = 0, true_residual = 0;
  double recurrence_relative = 0, true_relative = 0;  // divided by the baseline norm
  double seconds = 0;
  // On a device: how often steps were recorded into a graph, and how often that needed a new graph instead of
  // an update of the existing one. 0 where the graph of the last solve was used again.
  std::int64_t graphs_recorded = 0, graphs_made = 0;
  // How the steps ran: "host"; on a device "graph" or "resident" (SolverOptions::device_steps).
  // steps_reason: why the steps are not "resident", where that was tried.
  std::string steps, steps_reason;
  std::string detail;  // the numbers that led to the reason; may be empty
  // What to do, for this method, preconditioner and matrix. Empty when converged.
  std::string advice;
  bool converged() const noexcept { return protean::converged(reason); }
};

// Ranges, and which method reads which of them: solver_options() of solvers/options.hpp, or `protean help problem
// solver`.
struct SolverOptions {
  StoppingRule stopping = {};
  std::int64_t restart = 30;               // gmres, fgmres: basis vectors before a restart
  std::string orthogonalization = "cgs2";  // gmres, fgmres: cgs2 | mgs
  std::int64_t directions = 5;             // fcg: how many last ones a new one is made conjugate to, 1 to 100
  std::int64_t s = 4;                      // idr: dimension of the shadow space, 1 to 16
  // cg, fcg, minres: none | constant: A x = 0 for the vectors x whose entries are all equal, and for these only, unless
  // set_null_space() gives others (Neumann problems, graph Laplacians).
  std::string null_space = "none";
  // On a device: auto | graph | resident. On a host solve() throws BadArgument for another one than auto.
  // graph: some steps are recorded into a CUDA graph, which is replayed; for any method and operator.
  // resident: one kernel does many steps and keeps matrix and vectors in the shared memory of the processors.
  // For cg without preconditioner or with a diagonal one, where the operator has HasRowArrays and all fits;
  // elsewhere solve() throws BadArgument.
  // auto: resident where that is possible, else graph.
  // Each of the two gives the same bits in every run; their results differ by rounding.
  std::string device_steps = "auto";
  // euclidean | diagonal: the norm of b, b - A x and the residual of the recurrence in tolerances, limits and reports.
  // diagonal: ||D^-1 v||, D the diagonal of A as the solve begins, with 1 for an entry that is 0 or whose inverse is
  // not finite. So each row counts in units of its diagonal entry. In the 2-norm rows with large entries hide the
  // others: those of a penalty method, or of a field in small units. The iterates are the same. It needs an A that
  // knows its diagonal (HasDiagonal), two vectors, with gmres, fgmres, and minres without M another one, and in each
  // iteration a pass over three vectors and one over one.
  std::string residual_norm = "euclidean";
};

// A solver keeps its workspace between solves. It uses it again while size and context are the same. While the
// operators have another order of the rows (HasOrder), it also keeps b, x and M in that order. On a device it keeps
// the recorded graph, too. It replays that graph while the operator, the preconditioner and x are the same and
// LinearOperator::recording() has not changed. Two threads may use two solvers, but not one solver at the same time.
// An observer must not use the solver that calls it. Both are refused with BadArgument.
template <class T>
class Solver {
 public:
  virtual ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Solves A x = b. x holds the initial guess on entry and the solution on return. b and x lie in the space of A and
  // do not overlap. A guess that is not finite is refused (BadArgument); an x that is not finite at the end has
  // StopReason::not_finite, whatever the residual says. M is null for no preconditioner; otherwise the caller has set
  // it up (Preconditioner::ensure). cg and minres refuse an M that is not symmetric (Preconditioner::symmetric). Only
  // fcg and fgmres allow an M^-1 r that is another function of r in each call, such as an iterative solve. Other
  // methods then go wrong, which the residual b - A x shows at the end. Numerical trouble is not an exception; it is
  // the reason in the report. Throws ShapeMismatch, WrongSpace, BadArgument, ArraysChanged (see watched()), and what A,
  // M or the observer throw. x then holds one of the iterates.
  SolveReport solve(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x,
                    const Preconditioner<T>* M = nullptr, SolveObserver* observer = nullptr);

  // A solve without it does not see that A is singular: where b is in the range of A it converges to one of many
  // solutions. (minres sees it where b is not: it ends with StopReason::inconsistent, and x is a solution of least
  // squares, not the one of smallest norm.) (For an A with entries null_vectors() in core/statistics.hpp finds null
  // vectors of zeros and ones.) For singular symmetric A, methods cg, fcg and minres: N has orthonormal columns that
  // span the null space of A, in the space of A. They are borrowed and must live as long as solves use them; a block
  // without columns ends it. Solves then
  // - throw BadArgument if ||A n_j|| is not small (above sqrt(eps) times the largest diagonal entry);
  // - end with StopReason::inconsistent where ||N^T b|| is above the tolerance, since ||b - A x|| is at least that for
  //   all x;
  // - begin from residuals without their part in the null space, and return the solution that has none: N^T x = 0, the
  //   one of smallest norm.
  // They compute one more product for each column. Throws BadArgument for other methods, ShapeMismatch and WrongSpace
  // in solve(). Source: Kaasschieter, J. Comput. Appl. Math. 24 (1988) 265, doi:10.1016/0377-0427(88)90358-5.
  void set_null_space(VectorBlock<const T> N);

  const SolverOptions& options() const noexcept { return options_; }
  // StoppingRule::max_seconds of later solves, for one whose setup has taken a part of them.
  PROTEAN_HIDDEN void set_max_seconds(double seconds) noexcept { options_.stopping.max_seconds = seconds; }
  virtual std::string_view name() const noexcept = 0;
  // Whether it is for symmetric M only: cg, minres.
  virtual bool needs_symmetric_preconditioner() const noexcept = 0;

 protected:
  explicit Solver(SolverOptions options);

 private:
  // The implementation of the method with its vectors; see solvers/method.hpp.
  virtual std::unique_ptr<detail::Method<T>> make_method(const detail::WorkspaceLayout& layout) const = 0;

  SolverOptions options_;
  VectorBlock<const T> null_space_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<detail::Workspace<T>> workspace_;  // of the solve before
};

struct SolverEntry {
  std::string_view id, title, source;
  std::unique_ptr<Solver<double>> (*make_f64)(const SolverOptions&);
  std::unique_ptr<Solver<float>> (*make_f32)(const SolverOptions&);
  int products = 1;        // of A in one iteration
  bool symmetric = false;  // for symmetric A only
};

//   id         A                     M              memory in vectors, with M     iteration
//   cg         positive definite     SPD            3 (diagonal M), 4             1 product
//   fcg        positive definite     any, variable  2 + 2 directions              1 product
//   minres     symmetric             SPD            5, 8                          1 product
//   bicgstab   any                   any            5, 7                          2 products
//   bicgstab2  any                   any            7, 9                          4 products
//   idr        any                   any            3 + 3 s, 4 + 3 s              1 product
//   gmres      any                   any            2 + restart, 3 + restart      1 product
//   fgmres     any                   any, variable  2 + restart, 2 + 2 restart    1 product
std::span<const SolverEntry> solvers() noexcept;
// Throws BadArgument for an unknown method, with the nearest name.
const SolverEntry& find_solver(std::string_view method);

// Throws BadArgument for an unknown method (with the nearest name), for options out of range, and for those that are
// not their default although the method does not read them (options_read_by()).
template <class T>
PROTEAN_EXPORT std::unique_ptr<Solver<T>> make_solver(std::string_view method,
                                                      const SolverOptions& options = {});

}  // namespace protean
