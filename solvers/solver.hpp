// Krylov solvers of A x = b against an abstract operator.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <protean/core/blas1.hpp>
#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/solve_report.hpp>
#include <protean/solvers/solver_options.hpp>
#include <protean/solvers/stopping.hpp>

namespace PROTEAN_EXPORT protean {

namespace PROTEAN_HIDDEN detail {
template <class T>
class Method;
template <class T>
struct Workspace;
struct WorkspaceLayout;
}  // namespace detail

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
  // StopReason::not_finite, whatever the residual says. Only fcg and fgmres allow an M^-1 r that is a different
  // function of r in each call, such as an iterative solve. Other methods then give wrong results, which the residual b
  // - A x shows at the end.
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
  // Of later solves, for a solve whose setup, or whose earlier parts, have taken a part of the limits.
  PROTEAN_HIDDEN void set_stopping(const StoppingRule& rule) noexcept { options_.stopping = rule; }
  virtual std::string_view name() const noexcept = 0;
  // Whether the method only takes a symmetric M: cg, minres.
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
  // How many iterations belong together: the residual falls evenly from cycle to cycle, not within one. With 1 each
  // iteration is judged alone.
  std::int64_t (*cycle)(const SolverOptions&) noexcept;
  int products = 1;        // products of A in one iteration
  bool symmetric = false;  // the method is for symmetric A only
  // The method goes on in its direction after b - A x has replaced its residual (reliable updates, docs/precision.md).
  bool reliable_updates = false;
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
