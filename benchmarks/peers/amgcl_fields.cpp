#include "benchmarks/peers/preconditioned.hpp"

#if defined(PROTEAN_HAVE_AMGCL)
#include <fmt/format.h>

#include <amgcl/adapter/crs_tuple.hpp>
#include <amgcl/amg.hpp>
#include <amgcl/backend/builtin.hpp>
#include <amgcl/coarsening/smoothed_aggregation.hpp>
#include <amgcl/make_solver.hpp>
#include <amgcl/preconditioner/cpr.hpp>
#include <amgcl/preconditioner/schur_pressure_correction.hpp>
#include <amgcl/relaxation/as_preconditioner.hpp>
#include <amgcl/relaxation/ilu0.hpp>
#include <amgcl/relaxation/spai0.hpp>
#include <amgcl/solver/fgmres.hpp>
#include <amgcl/solver/preonly.hpp>
#include <exception>
#include <optional>
#include <tuple>

namespace protean::bench {
namespace {

using Backend = amgcl::backend::builtin<double>;
template <template <class> class Relaxation>
using Amg = amgcl::amg<Backend, amgcl::coarsening::smoothed_aggregation, Relaxation>;
template <template <class> class Relaxation>
using Single = amgcl::relaxation::as_preconditioner<Backend, Relaxation>;
template <class Preconditioner>
using Once = amgcl::make_solver<Preconditioner, amgcl::solver::preonly<Backend>>;
using Spai0Amg = Amg<amgcl::relaxation::spai0>;

using Matrix =
    std::tuple<std::ptrdiff_t, std::vector<std::ptrdiff_t>, std::vector<std::ptrdiff_t>, std::vector<double>>;
Matrix copy_of(const CsrMatrix<double>& A) {
  const std::int64_t n = A.rows();
  Matrix made{n, {}, {A.pattern.col, A.pattern.col + A.nonzeros()}, {A.values, A.values + A.nonzeros()}};
  for (std::int64_t i = 0; i <= n; ++i) std::get<1>(made).push_back(A.pattern.row_ptr[i]);
  return made;
}

template <class Preconditioner>
PreconditionedResult solved(const Matrix& A, const std::vector<double>& b, const PreconditionedSolve& wanted,
                            std::string what, const typename Preconditioner::params& parameters,
                            std::vector<double>& x) {
  using Solver = amgcl::make_solver<Preconditioner, amgcl::solver::fgmres<Backend>>;
  typename Solver::params all;
  all.precond = parameters;
  all.solver.tol = wanted.tolerance, all.solver.maxiter = static_cast<unsigned>(wanted.max_iterations);
  PreconditionedResult result;
  result.what = std::move(what);
  auto begin = Clock::now();
  const Solver solver(A, all);
  result.setup_seconds = seconds_since(begin);
  begin = Clock::now();
  result.iterations = static_cast<std::int64_t>(std::get<0>(solver(b, x)));
  result.solve_seconds = seconds_since(begin);
  return result;
}

template <class OfU, class OfP>
PreconditionedResult by_schur(const Matrix& A, const std::vector<double>& b, const TwoFields& fields,
                              const PreconditionedSolve& wanted, const std::string& inner,
                              std::vector<double>& x) {
  using Schur = amgcl::preconditioner::schur_pressure_correction<Once<OfU>, Once<OfP>>;
  typename Schur::params parameters;
  parameters.pmask.assign(fields.field_of_row.begin(), fields.field_of_row.end());
  parameters.type = wanted.preconditioner == "schur-upper" ? 2 : 1;
  // An assembled complement for multigrid, its diagonal for spai0.
  parameters.adjust_p = inner.ends_with("amg") ? 2 : 1;
  parameters.simplec_dia = false;
  return solved<Schur>(
      A, b, wanted,
      fmt::format("{}, {}", wanted.preconditioner == "schur-upper" ? "schur-upper" : "schur-full", inner),
      parameters, x);
}

}  // namespace

std::optional<PreconditionedResult> amgcl_fields(const CsrMatrix<double>& A, const std::vector<double>& b,
                                                 const TwoFields& fields, const PreconditionedSolve& wanted,
                                                 std::vector<double>& x) {
  const Matrix copy = copy_of(A);
  try {
    if (wanted.preconditioner == "cpr") {
      using Cpr = amgcl::preconditioner::cpr<Spai0Amg, Single<amgcl::relaxation::ilu0>>;
      typename Cpr::params parameters;
      parameters.block_size = 2;
      return solved<Cpr>(copy, b, wanted, "cpr, amg and ilu0", parameters, x);
    }
    if (fields.inner == "amg") return by_schur<Spai0Amg, Spai0Amg>(copy, b, fields, wanted, "amg and amg", x);
    if (fields.inner == "ilu0")
      return by_schur<Single<amgcl::relaxation::ilu0>, Single<amgcl::relaxation::spai0>>(
          copy, b, fields, wanted, "ilu0 and spai0", x);
    return by_schur<Spai0Amg, Single<amgcl::relaxation::spai0>>(copy, b, fields, wanted, "amg and spai0", x);
  } catch (const std::exception& error) {
    fmt::print("  amgcl    {} {}: {}\n", wanted.preconditioner, fields.inner, error.what());
    return std::nullopt;
  }
}

}  // namespace protean::bench
#else
std::optional<protean::bench::PreconditionedResult> protean::bench::amgcl_fields(const CsrMatrix<double>&,
                                                                                 const std::vector<double>&,
                                                                                 const TwoFields&,
                                                                                 const PreconditionedSolve&,
                                                                                 std::vector<double>&) {
  return std::nullopt;
}
#endif
