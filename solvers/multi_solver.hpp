// Krylov solves with several right-hand sides: A X = B.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/multi_vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/solver.hpp>

namespace protean {

struct MultiIterationInfo {
  std::int64_t iteration = 0;  // 0: the initial guesses
  std::int64_t running = 0;    // columns that have not ended
  // For each column the 2-norm of its recurrence residual, and that divided by the baseline of its rule; those of a column that
  // has ended stay.
  std::span<const double> residuals, relative_residuals;
  double seconds = 0;  // since the solve began
};

// Called between two iterations, also after iteration 0. A device computes some iterations ahead and reports several of
// them in one call. Only here may an operator change its storage format or its values; columns then begin again from
// b - A x with the new A. Return false to end all columns with StopReason::interrupted.
class MultiSolveObserver {
 public:
  virtual ~MultiSolveObserver() = default;
  virtual bool on_iteration(const MultiIterationInfo& info) = 0;
};

struct MultiSolveReport {
  // One for each column. seconds: when that column ended, since the solve began.
  std::vector<SolveReport> columns;
  std::int64_t iterations = 0;  // of the column with the most
  // Products with several vectors: each reads the operator once, where `product` is "in one pass".
  std::int64_t products = 0;
  // "in one pass", or "column by column: " and why.
  std::string product, preconditioner;  // preconditioner: empty without one; "diagonal" where M^-1 is one
  std::string steps;                    // as SolveReport::steps: "host", "simulated", on a GPU "queued"
  double seconds = 0;
  // True for no columns.
  bool converged() const noexcept;
};

namespace detail {
template <class T>
struct MultiWorkspace;
struct MultiMethodEntry;
}  // namespace detail

// Methods that have a form for several right-hand sides: cg, bicgstab and gmres.
std::span<const std::string_view> multi_methods() noexcept;

// Solves A x_j = b_j for all columns j at the same time, so that one pass over A serves all of them. Each column has the
// recurrences, scalars, tolerances and result of a solve of its own (Solver): nothing is shared but the passes over A and
// over the vectors, which is not a block Krylov method: no column learns from another. So iterations and solutions are
// those of k single solves within rounding.
//
// A column that has ended is returned at once and is not computed any more. Up to three of them may hold a place among the vectors,
// where their numbers are left as they are; then the others are packed together.
//
// gmres: the cycles of restarts begin together. A column that begins again within a cycle, since its recurrence was wrong or broke
// down, waits for the others to end or to begin theirs; the steps that they do meanwhile do not count for it. The bases of all columns
// are read as often as in solves of their own. So only products gain, and where the basis of one column lies in the caches and those
// of all do not, single solves may be faster.
//
// Memory for each column: cg 4 vectors, 5 with a preconditioner that is no diagonal; bicgstab 6, 8 with a preconditioner; gmres
// 3 + restart, 4 + restart with a preconditioner. And 2 vectors where products or M^-1 go column by column. The solver keeps it
// between solves, and uses it again for the same size and context and no more columns. What is more than the host has is refused
// before it is taken (OutOfMemory): give fewer columns at a time, or a smaller restart.
// Two threads must not use one solver at the same time (BadArgument).
template <class T>
class MultiSolver {
 public:
  // Throws BadArgument for a method without a form for several right-hand sides, for options out of range, and for
  // null_space and device_steps other than none and auto.
  explicit MultiSolver(std::string_view method = "cg", const SolverOptions& options = {});
  ~MultiSolver();
  MultiSolver(const MultiSolver&) = delete;
  MultiSolver& operator=(const MultiSolver&) = delete;

  // B and X: n x k in the space of A, k from 0 on (on a GPU up to 256), in any layouts, which do not overlap. X: initial
  // guesses on entry, solutions on return. M as in Solver::solve(); one without HasMultiProduct and inverse_diagonal() is
  // applied column by column. rules: one for each column, or empty for options().stopping. Throws as Solver::solve(); X holds
  // some iterates then, or the initial guesses.
  MultiSolveReport solve(const LinearOperator<T>& A, MultiVectorView<const T> B, MultiVectorView<T> X,
                         const Preconditioner<T>* M = nullptr, MultiSolveObserver* observer = nullptr,
                         std::span<const StoppingRule> rules = {});

  const SolverOptions& options() const noexcept { return options_; }
  std::string_view name() const noexcept;

 private:
  SolverOptions options_;
  const detail::MultiMethodEntry* entry_ = nullptr;
  std::atomic<bool> busy_{false};
  std::unique_ptr<detail::MultiWorkspace<T>> workspace_;
};

}  // namespace protean
