// Solves: the solver and the matrix of a handle at work.
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "interfaces/c/handles.hpp"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "systems/linear_system.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

// The solver for this precision, with all that was set.
template <class T>
SystemSolver<T>& system_of(protean_solver& solver) {
  SolverOf<T>& part = part_of<T>(solver);
  const bool others =
      sizeof(T) == 8 ? static_cast<bool>(solver.f32.apply) : static_cast<bool>(solver.f64.apply);
  if (others)
    throw BadArgument(std::string("the preconditioner of the caller is not in ") + precision<T> +
                      " precision, the matrix is");
  if (!part.system)
    part.system = std::make_unique<SystemSolver<T>>(solver.settings);
  else if (!part.told)
    part.system->set(solver.settings);
  part.told = true, part.near_null_space = solver.near_null_space;
  if (part.own_preconditioner) {
    part.own_preconditioner = false;
    if (part.apply)
      part.system->set_preconditioner([&part](
                                          const LinearOperator<T>& A) -> std::unique_ptr<Preconditioner<T>> {
        return std::make_unique<CallbackPreconditioner<T>>(A.context(), A.shape(), part.apply, part.setup,
                                                           CallbackOptions{"of the caller", part.recordable});
      });
    else
      part.system->set_preconditioner({});
  }
  return *part.system;
}

// Calls the monitor of the caller.
template <class T>
class Monitor final : public SolveObserver {
 public:
  Monitor(const protean_solver& solver, const protean_matrix& matrix, const MatrixOf<T>& part)
      : solver_(solver), matrix_(matrix), part_(part) {}
  bool on_iteration(const IterationInfo& info) override {
    const Counted running(matrix_.monitored);
    const std::string format(part_.A().name()), order(part_.system->order());
    const protean_iteration now{info.iteration, info.residual,  info.relative_residual, info.seconds,
                                info.restarts,  format.c_str(), order.c_str()};
    std::memcpy(shown_, &now, sizeof now);
    return solver_.monitor(solver_.monitor_user, reinterpret_cast<const protean_iteration*>(shown_)) == 0;
  }

 private:
  const protean_solver& solver_;
  const protean_matrix& matrix_;
  const MatrixOf<T>& part_;
  // A program that was compiled with a newer header finds zeros in the members that are not known here.
  alignas(protean_iteration) std::byte shown_[largest_struct] = {};
};

std::string line_of(const DecisionRecord& one) {
  return "iteration " + std::to_string(one.iteration) + ": " + std::string(to_string(one.action)) +
         (one.format.empty() ? "" : " ") + one.format + ": " + one.reason;
}

// Whether solves with it change format or order of the matrix.
bool changes_matrix(const protean_solver& solver) {
  return solver.settings.policy == "auto" || !solver.settings.schedule.empty();
}

