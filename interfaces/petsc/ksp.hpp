// The KSP type protean: what PETSc calls.
#pragma once
#include <petsc/private/kspimpl.h>
#include <petscksp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/protean.hpp>

#include "calls.hpp"
#include "matrix.hpp"
#include "options.hpp"
#include "vectors.hpp"

namespace protean_petsc {

inline constexpr char KSPPROTEAN[] = "protean";

namespace detail {

// z := M^-1 r by PCApply().
class Preconditioner final : public protean::Preconditioner<double> {
 public:
  Preconditioner(const protean::ContextPtr& context, protean::Shape shape, PC pc, Vec like)
      : protean::Preconditioner<double>(context, shape), pc_(pc) {
    must(VecDuplicate(like, &vectors_.in));
    must(VecDuplicate(like, &vectors_.out));
  }

  PC pc() const { return pc_; }
  // Before each solve. null_space: taken out of each M^-1 r, or null.
  void refresh(MatNullSpace null_space) {
    null_space_ = null_space;
    PetscBool jacobi = PETSC_FALSE;
    must(PetscObjectTypeCompare(object(pc_), PCJACOBI, &jacobi));
    diagonal_.clear();
    if (!jacobi || null_space) return;
    // The entries of a diagonal are its product with ones; the methods multiply by it inside their own vector
    // operations.
    const std::vector<double> ones(static_cast<std::size_t>(rows()), 1.0);
    diagonal_.resize(ones.size());
    apply_to(ones.data(), diagonal_.data());
  }

  std::string_view name() const noexcept override { return "of PETSc"; }
  protean::VectorView<const double> inverse_diagonal() const noexcept override {
    return {diagonal_.data(), static_cast<std::int64_t>(diagonal_.size())};
  }

 protected:
  void setup(const protean::LinearOperator<double>&, bool) override {}  // KSPSetUp() has done it
  void do_apply(double alpha, protean::VectorView<const double> x, double beta,
                protean::VectorView<double> y) const override {
    if (alpha == 1 && beta == 0) return apply_to(x.data, y.data);
    product_.resize(static_cast<std::size_t>(rows()));
    apply_to(x.data, product_.data());
    for (std::int64_t i = 0; i < y.size; ++i)
      y[i] = alpha * product_[static_cast<std::size_t>(i)] + (beta == 0 ? 0 : beta * y[i]);
  }

 private:
  void apply_to(const double* r, double* z) const {
    const Placed in(vectors_.in, r), out(vectors_.out, z);
    must(PCApply(pc_, vectors_.in, vectors_.out));
    if (null_space_) must(MatNullSpaceRemove(null_space_, vectors_.out));
  }

  PC pc_;
  Pair vectors_;
  MatNullSpace null_space_ = nullptr;
  std::vector<double> diagonal_;
  mutable std::vector<double> product_;
};

// What ksp->data points to.
struct KspData {
  Options options;
  protean::ContextPtr context;     // made when it is needed
  std::unique_ptr<Matrix> matrix;  // null if the operator is a shell
  std::unique_ptr<protean::SystemSolver<double>> solver;
  Preconditioner* preconditioner = nullptr;  // of the solver, of the last solve; null for none
  std::vector<double> null_space;
  protean::SolveReport report;
  std::string description;    // of the matrix at the end of the last solve
  int threads = 0;            // of that solve
  bool in_iteration = false;  // a monitor or a convergence test of the program runs
};
inline KspData& data_of(KSP ksp) { return *static_cast<KspData*>(ksp->data); }

// Calls the monitors, and the convergence test if that is not PETSc's default one.
class Observer final : public protean::SolveObserver {
 public:
  Observer(KSP ksp, bool own_test) : ksp_(ksp), own_test_(own_test) {}
  bool on_iteration(const protean::IterationInfo& info) override {
    struct Inside {
      bool& flag;
      explicit Inside(bool& f) : flag(f) { flag = true; }
      ~Inside() { flag = false; }
    } inside(data_of(ksp_).in_iteration);
    const auto iteration = static_cast<PetscInt>(info.iteration);
    ksp_->its = iteration, ksp_->rnorm = info.residual;
    // x has changed, and norms of it that PETSc keeps are old.
    must(PetscObjectStateIncrease(object(ksp_->vec_sol)));
    must(KSPLogResidualHistory(ksp_, info.residual));
    must(KSPMonitor(ksp_, iteration, info.residual));
    if (own_test_) must((*ksp_->converged)(ksp_, iteration, info.residual, &reason_, ksp_->cnvP));
    return reason_ == KSP_CONVERGED_ITERATING;
  }
  KSPConvergedReason reason() const { return reason_; }

