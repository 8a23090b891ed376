#include "apps/ranks/krylov.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "apps/command/clock.hpp"
#include "apps/command/interrupt.hpp"
#include "apps/ranks/asking.hpp"
#include "apps/ranks/block_preconditioner.hpp"
#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "interfaces/petsc/guard.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "solvers/advice.hpp"
#include "solvers/options.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::must;

// ---- the table of docs/distributed.md

struct MethodName {
  std::string_view ours;
  KSPType petsc;
  KSPNormType norm;  // of the residual that PETSc tests
  PCSide side;
};
constexpr MethodName methods[] = {
    {"cg", KSPCG, KSP_NORM_UNPRECONDITIONED, PC_LEFT},
    {"fcg", KSPFCG, KSP_NORM_UNPRECONDITIONED, PC_LEFT},
    {"minres", KSPMINRES, KSP_NORM_PRECONDITIONED, PC_LEFT},  // it has no other norm
    // From the right, PETSc 3.18.5 returns an x that is far from what its residual says.
    {"bicgstab2", KSPBCGSL, KSP_NORM_PRECONDITIONED, PC_LEFT},
    {"bicgstab", KSPBCGS, KSP_NORM_UNPRECONDITIONED, PC_RIGHT},
    {"gmres", KSPGMRES, KSP_NORM_UNPRECONDITIONED, PC_RIGHT},
    {"fgmres", KSPFGMRES, KSP_NORM_UNPRECONDITIONED, PC_RIGHT},
};

// `options`: the members of PreconditionerOptions that are carried over.
struct PreconditionerName {
  std::string_view ours;
  PCType petsc;
  std::array<std::string_view, 3> options;
};
constexpr PreconditionerName preconditioner_names[] = {
    {"auto", PCJACOBI, {"zero_diagonal"}},  // until the matrix is there
    {"none", PCNONE, {}},
    {"jacobi", PCJACOBI, {"zero_diagonal"}},
    {"gauss-seidel", PCSOR, {}},
    {"ssor", PCSOR, {"omega"}},
    {"ic0", PCSHELL, {}},  // ours, as the next ones (block_preconditioner.hpp)
    {"ic", PCSHELL, {}},
    {"ilu0", PCSHELL, {}},
    {"ilu", PCSHELL, {}},
    {"block-jacobi", PCSHELL, {}},
    {"chebyshev", PCKSP, {"degree", "eigenvalue_ratio"}},
    {"amg", PCGAMG, {}},
};
constexpr std::string_view solver_names[] = {
    "relative_tolerance", "absolute_tolerance", "baseline",          "max_iterations",
    "max_seconds",        "divergence",         "stagnation_window", "restart",
    "orthogonalization",  "directions",         "null_space"};

template <class Table>
const auto* find(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& one) { return one.ours == name; });
  return found == std::end(table) ? nullptr : &*found;
}
template <class Table>
std::string names_of(const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& one : table) names.push_back(one.ours);
  return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void refuse(const Place& place, const std::string& what) {
  fail(place, fmt::format("{} has no counterpart in engine petsc", what));
}

template <class Options>
void require_carried(const Place& place, std::span<const Option<Options>> table, const Options& options,
                     std::span<const std::string_view> carried, std::string_view section) {
  for (const Option<Options>& one : table)
    if (!one.is_default(options) && std::find(carried.begin(), carried.end(), one.name) == carried.end())
      fail(place,
           fmt::format(
               "{}.{} is {}, which has no counterpart in engine petsc; leave it out, and give PETSc's own "
               "options in petsc_options",
               section, one.name, value_text(one, one.value(options))));
}

// ---- the solve

constexpr std::int64_t most_iterations = std::numeric_limits<PetscInt>::max();