// The solver and the matrix of a solve, which are in use while it lives. The results of the last solve end with it.
template <class T>
class Running {
 public:
  Running(protean_solver& solver, const protean_matrix& matrix, const MatrixOf<T>& part)
      : solver_(solver), part_(part), matrix_(matrix), solve_(matrix.solves) {
    if (matrix.solves > 1 && changes_matrix(solver))
      throw BadArgument(
          "a solve is running with this matrix, so that another one cannot change its format and order; take "
          "a solver without schedule and policy");
    require_not_running(solver);
    check_effects(solver.settings);
    solver.running = true;
    solver.report = {}, solver.columns = {};
    solver.reason.clear(), solver.advice.clear();
    solver.last_method.clear(), solver.method_reason.clear();
    solver.last_preconditioner.clear(), solver.preconditioner_reason.clear();
    solver.switches.clear(), solver.failed_switches.clear(), solver.decisions.clear();
  }
  // Also when the solve throws: the format may have changed before.
  ~Running() {
    solver_.running = false;
    try {
      const auto lock = part_.system->preparing();  // other solves may begin, end and change the format
      tell(matrix_, part_);
    } catch (...) {}
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  protean_solver& solver_;
  const MatrixOf<T>& part_;
  const protean_matrix& matrix_;
  const Counted solve_;
};

// What the solve has used, why `auto` took it, and what has changed.
void keep(protean_solver& solver, SolveOutcome& result) {
  solver.last_method = std::move(result.method), solver.method_reason = std::move(result.method_reason);
  solver.last_preconditioner = std::move(result.preconditioner);
  solver.preconditioner_reason = std::move(result.preconditioner_reason);
  solver.switches = std::move(result.switches), solver.failed_switches = std::move(result.failed_switches);
  for (const DecisionRecord& one : result.decisions) solver.decisions.push_back(line_of(one));
}

void require_one_of_two(const protean_solver& solver) {
  if (solver.settings.policy == "auto" && !solver.settings.schedule.empty())
    throw BadArgument("policy auto and a schedule exclude each other; call protean_solver_schedule_clear()");
}

template <class T>
void run(protean_solver& solver, const protean_matrix& matrix, MatrixOf<T>& part, VectorView<const T> b,
         VectorView<T> x) {
  Monitor<T> monitor(solver, matrix, part);
  SolveResult result = system_of<T>(solver).solve(*part.system, b, x, solver.monitor ? &monitor : nullptr);
  solver.report = std::move(result.report);
  keep(solver, result);
}

// The status of a solve that ended without an exception says whether it has converged.
protean_status ended(protean_status status, bool converged, const protean_solver* solver) {
  if (status != PROTEAN_OK || converged) return status;
  return failed(PROTEAN_NOT_CONVERGED, (solver->reason + ". " + solver->advice).c_str());
}

template <class T>
protean_status solve(protean_solver* solver, const protean_matrix* matrix, const T* b, T* x) {
  bool converged = false;
  const protean_status status = guarded([&] {
    require_not_running(*need(solver, "solver"));
    // A change of format during the solve is not a change of the operator, so the handle of the caller is const.
    MatrixOf<T>& part = const_cast<MatrixOf<T>&>(part_of<T>(matrix));
    const VectorView<const T> from = input(*matrix, b, "b");
    const VectorView<T> to = output(*matrix, x, "x");
    require_one_of_two(*solver);
    const Running<T> running(*solver, *matrix, part);
    run(*solver, *matrix, part, from, to);
    solver->reason = to_string(solver->report.reason);
    converged = solver->report.converged();
    if (!converged) solver->advice = solver->report.advice;
  });
  return ended(status, converged, solver);
}

// What is reported of the last solve if it had several columns: the first that has not converged, else the longest.
const SolveReport* worst(const MultiSolveReport& all) {
  const SolveReport* found = nullptr;
  for (const SolveReport& one : all.columns) {
    if (!one.converged()) return &one;
    if (!found || one.iterations > found->iterations) found = &one;
  }
  return found;
}

template <class T>
protean_status solve_multi(protean_solver* solver, const protean_matrix* matrix, int64_t count, const T* B,
                           int64_t ldb, T* X, int64_t ldx) {
  bool converged = false;
  const protean_status status = guarded([&] {
    require_not_running(*need(solver, "solver"));
    MatrixOf<T>& part = const_cast<MatrixOf<T>&>(part_of<T>(matrix));
    const auto from = several<const T>(*matrix, B, part.A().rows(), count, ldb, "B");
    const auto to = several<T>(*matrix, X, part.A().rows(), count, ldx, "X");
    if (solver->monitor)
      throw BadArgument(
          "a monitor is for one right-hand side; take it off, or solve the columns one after another");
    require_one_of_two(*solver);
    const Running<T> running(*solver, *matrix, part);
    MultiSolveResult result = system_of<T>(*solver).multi_solve(*part.system, from, to);
    solver->columns = std::move(result.report);
    keep(*solver, result);
    converged = solver->columns.converged();
    if (const SolveReport* const one = worst(solver->columns)) {
      solver->report = *one;
      solver->report.seconds = solver->columns.seconds;
      solver->reason = to_string(one->reason);
      if (!converged) solver->advice = one->advice;
    }
  });
  return ended(status, converged, solver);
}

}  // namespace

extern "C" {

protean_status protean_solve(protean_solver* solver, const protean_matrix* matrix, const double* b,
                             double* x) {
  return solve(solver, matrix, b, x);
}
protean_status protean_solve_f32(protean_solver* solver, const protean_matrix* matrix, const float* b,
                                 float* x) {
  return solve(solver, matrix, b, x);
}

protean_status protean_solve_multi(protean_solver* solver, const protean_matrix* matrix, int64_t count,
                                   const double* B, int64_t ldb, double* X, int64_t ldx) {
  return solve_multi(solver, matrix, count, B, ldb, X, ldx);
}
protean_status protean_solve_multi_f32(protean_solver* solver, const protean_matrix* matrix, int64_t count,
                                       const float* B, int64_t ldb, float* X, int64_t ldx) {
  return solve_multi(solver, matrix, count, B, ldb, X, ldx);
}

}  // extern "C"
