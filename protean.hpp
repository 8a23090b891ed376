// Everything a program that embeds Protean needs: #include <protean/protean.hpp>, link Protean::protean.
#pragma once
#if __cplusplus < 202002L
#error "Protean needs C++20: compile with -std=c++20 (CMake does so for what links Protean::protean)"
#endif

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <protean/core/background.hpp>
#include <protean/core/blas1.hpp>
#include <protean/core/context.hpp>
#include <protean/core/csr.hpp>
#include <protean/core/csr_view.hpp>
#include <protean/core/error.hpp>
#include <protean/core/generate/generate.hpp>
#include <protean/core/io/matrix_market.hpp>
#include <protean/core/io/pbin.hpp>
#include <protean/core/io/vector_file.hpp>
#include <protean/core/locality.hpp>
#include <protean/core/memory.hpp>
#include <protean/core/multi_blas1.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/core/ordering.hpp>
#include <protean/core/permutation.hpp>
#include <protean/core/statistics.hpp>
#include <protean/core/vector.hpp>
#include <protean/core/watch.hpp>
#include <protean/formats/catalogue.hpp>
#include <protean/formats/choose.hpp>
#include <protean/formats/compose.hpp>
#include <protean/formats/survey.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/callback_operator.hpp>
#include <protean/operators/elements/element_operator.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/multi_product.hpp>
#include <protean/operators/ordered_operator.hpp>
#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/operators/policy/cost_model.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/operators/rows.hpp>
#include <protean/preconditioners/callback_preconditioner.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/auto_switcher.hpp>
#include <protean/solvers/format_schedule.hpp>
#include <protean/solvers/multi_solver.hpp>
#include <protean/solvers/solver.hpp>

namespace protean {

// What solve() is to do, by the names of the catalogues. A key of a problem file has the same name and meaning.
struct SolveSettings {
  std::string method = "cg";              // solvers()
  SolverOptions solver = {};              // tolerances, limits, options of the method
  std::string preconditioner = "jacobi";  // preconditioners()
  PreconditionerOptions preconditioning = {};
  // A format's name, or "auto": the one that make_matrix("auto", ...) takes; with `policy` csr.
  std::string format = "auto";
  FormatParams parameters = {};  // of the format named
  std::string kernel = {};       // empty: the default one
  // The order of rows and columns in the solve: "none", "auto" (choose_order()) or one of orderings(). b, x, observer,
  // residuals and preconditioner keep the caller's.
  std::string order = "none";
  // The format, and the order of the rows, changes during the solve when that pays (AutoSwitcher), by the
  // built-in machine table or this one.
  bool policy = false;
  const MachineTable* machine = nullptr;
  PolicyOptions policy_options = {};
  // The format, or the order, changes at these points (FormatSchedule). There order "none" is the one in
  // which the solve began. Not together with policy.
  std::vector<SchedulePoint> schedule = {};
  ContextPtr context = nullptr;       // null: Context::host(); needed for arrays of a device
  SolveObserver* observer = nullptr;  // called in each iteration
};

struct SolveResult {
  SolveReport report;
  std::string format, kernel, order;   // in which the solve ended
  std::string order_reason;            // of order "auto": why it took what it did
  std::vector<SwitchRecord> switches;  // changes of format that took place
  std::vector<FailedSwitch> failed_switches;
  std::vector<DecisionRecord> decisions;    // of the policy
  std::vector<CandidateRecord> candidates;  // of the policy; empty if the solve ended before it looked
  std::vector<ScheduleEvent> events;        // of the schedule
  double order_seconds = 0;                 // of the order before the solve, with P A P^T
  double convert_seconds = 0;               // of the first format
  double setup_seconds = 0;                 // of the preconditioner
  bool converged() const noexcept { return report.converged(); }
};

// Solves A x = b in one call: makes the matrix in its format, sets the preconditioner up, solves. csr, b and x lie in
// the space of the context; csr and b are only read. x is the initial guess on entry and the solution on return. All
// is made anew in each call: to solve again with one matrix, make it, its preconditioner and solver once
// (make_matrix(), make_preconditioner(), make_solver()).
//
// Numerical trouble is no exception but the reason in the report. Throws BadArgument for unknown names (with the
// nearest one), options out of range, and policy with a schedule; NotAvailable for an order that is not in this build;
// BadMatrix for rows that are not sorted where a format, the policy or a schedule needs them sorted; otherwise what put_in_order(), make_matrix(), Preconditioner::ensure() and
// Solver::solve() throw. x is unchanged where it throws before the first iteration. T: float, double.
template <class T>
SolveResult solve(const CsrMatrix<T>& csr, std::type_identity_t<VectorView<const T>> b,
                  std::type_identity_t<VectorView<T>> x, const SolveSettings& settings = {});

struct MultiSolveResult {
  MultiSolveReport report;
  std::string format, kernel;
  // Of format "auto", where it was not taken because of the several vectors; else empty.
  std::string format_reason;
  double convert_seconds = 0;  // of the format
  double setup_seconds = 0;    // of the preconditioner
  bool converged() const noexcept { return report.converged(); }
};

// Solves A X = B for all columns of B at the same time (MultiSolver: methods cg, bicgstab and gmres). The matrix is read once for all of them in
// each iteration, in formats that have a product with several vectors (HasMultiProduct); report.product says so. csr, B and X lie
// in the space of the context, B and X in any layouts. X holds initial guesses on entry and the solutions on return. rules: a
// stopping rule for each column, or empty for settings.solver.stopping. format "auto" is csr where the one that solve() would take
// has no product with several vectors.
//
//   std::vector<double> B(n * k), X(n * k);   // one right-hand side after another, as Fortran has them
//   MultiSolveResult done = multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n});
//
// Throws as solve() and MultiSolver, and BadArgument for settings that are not for several right-hand sides: policy, schedule,
// order, observer (MultiSolver::solve() has one).
template <class T>
MultiSolveResult multi_solve(const CsrMatrix<T>& csr, std::type_identity_t<MultiVectorView<const T>> B,
                             std::type_identity_t<MultiVectorView<T>> X, const SolveSettings& settings = {},
                             std::span<const StoppingRule> rules = {});

}  // namespace protean