struct Test {
  const StoppingRule* rule = nullptr;
  const std::function<void(const KrylovIteration&)>* tell = nullptr;
  Clock clock;
  MPI_Comm comm = MPI_COMM_NULL;
  double goal = 0, baseline = 0, begin = 0;  // begin: of the residual when the method began last
  double scale = 1;                          // of PETSc's norm, that it is compared with the goal
  bool preconditioned = false;
  double last = 0, least = std::numeric_limits<double>::infinity(), first = 0;
  std::int64_t before = 0, least_at = 0;  // iterations
  StopReason reason = StopReason::running;
  std::optional<Asking> asking;
  int signal_code = 0;
};

PetscErrorCode converged(KSP, PetscInt it, PetscReal norm, KSPConvergedReason* reason, void* context) {
  Test& test = *static_cast<Test*>(context);
  const std::int64_t iteration = test.before + it;
  *reason = KSP_CONVERGED_ITERATING;
  const auto stop = [&](StopReason why, KSPConvergedReason code) { test.reason = why, *reason = code; };
  if (it == 0 && test.preconditioned) test.scale = norm > 0 ? test.begin / norm : 1;
  const double residual = test.last = norm * test.scale;
  if (it > 0 || test.before == 0)
    (*test.tell)({iteration, residual, test.baseline > 0 ? residual / test.baseline : 0, test.clock.total()});
  if (residual < test.least) test.least = residual, test.least_at = iteration;
  const StoppingRule& rule = *test.rule;
  if (!std::isfinite(norm))
    stop(StopReason::not_finite, KSP_DIVERGED_NANORINF);
  else if (residual <= test.goal)
    *reason = KSP_CONVERGED_RTOL;
  else if (iteration >= rule.max_iterations)
    stop(StopReason::max_iterations, KSP_DIVERGED_ITS);
  else if (residual > rule.divergence * std::max(test.baseline, test.first))
    stop(StopReason::divergence, KSP_DIVERGED_DTOL);
  else if (rule.stagnation_window > 0 && iteration - test.least_at >= rule.stagnation_window)
    stop(StopReason::stagnation, KSP_DIVERGED_BREAKDOWN);
  else if (const StopReason why = (*test.asking)(iteration, test.clock.total()); why != StopReason::running)
    test.signal_code = test.asking->signal_code(), stop(why, KSP_DIVERGED_ITS);
  return PetscErrorCode(0);
}

StopReason reason_of(KSPConvergedReason reason) {
  switch (reason) {
    case KSP_DIVERGED_ITS:
      return StopReason::max_iterations;
    case KSP_DIVERGED_DTOL:
      return StopReason::divergence;
    case KSP_DIVERGED_INDEFINITE_PC:
      return StopReason::indefinite_preconditioner;
    case KSP_DIVERGED_INDEFINITE_MAT:
      return StopReason::indefinite_operator;
    case KSP_DIVERGED_NANORINF:
      return StopReason::not_finite;
    default:
      return StopReason::breakdown;
  }
}

// The advice of engine protean names what that engine has. This names what PETSc has, and what ranks change.
std::string advice_of_engine(StopReason reason) {
  constexpr std::string_view better =
      "take a better preconditioner (symmetric positive definite matrix: amg, or ic0; other matrices: ilu0; "
      "block-jacobi if a node has several unknowns; all except amg see the rows of their own rank only, so "
      "that fewer ranks need fewer iterations)";
  if (reason == StopReason::max_iterations)
    return fmt::format("The limit of iterations was reached. Allow more, {}, or ask for less accuracy.",
                       better);
  if (reason == StopReason::time_limit)
    return fmt::format("The time limit was reached. Allow more time, take more ranks, or {}.", better);
  return std::string(detail::advice_for_any_method(reason));
}

double norm_of(Vec v, NormType type = NORM_2) {
  double norm = 0;
  must(VecNorm(v, type, &norm));
  return norm;
}

}  // namespace

