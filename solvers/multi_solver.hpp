// Krylov solves with several right-hand sides: A X = B.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/solve_report.hpp>
#include <protean/solvers/solver.hpp>

namespace PROTEAN_EXPORT protean {

namespace PROTEAN_HIDDEN detail {
template <class T>
struct MultiWorkspace;
struct MultiMethodEntry;
}  // namespace detail

// Methods that have a form for several right-hand sides: all of solvers(), in that order.
std::span<const std::string_view> multi_methods() noexcept;

// Solves A x_j = b_j for all columns j at the same time, so that one pass over A serves all of them. Each column has
// its own recurrences, scalars, tolerances and result, as in a separate solve (Solver). The columns share the passes
// over A and over the vectors, and nothing else. This is not a block Krylov method: no column uses the Krylov space of
// another. So iterations and solutions are equal to k single solves within rounding.
//
// If A computes in another order of the rows (HasOrder), so does the solve. It permutes B and X once before the solve
// and X once after it, which takes two vectors for each column. If A gets another order during the solve, the solve
// permutes its vectors once, which takes one more for each column.
//
// A column that has ended is returned at once (in another order when all have ended) and is computed no more. Up to
// three ended columns stay in the block of vectors; their numbers are not changed. With more of them the
// remaining columns are packed together.
//
// gmres, fgmres: all columns begin their restart cycles together. A column may have to restart within a cycle, because
// its recurrence was wrong or broke down. It then waits for the end of the common cycle; the steps of the others in
// that time do not count as steps of this column. The basis of each column is read as often as in a separate solve, so
// only the products gain. Single solves may be faster if the basis of one column fits into the caches and the bases of
// all do not.
//
// idr: a column that restarts while others are in the middle of a cycle of s + 1 steps has a shorter first cycle. Its
// iterations may differ from the iterations of a separate solve.
//
// Memory for each column: one vector more than the method takes for one (solvers()). Products or M^-1 column by column
// take 2 more vectors, idr s more. With residual_norm diagonal each column takes one more (gmres, fgmres, and minres
// without M: two), and all together take one. The solver keeps the memory between solves, and uses it again for the
// same size and context and no more columns. It refuses to take more than the host has (OutOfMemory): give fewer
// columns at a time, or a smaller restart. Two threads must not use one solver at the same time (BadArgument).
template <class T>
class MultiSolver {
 public:
  // Throws BadArgument for an unknown method, for options out of range or that the method does not read, and for
  // device_steps resident.
  explicit MultiSolver(std::string_view method = "cg", const SolverOptions& options = {});
  ~MultiSolver();
  MultiSolver(const MultiSolver&) = delete;
  MultiSolver& operator=(const MultiSolver&) = delete;

  // B and X: n x k in the space of A, k from 0 on (on a GPU up to 256), in any layouts, which do not overlap. X:
  // initial guesses on entry, solutions on return. M as in Solver::solve(); an M without HasMultiProduct and
  // inverse_diagonal() is applied column by column. rules: one for each column, or empty for options().stopping. Throws
  // what Solver::solve() throws; X holds some iterates then, or the initial guesses.
  MultiSolveReport solve(const LinearOperator<T>& A, MultiVectorView<const T> B, MultiVectorView<T> X,
                         const Preconditioner<T>* M = nullptr, MultiSolveObserver* observer = nullptr,
                         std::span<const StoppingRule> rules = {});

  // Solver::set_null_space() for all columns: a column whose b has a part in the null space above its tolerance ends
  // with StopReason::inconsistent. For methods cg, fcg and minres. Option null_space "constant" is for all columns,
  // too. The columns are projected one after another when a recurrence begins and when it ends, which takes one more
  // vector.
  void set_null_space(VectorBlock<const T> N);

  const SolverOptions& options() const noexcept { return options_; }
  std::string_view name() const noexcept;

 private:
  SolverOptions options_;
  const detail::MultiMethodEntry* entry_ = nullptr;
  VectorBlock<const T> null_space_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<detail::MultiWorkspace<T>> workspace_;
};

}  // namespace protean
