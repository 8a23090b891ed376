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
  double residual = 0;           // norm of the recurrence residual, by SolverOptions::residual_norm
  double relative_residual = 0;  // the norm divided by the baseline of the stopping rule
  double seconds = 0;            // since the solve began
  std::int64_t restarts = 0;     // the number of restarts from the true residual so far
  // Seconds of the host that recording the steps is expected to take after a change of format or order: the time of the
  // last recording (capture, graph, and surplus of the first launch). After a first recording, a third of graph and
  // launch counts. 0 before the first recording, and if steps are not recorded (on a host, and on a device in one
  // kernel or without graphs).
  double record_seconds = 0;
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
  // How often the method started again from b - A x: because the recurrence residual was too small, the method broke
  // down, new values came, or a cycle of the method was complete.
  std::int64_t restarts = 0;
  // Norms by SolverOptions::residual_norm; true_residual belongs to the returned x.
  double rhs_norm = 0, initial_residual = 0;
  double recurrence_residual = 0, true_residual = 0;
  double recurrence_relative = 0, true_relative = 0;  // divided by the baseline norm
  double seconds = 0;
  // On a device: how often steps were recorded into a graph, and how often that needed a new graph instead of an update
  // of the existing one. 0 if the graph of the last solve was used again.
  std::int64_t graphs_recorded = 0, graphs_made = 0;
  // How the steps ran: "host"; on a device "graph" or "resident" (SolverOptions::device_steps). steps_reason says why a
  // solve that tried "resident" has other steps.
  std::string steps, steps_reason;
  std::string detail;  // the numbers behind the reason; may be empty
  // What to do, for this method, preconditioner and matrix. Empty if the solve converged.
  std::string advice;
  bool converged() const noexcept { return protean::converged(reason); }
};

// The options of all methods. solver_options() of solvers/options.hpp and `protean help problem solver` say which
// method reads which option, and in which range.
struct SolverOptions {
  StoppingRule stopping = {};
  std::int64_t restart = 30;               // gmres, fgmres: basis vectors before a restart
  std::string orthogonalization = "cgs2";  // gmres, fgmres: cgs2 | mgs
  std::int64_t directions = 5;  // fcg: last directions to which a new one is made conjugate, 1 to 100
  std::int64_t s = 4;           // idr: dimension of the shadow space, 1 to 16
  // cg, fcg, minres: none | constant. constant says that the null space of A has the vectors with equal entries and no
  // others, as in Neumann problems and graph Laplacians. set_null_space() gives another null space.
  std::string null_space = "none";
  // On a device: auto | graph | resident. On a host solve() throws BadArgument for any value except auto.
  // - graph: some steps are recorded into a CUDA graph, which is replayed; for any method and operator.
  // - resident: one kernel does many steps and keeps matrix and vectors in the shared memory of the processors. For cg
  //   without preconditioner or with a diagonal one, if the operator has HasRowArrays and all fits; otherwise solve()
  //   throws BadArgument.
  // - auto: resident if possible, else graph.
  // Each way gives the same bits in every run; the results of the two differ by rounding.
  std::string device_steps = "auto";
  // euclidean | diagonal: the norm of b, of b - A x and of the recurrence residual in tolerances, limits and reports
  // (docs/methods.md). diagonal is ||D^-1 v||. D is the diagonal of A as the solve begins, with 1 for an entry that is
  // 0 or whose inverse is not finite. It needs HasDiagonal, two vectors (gmres, fgmres, and minres without M: three),
  // and in each iteration a pass over three vectors and one over one.
  std::string residual_norm = "euclidean";
};

// A solver keeps its workspace between solves and uses it again while size and context are the same. On a device it
// also keeps the recorded graph. It replays the graph while the operator, the preconditioner and x are the same and
// LinearOperator::recording() has not changed. While the operators have another order of the rows (HasOrder), the
// solver also keeps b, x and M in that order. Two threads may use two solvers, but not one solver at the same time, and
// an observer must not use the solver that calls it: BadArgument.
template <class T>
class Solver {
 public:
  virtual ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Solves A x = b. x holds the initial guess on entry and the solution on return. b and x lie in the space of A and do
  // not overlap. M is null for no preconditioner; otherwise the caller has set it up (Preconditioner::ensure).
  //
  // Numerical trouble is not an exception: the report has the reason. An x that is not finite at the end has
  // StopReason::not_finite, whatever the residual says. Only fcg and fgmres allow an M^-1 r that is another function of
  // r in each call, such as an iterative solve. Other methods then go wrong, which the residual b - A x shows at the
  // end.
  //
  // Throws BadArgument for a guess that is not finite and for an M that is not symmetric with cg or minres
  // (Preconditioner::symmetric), ShapeMismatch, WrongSpace, ArraysChanged (see watched()), and what A, M or the
  // observer throw. x then holds one of the iterates.
  SolveReport solve(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x,
                    const Preconditioner<T>* M = nullptr, SolveObserver* observer = nullptr);

  // Gives the null space of a singular symmetric A to methods cg, fcg and minres. The columns of N are orthonormal,
  // span the null space, and lie in the space of A. N is borrowed and must live as long as solves use it; a block
  // without columns ends its use. Later solves
  // - throw BadArgument if ||A n_j|| is above sqrt(eps) times the largest diagonal entry,
  // - end with StopReason::inconsistent if ||N^T b|| is above the tolerance, since ||b - A x|| is at least that large
  //   for all x,
  // - begin from residuals without their part in the null space, and return the solution of smallest norm, N^T x = 0,
  // - compute one more product for each column, and throw ShapeMismatch and WrongSpace if N does not fit.
  // Throws BadArgument for other methods.
  //
  // A solve without N does not see that A is singular (docs/methods.md). null_vectors() in core/statistics.hpp finds
  // null vectors of zeros and ones. Source: Kaasschieter, J. Comput. Appl. Math. 24 (1988) 265,
  // doi:10.1016/0377-0427(88)90358-5.
  void set_null_space(VectorBlock<const T> N);

  const SolverOptions& options() const noexcept { return options_; }
  // Sets StoppingRule::max_seconds of later solves, for a solve whose setup has taken a part of the time.
  PROTEAN_HIDDEN void set_max_seconds(double seconds) noexcept { options_.stopping.max_seconds = seconds; }
  virtual std::string_view name() const noexcept = 0;
  // Whether the method is for symmetric M only: cg, minres.
  virtual bool needs_symmetric_preconditioner() const noexcept = 0;

 protected:
  explicit Solver(SolverOptions options);

 private:
  // The implementation of the method with its vectors; see solvers/method.hpp.
  virtual std::unique_ptr<detail::Method<T>> make_method(const detail::WorkspaceLayout& layout) const = 0;

  SolverOptions options_;
  VectorBlock<const T> null_space_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<detail::Workspace<T>> workspace_;  // of the previous solve
};

struct SolverEntry {
  std::string_view id, title, source;
  std::unique_ptr<Solver<double>> (*make_f64)(const SolverOptions&);
  std::unique_ptr<Solver<float>> (*make_f32)(const SolverOptions&);
  int products = 1;        // products of A in one iteration
  bool symmetric = false;  // the method is for symmetric A only
};

// The methods, with the A and M that they allow, and their memory in vectors: without M, then with M.
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

// Throws BadArgument for an unknown method (with the nearest name), for an option out of range, and for an option that
// is not its default although the method does not read it (options_read_by()).
template <class T>
PROTEAN_EXPORT std::unique_ptr<Solver<T>> make_solver(std::string_view method,
                                                      const SolverOptions& options = {});

}  // namespace protean