void require_counterparts(const Problem& p) {
  const Place& place = p.engine.place;
  if (p.settings.method != "auto" && !find(methods, p.settings.method))
    refuse(place, fmt::format("solver.method {}", p.settings.method.name()) + ", which takes one of: " +
                      names_of(methods) + ". Others of PETSc's by petsc_options: '-ksp_type NAME'; this one");
  require_carried(place, solver_options(), p.settings.solver, solver_names, "solver");
  const std::string_view type = preconditioner_type(p.settings);
  const auto* const M = find(preconditioner_names, type);
  if (!M)
    fail(place,
         fmt::format(
             "preconditioner.type {} has no counterpart in engine petsc, which takes one of: {}. Others of "
             "PETSc's by petsc_options: '-pc_type NAME'",
             type, names_of(preconditioner_names)));
  // Ours read what they read with engine protean.
  if (!BlockPreconditioner::has(type))
    require_carried(place, preconditioner_options(), p.settings.preconditioning, M->options,
                    "preconditioner");
  for (const FilePath& file : {p.near_null_space.coordinates, p.near_null_space.vectors})
    if (file)
      fail(
          file.place,
          "vectors near the null space have no counterpart in engine petsc here; solve on one rank, or leave "
          "coordinates and near_null_space out");
  if (p.op.space == Space::device)
    fail(place, "operator.space device has no counterpart in engine petsc, whose formats are on the host");
  if (p.op.deterministic)
    fail(place, "operator.deterministic has no counterpart in engine petsc: sums of ranks have any order");
  if (p.settings.expected_iterations != 0)
    fail(place, "operator.expected_iterations has no counterpart in engine petsc");
  if (p.settings.precision != "double")
    fail(p.place_of("precision"), "operator.precision has no counterpart in engine petsc; leave it out");
  if (p.settings.order != "none")
    fail(p.place_of("order"),
         "matrix.order has no counterpart in engine petsc; `partition: graph` puts rows that belong together "
         "on one rank");
  if (!p.settings.schedule.empty())
    fail(p.schedule.place,
         "a list of points in schedule has no counterpart in engine petsc; take schedule: {policy: auto}, "
         "by which each rank decides for itself");
  if (p.schedule.machine || p.settings.overlapped)
    fail(p.schedule.place, "schedule.machine and schedule.overlapped have no counterpart in engine petsc");
  require_carried(p.schedule.place, policy_options(), p.settings.policy_options, {}, "schedule");
  if (p.matrix.fem && !p.matrix.fem->assembled) {
    if (type != "auto" && type != "none" && type != "jacobi" && type != "chebyshev")
      fail(place, fmt::format("preconditioner.type {} needs the assembled matrix; on element matrices over "
                              "ranks take jacobi, chebyshev or none, or matrix.generate.storage: assembled",
                              type));
    if (p.settings.policy == "auto")
      fail(p.schedule.place, "schedule changes nothing on element matrices over ranks; leave it out");
    if (p.engine.partition != "rows")
      fail(p.engine.partition_place,
           "partition is for assembled matrices; element matrices are shared out in their order");
  }
  if (p.rhs.columns > 1)
    fail(p.rhs.place,
         "engine petsc takes one right-hand side; solve them one after another, or on one rank with engine "
         "protean");
}

std::string options_of(const Problem& p, bool policy) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("-{} {} ", name, value);
  };
  if (!(p.matrix.fem && !p.matrix.fem->assembled)) {
    if (policy)
      add("mat_protean_policy", "true"), add("mat_protean_format", "csr"),
          add("mat_protean_off_diagonal_format", "csr");
    else
      add("mat_protean_format", p.settings.format);
    std::vector<std::string> parameters;
    for (const auto& [name, value] : p.settings.parameters.all()) parameters.push_back(name + "=" + value);
    if (!parameters.empty()) add("mat_protean_parameters", fmt::format("{}", fmt::join(parameters, ",")));
    if (!p.settings.kernel.empty()) add("mat_protean_kernel", p.settings.kernel);
    if (p.op.threads > 0) add("mat_protean_threads", std::to_string(p.op.threads));
  }
  return text + p.engine.options;
}