 private:
  KSP ksp_;
  bool own_test_;
  KSPConvergedReason reason_ = KSP_CONVERGED_ITERATING;
};

// If b - A x is small enough, PETSc decides by the norm which of the two tolerances was reached.
inline KSPConvergedReason reason_of(const protean::SolveReport& report, KSP ksp) {
  switch (report.reason) {
    case protean::StopReason::relative_tolerance:
    case protean::StopReason::absolute_tolerance:
    case protean::StopReason::zero_right_hand_side:
      return ksp->rnorm <= ksp->abstol ? KSP_CONVERGED_ATOL : KSP_CONVERGED_RTOL;
    case protean::StopReason::max_iterations:
    case protean::StopReason::time_limit:
      return KSP_DIVERGED_ITS;
    case protean::StopReason::divergence:
      return KSP_DIVERGED_DTOL;
    case protean::StopReason::indefinite_operator:
    case protean::StopReason::negative_definite:
      return KSP_DIVERGED_INDEFINITE_MAT;
    case protean::StopReason::indefinite_preconditioner:
      return KSP_DIVERGED_INDEFINITE_PC;
    case protean::StopReason::not_finite:
      return KSP_DIVERGED_NANORINF;
    case protean::StopReason::inconsistent:
      return KSP_DIVERGED_NULL;
    case protean::StopReason::running:
    case protean::StopReason::interrupted:
    case protean::StopReason::breakdown:
    case protean::StopReason::stagnation:
    case protean::StopReason::underflow:
      break;
  }
  return KSP_DIVERGED_BREAKDOWN;
}

// The operator of the KSP, up to date. A shell of MatCreateProtean() has its own.
inline Matrix& bring_up_to_date(KSP ksp) {
  KspData& data = data_of(ksp);
  Mat A = nullptr;
  must(PCGetOperators(ksp->pc, &A, nullptr));
  const bool adaptive = data.options.policy || !data.options.schedule.empty();
  if (Matrix* const made = matrix_in(A)) {
    const MatrixOptions& asked = data.options.matrix;
    if (adaptive || asked.format != "auto" || asked.order != "none" || !asked.kernel.empty() ||
        !asked.parameters.all().empty())
      throw protean::BadArgument(
          "the matrix was made by MatCreateProtean() in format " + made->options().format +
          ", so the KSP cannot give it a format, an order or the policy; name them there, or "
          "give the KSP the matrix of type seqaij");
    data.matrix.reset();
    made->update();
    return *made;
  }
  if (!data.context) data.context = protean::Context::host(data.options.threads);
  if (!data.matrix || data.matrix->mat() != A) {
    data.matrix.reset();
    const protean::SolveForecast forecast{
        .products_per_iteration = static_cast<double>(protean::find_solver(data.options.method).products),
        .policy = data.options.policy};
    data.matrix = std::make_unique<Matrix>(data.context, A, data.options.matrix, forecast, adaptive);
  } else {
    data.matrix->update();
  }
  return *data.matrix;
}

inline PetscErrorCode ksp_setup(KSP ksp) {
  const bool left = ksp->pc_side == PC_LEFT;
  PetscCheck(!ksp->transpose_solve, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean does not solve with the transpose (KSPSolveTranspose); transpose the matrix");
  PetscCheck(!ksp->calc_sings && !ksp->calc_ritz, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean computes no singular values, eigenvalues or Ritz vectors");
  return guarded(comm_of(ksp), [&] {
    const Options& options = data_of(ksp).options;
    if (left && !protean::find_solver(options.method).symmetric)
      throw protean::NotAvailable(
          "method " + options.method +
          " is right-preconditioned; call KSPSetPCSide(ksp, PC_RIGHT), or leave the call out");
    if (options.policy && !options.schedule.empty())
      throw protean::BadArgument("policy and schedule exclude each other; take one of them");
    bring_up_to_date(ksp);
  });
}

// The tolerances of the KSP as our StoppingRule.
inline protean::StoppingRule rule_of(KSP ksp, const Matrix& matrix, protean::VectorView<const double> b,
                                     protean::VectorView<const double> x, bool own_test) {
  protean::StoppingRule rule = data_of(ksp).options.solver.stopping;
  rule.max_iterations = ksp->max_it;
  rule.relative_tolerance = ksp->rtol, rule.absolute_tolerance = ksp->abstol;
  rule.divergence = std::max<double>(1, ksp->divtol);
  rule.baseline = protean::Baseline::rhs;
  if (own_test || ksp->normtype == KSP_NORM_NONE) {  // the test decides, or the number of iterations
    rule.relative_tolerance = rule.absolute_tolerance = 0;
    rule.divergence = std::numeric_limits<double>::infinity();
    return rule;
  }
  const auto& test = *static_cast<const KSPConvergedDefaultCtx*>(ksp->cnvP);
  if (test.initialrtol) rule.baseline = protean::Baseline::initial_residual;
  if (test.mininitialrtol && !ksp->guess_zero) {
    protean::Vector<double> r(matrix.get().context(), b.size);
    std::copy(b.data, b.data + b.size, r.data());
    matrix.get().apply(-1, x, 1, r.view());
    const auto norm = [](protean::VectorView<const double> v) {
      return std::sqrt(std::inner_product(v.data, v.data + v.size, v.data, 0.0));
    };
    const double smaller = std::min(norm(b), norm(r));
    if (std::isfinite(smaller)) rule.absolute_tolerance = std::max(ksp->abstol, ksp->rtol * smaller);
    rule.relative_tolerance = 0;
  }
  return rule;
}

// A null space of the matrix: the methods for symmetric matrices take it as one of theirs; for the others M^-1 r is
// freed of it.
inline MatNullSpace null_space_of(KSP ksp) {
  Mat A = nullptr;
  MatNullSpace found = nullptr;
  must(PCGetOperators(ksp->pc, &A, nullptr));
  must(MatGetNullSpace(A, &found));
  return found;
}
inline void set_null_space(KspData& data, MatNullSpace null_space, std::int64_t n) {
  PetscBool constant = PETSC_FALSE;
  PetscInt count = 0;
  const Vec* vectors = nullptr;
  must(MatNullSpaceGetVecs(null_space, &constant, &count, &vectors));
  data.null_space.clear();
  if (constant) data.null_space.assign(static_cast<std::size_t>(n), 1 / std::sqrt(static_cast<double>(n)));
  for (PetscInt j = 0; j < count; ++j) {
    const Reading v(vectors[j]);
    data.null_space.insert(data.null_space.end(), v.view().data, v.view().data + n);
  }
  data.solver->set_null_space({data.null_space.data(), n, n, count + (constant ? 1 : 0)});
}

inline bool same_rule(const protean::StoppingRule& a, const protean::StoppingRule& b) {
  return a.relative_tolerance == b.relative_tolerance && a.absolute_tolerance == b.absolute_tolerance &&
         a.max_iterations == b.max_iterations && a.divergence == b.divergence && a.baseline == b.baseline;
}

inline void solve(KSP ksp) {
  KspData& data = data_of(ksp);
  Matrix& matrix = bring_up_to_date(ksp);
  const protean::LinearOperator<double>& A = matrix.get();
  PCFailedReason failed = PC_NOERROR;
  must(PCGetFailedReason(ksp->pc, &failed));
  ksp->its = 0;
  if (failed != PC_NOERROR) {
    ksp->reason = KSP_DIVERGED_PC_FAILED;
    return;
  }
  if (ksp->guess_zero) must(VecSet(ksp->vec_sol, 0));
  const Reading b(ksp->vec_rhs);
  const Writing x(ksp->vec_sol);

  // The default test is our own rule, so that b - A x itself decides. Another one is asked in each iteration.
  const bool own_test = ksp->converged != KSPConvergedDefault;
  const protean::StoppingRule rule = rule_of(ksp, matrix, b.view(), x.view(), own_test);
  if (!data.solver || !same_rule(data.solver->settings().solver.stopping, rule)) {
    protean::SolveSettings wanted;
    wanted.method = data.options.method, wanted.solver = data.options.solver, wanted.solver.stopping = rule;
    wanted.preconditioner = "none";  // the PC of the KSP is another one
    wanted.policy = "none";
    if (data.matrix) {  // a shell of MatCreateProtean() keeps its format
      if (data.options.policy) wanted.policy = "auto";
      wanted.policy_options = data.options.policy_options;
      wanted.schedule = data.options.schedule;
    }
    if (data.solver) {
      if (!protean::find_solver(wanted.method).symmetric) data.solver->set_null_space({});
      data.solver->set(std::move(wanted));
    } else {
      data.solver = std::make_unique<protean::SystemSolver<double>>(std::move(wanted));
    }
  }
  const bool symmetric = protean::find_solver(data.options.method).symmetric;
  const MatNullSpace null_space = null_space_of(ksp);
  if (symmetric && null_space)
    set_null_space(data, null_space, A.rows());
  else if (symmetric)
    data.solver->set_null_space({});
  PetscBool none = PETSC_FALSE;
  must(PetscObjectTypeCompare(object(ksp->pc), PCNONE, &none));
  const bool wanted = !none || (null_space && !symmetric);
  if (wanted != (data.preconditioner != nullptr) ||
      (wanted && (data.preconditioner->pc() != ksp->pc || data.preconditioner->shape() != A.shape() ||
                  data.preconditioner->context() != A.context()))) {
    data.preconditioner = nullptr;
    if (wanted)
      data.solver->set_preconditioner([&data, ksp](const protean::LinearOperator<double>& B) {
        auto made = std::make_unique<Preconditioner>(B.context(), B.shape(), ksp->pc, ksp->vec_rhs);
        data.preconditioner = made.get();
        return made;
      });
    else
      data.solver->set_preconditioner({});
  }
  // The solver makes it if the operator is another one, as one that changes its format, so it is made before.
  data.solver->set_up(matrix.system());
  if (data.preconditioner) data.preconditioner->refresh(symmetric ? nullptr : null_space);

  Observer observer(ksp, own_test);
  data.report = data.solver->solve(matrix.system(), b.view(), x.view(), &observer).report;
  data.description = matrix.description();
  data.threads = matrix.get().context()->threads();

  const protean::SolveReport& report = data.report;
  ksp->its = static_cast<PetscInt>(report.iterations);
  ksp->rnorm = report.reason == protean::StopReason::zero_right_hand_side ? 0 : report.true_residual;
  ksp->reason = observer.reason() != KSP_CONVERGED_ITERATING ? observer.reason() : reason_of(report, ksp);
  if (ksp->reason == KSP_DIVERGED_ITS &&
      (ksp->normtype == KSP_NORM_NONE ||
       (!own_test && static_cast<const KSPConvergedDefaultCtx*>(ksp->cnvP)->convmaxits)))
    ksp->reason = KSP_CONVERGED_ITS;
  must(PCGetFailedReason(ksp->pc, &failed));
  if (ksp->reason == KSP_DIVERGED_NANORINF && failed != PC_NOERROR) ksp->reason = KSP_DIVERGED_PC_FAILED;
}

inline PetscErrorCode ksp_solve(KSP ksp) {
  PetscCheck(!ksp->transpose_solve, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean does not solve with the transpose (KSPSolveTranspose); transpose the matrix");
  return guarded(comm_of(ksp), [&] {
    solve(ksp);
    if (ksp->reason >= 0) return;
    const protean::SolveReport& report = data_of(ksp).report;
    must(PetscInfo(ksp, "Protean: %s. %s %s\n", std::string(protean::to_string(report.reason)).c_str(),
                   report.detail.c_str(), report.advice.c_str()));
  });
}

// x is the solution itself, whatever the side of the preconditioner; v: a copy of it if the caller gives one.
inline PetscErrorCode ksp_build_solution(KSP ksp, Vec v, Vec* V) {
  const KspData& data = data_of(ksp);
  constexpr std::array<std::string_view, 5> in_place = {"cg", "fcg", "minres", "bicgstab", "idr"};
  const bool current = std::find(in_place.begin(), in_place.end(), data.options.method) != in_place.end() &&
                       data.options.matrix.order == "none" && !data.options.policy &&
                       data.options.schedule.empty();
  PetscCheck(!data.in_iteration || current, comm_of(ksp), PETSC_ERR_SUP,
             "method %s has no x between two iterations with these options; -ksp_monitor shows the norm of "
             "its residual, and cg, fcg, minres, bicgstab and idr without order, policy and schedule have x",
             data.options.method.c_str());
  if (v) PetscCall(VecCopy(ksp->vec_sol, v));
  if (V) *V = v ? v : ksp->vec_sol;
  return PetscErrorCode(0);
}

// Throws BadArgument; nothing has changed then.
inline void set_options(KSP ksp, const Options& options) {
  refuse_wrong(options);
  KspData& data = data_of(ksp);
  data.preconditioner = nullptr, data.solver.reset(), data.matrix.reset(), data.context.reset();
  data.options = options;
  // As all options of PETSc's, one that this method does not read may stand in its database for another one.
  data.options.solver = protean::options_read_by(options.method, options.solver);
}

template <class Items>
PetscErrorCode ksp_set_from_options(KSP ksp, Items items) {
  return guarded(comm_of(ksp), [&] {
    Options options = data_of(ksp).options;
    bool complete = false;
    std::vector<std::string_view> known;
    must(read_options(options, items, complete, known));
    refuse_unknown_options(items->options, items->prefix, "-ksp_protean_", known);
    if (complete) set_options(ksp, options);
  });
}

inline PetscErrorCode ksp_view(KSP ksp, PetscViewer viewer) {
  return guarded(comm_of(ksp), [&] {
    PetscBool text = PETSC_FALSE;
    must(PetscObjectTypeCompare(object(viewer), PETSCVIEWERASCII, &text));
    if (!text) return;
    const KspData& data = data_of(ksp);
    must(PetscViewerASCIIPrintf(viewer, "  method %s, asked for format %s, order %s%s\n",
                                data.options.method.c_str(), data.options.matrix.format.c_str(),
                                data.options.matrix.order.c_str(), data.options.policy ? ", policy" : ""));
    must(PetscViewerASCIIPrintf(viewer, "  residuals are b - A x in the 2-norm\n"));
    if (!data.description.empty())
      must(PetscViewerASCIIPrintf(viewer, "  last solve: %s, %s, threads %d\n", data.description.c_str(),
                                  std::string(protean::to_string(data.report.reason)).c_str(), data.threads));
  });
}

inline PetscErrorCode ksp_reset(KSP ksp) {
  return guarded(comm_of(ksp), [&] {
    KspData& data = data_of(ksp);
    data.preconditioner = nullptr, data.solver.reset(), data.matrix.reset();
  });
}
inline PetscErrorCode ksp_destroy(KSP ksp) {
  return guarded(comm_of(ksp), [&] { delete static_cast<KspData*>(std::exchange(ksp->data, nullptr)); });
}

inline PetscErrorCode ksp_create(KSP ksp) {
  PetscMPIInt ranks = 0;
  PetscCallMPI(MPI_Comm_size(comm_of(ksp), &ranks));
  PetscCheck(ranks == 1, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean solves on one MPI rank, and this KSP has %d. Run the program on one rank, or "
             "let it solve the block of each rank: -ksp_type fgmres -pc_type bjacobi -sub_ksp_type protean",
             static_cast<int>(ranks));
  PetscCall(guarded(comm_of(ksp), [&] { ksp->data = new KspData; }));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_RIGHT, 3));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_LEFT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_RIGHT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_LEFT, 1));
  ksp->setupnewmatrix = PETSC_TRUE;
  ksp->ops->setup = ksp_setup;
  ksp->ops->solve = ksp_solve;
  ksp->ops->reset = ksp_reset;
  ksp->ops->destroy = ksp_destroy;
  ksp->ops->view = ksp_view;
  ksp->ops->setfromoptions = ksp_set_from_options;
  ksp->ops->buildsolution = ksp_build_solution;
  return PetscErrorCode(0);
}

inline PetscErrorCode require_type(KSP ksp) {
  PetscBool ours = PETSC_FALSE;
  PetscCall(PetscObjectTypeCompare(object(ksp), KSPPROTEAN, &ours));
  PetscCheck(ours, comm_of(ksp), PETSC_ERR_ARG_WRONG,
             "the KSP is not of type protean; call KSPSetType(ksp, protean_petsc::KSPPROTEAN) first");
  return PetscErrorCode(0);
}

}  // namespace detail
}  // namespace protean_petsc