std::string note_on_unused(const Problem& p) {
  PetscInt count = 0;
  char **names = nullptr, **values = nullptr;
  must(PetscOptionsLeftGet(nullptr, &count, &names, &values));
  std::vector<std::string> unused;
  for (PetscInt k = 0; k < count; ++k) {
    const std::string name = fmt::format("-{}", names[k]);
    if ((p.engine.options + " ").find(name + " ") != std::string::npos) unused.push_back(name);
  }
  must(PetscOptionsLeftRestore(nullptr, &count, &names, &values));
  if (unused.empty()) return {};
  return fmt::format("PETSc has not used {} of petsc_options; is it spelt as PETSc spells it?",
                     fmt::join(unused, ", "));
}

void configure(KSP ksp, const Problem& p) {
  const MethodName& method = *find(methods, p.settings.method);
  const SolverOptions& options = p.settings.solver;
  must(KSPSetType(ksp, method.petsc));
  if (method.side == PC_RIGHT) must(KSPSetPCSide(ksp, PC_RIGHT));
  must(KSPSetNormType(ksp, method.norm));
  if (p.settings.method == "gmres" || p.settings.method == "fgmres") {
    must(KSPGMRESSetRestart(ksp, static_cast<PetscInt>(options.restart)));
    if (options.orthogonalization == "mgs") {
      must(KSPGMRESSetOrthogonalization(ksp, KSPGMRESModifiedGramSchmidtOrthogonalization));
    } else {
      must(KSPGMRESSetOrthogonalization(ksp, KSPGMRESClassicalGramSchmidtOrthogonalization));
      must(KSPGMRESSetCGSRefinementType(ksp, KSP_GMRES_CGS_REFINE_ALWAYS));
    }
  }
  if (p.settings.method == "fcg") must(KSPFCGSetMmax(ksp, static_cast<PetscInt>(options.directions)));
  PC pc = nullptr;
  must(KSPGetPC(ksp, &pc));
  const std::string_view type = preconditioner_type(p.settings);
  const PreconditionerOptions& M = p.settings.preconditioning;
  const PreconditionerName& name = *find(preconditioner_names, type);
  must(PCSetType(pc, name.petsc));
  if (type == "gauss-seidel") must(PCSORSetSymmetric(pc, SOR_LOCAL_FORWARD_SWEEP));
  if (type == "ssor")
    must(PCSORSetSymmetric(pc, SOR_LOCAL_SYMMETRIC_SWEEP)), must(PCSORSetOmega(pc, M.omega));
  if (type == "chebyshev") {
    KSP inner = nullptr;
    PC jacobi = nullptr;
    must(PCKSPGetKSP(pc, &inner));
    must(KSPSetType(inner, KSPCHEBYSHEV)), must(KSPSetNormType(inner, KSP_NORM_NONE));
    must(KSPSetTolerances(inner, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT,
                          static_cast<PetscInt>(M.degree)));
    must(KSPChebyshevEstEigSet(inner, 0, 1.1 / M.eigenvalue_ratio, 0, 1.1));
    must(KSPGetPC(inner, &jacobi)), must(PCSetType(jacobi, PCJACOBI));
  }
  if (options.null_space == "constant") {
    Mat A = nullptr;
    MatNullSpace constant = nullptr;
    must(KSPGetOperators(ksp, &A, nullptr));
    must(MatNullSpaceCreate(PetscObjectComm(protean_types::object(ksp)), PETSC_TRUE, 0, nullptr, &constant));
    must(MatSetNullSpace(A, constant)), must(MatSetTransposeNullSpace(A, constant));
    must(MatNullSpaceDestroy(&constant));
  }
  must(KSPSetFromOptions(ksp));
}

SolveReport solve(KSP ksp, Mat A, Vec b, Vec x, const StoppingRule& rule,
                  const std::function<void(const KrylovIteration&)>& on_iteration, StopReason ended,
                  int& signal_code) {
  SolveReport report;
  signal_code = 0;
  report.steps = "host";
  Test test;
  test.rule = &rule, test.tell = &on_iteration, test.comm = PetscObjectComm(protean_types::object(ksp));
  test.asking.emplace(test.comm, rule.max_seconds);
  Vec r = nullptr;
  must(VecDuplicate(b, &r));
  const auto true_residual = [&] {
    must(MatMult(A, x, r)), must(VecAYPX(r, -1, b));
    return norm_of(r);
  };
  report.rhs_norm = norm_of(b);
  double now = report.initial_residual = test.first = true_residual();
  test.baseline = rule.baseline == Baseline::rhs ? report.rhs_norm : now;
  test.goal = std::max(rule.relative_tolerance * test.baseline, rule.absolute_tolerance);
  test.last = now;
  KSPNormType norm = KSP_NORM_DEFAULT;
  must(KSPGetNormType(ksp, &norm));
  test.preconditioned = norm == KSP_NORM_PRECONDITIONED;
  must(KSPSetConvergenceTest(ksp, converged, &test, nullptr));
  if (report.rhs_norm == 0) {
    must(VecZeroEntries(x));
    now = 0, report.reason = StopReason::zero_right_hand_side, test.last = 0;
  } else if (!std::isfinite(now)) {
    report.reason = StopReason::not_finite;
  } else if (ended != StopReason::running && now > test.goal) {
    report.reason = ended;
    report.detail = "the setup of the preconditioner was ended";
    if (ended == StopReason::interrupted && InterruptGuard::asked())
      test.signal_code = InterruptGuard::exit_code();
    MPI_Allreduce(MPI_IN_PLACE, &test.signal_code, 1, MPI_INT, MPI_MAX, test.comm);
  }
  while (report.reason == StopReason::running) {
    if (now <= test.goal) {
      report.reason = now <= rule.relative_tolerance * test.baseline ? StopReason::relative_tolerance
                                                                     : StopReason::absolute_tolerance;
      break;
    }
    if (rule.max_iterations <= report.iterations) {
      report.reason = StopReason::max_iterations;
      break;
    }
    test.begin = now, test.before = report.iterations, test.reason = StopReason::running;
    // The test above decides; the policy forecasts from these numbers.
    const std::int64_t left =
        std::min<std::int64_t>(rule.max_iterations - report.iterations, most_iterations);
    must(KSPSetTolerances(ksp, std::min(test.goal / now, 0.99), 0, PETSC_DEFAULT,
                          static_cast<PetscInt>(left)));
    KSPConvergedReason why = KSP_CONVERGED_ITERATING;
    PetscInt its = 0;
    must(KSPSetInitialGuessNonzero(ksp, report.iterations > 0 || norm_of(x) > 0 ? PETSC_TRUE : PETSC_FALSE));
    must(KSPSolve(ksp, b, x));
    must(KSPGetConvergedReason(ksp, &why)), must(KSPGetIterationNumber(ksp, &its));
    report.iterations += its;
    const double before = now;
    now = true_residual();
    if (now <= test.goal) continue;
    if (why < 0) {
      report.reason = test.reason != StopReason::running ? test.reason : reason_of(why);
      report.detail = test.reason == StopReason::running ? KSPConvergedReasons[why] : "";
    } else if (now > 0.5 * before) {
      report.reason = StopReason::stagnation;
      report.detail = fmt::format(
          "PETSc's residual was small enough, b - A x was {:.3e} of the baseline, and a new start "
          "brought no better one",
          now / test.baseline);
    } else {
      ++report.restarts;
    }
  }
  // b - A x does not see an entry whose column of A is empty. (A NaN may get lost in the maximum of NORM_INFINITY.)
  if (report.iterations > 0 && !std::isfinite(norm_of(x, NORM_1))) {
    report.reason = StopReason::not_finite;
    report.detail += std::string(report.detail.empty() ? "" : "; ") + "x has entries that are not finite";
  }
  must(VecDestroy(&r));
  signal_code = report.reason == StopReason::interrupted ? test.signal_code : 0;
  report.recurrence_residual = test.last, report.true_residual = now;
  const double base = test.baseline > 0 ? test.baseline : 1;
  report.recurrence_relative = test.last / base, report.true_relative = now / base;
  report.seconds = test.clock.total();
  if (!report.converged()) report.advice = advice_of_engine(report.reason);
  return report;
}

}  // namespace protean::apps::ranks
