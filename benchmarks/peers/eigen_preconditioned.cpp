#include "benchmarks/peers/preconditioned.hpp"

#if defined(PROTEAN_HAVE_EIGEN)
#include <Eigen/IterativeLinearSolvers>
#include <Eigen/Sparse>
#include <memory>
#include <unsupported/Eigen/IterativeSolvers>

#include "benchmarks/common/clock.hpp"

namespace protean::bench {
namespace {

using Matrix = Eigen::SparseMatrix<double, Eigen::RowMajor, int>;

template <class Solver>
PreconditionedResult solved(Solver& solver, std::string what, const Matrix& A, const std::vector<double>& b,
                            const PreconditionedSolve& wanted, std::vector<double>& x) {
  PreconditionedResult result;
  result.what = std::move(what);
  solver.setTolerance(wanted.tolerance);
  solver.setMaxIterations(wanted.max_iterations);
  auto begin = Clock::now();
  solver.compute(A);
  result.setup_seconds = seconds_since(begin);
  const auto n = static_cast<Eigen::Index>(b.size());
  begin = Clock::now();
  Eigen::Map<Eigen::VectorXd>(x.data(), n) = solver.solve(Eigen::Map<const Eigen::VectorXd>(b.data(), n));
  result.solve_seconds = seconds_since(begin);
  result.iterations = solver.iterations();
  return result;
}

}  // namespace

std::optional<PreconditionedResult> eigen_preconditioned(const CsrMatrix<double>& csr,
                                                         const std::vector<double>& b,
                                                         const PreconditionedSolve& wanted,
                                                         std::vector<double>& x) {
  const SparsityPattern& p = csr.pattern;
  if (!p.row_ptr.p32) return std::nullopt;
  Eigen::setNbThreads(1);
  const Matrix A = Eigen::Map<const Matrix>(p.rows, p.cols, p.nonzeros, p.row_ptr.p32, p.col, csr.values);
  using Diagonal = Eigen::DiagonalPreconditioner<double>;
  using Factors = Eigen::IncompleteLUT<double, int>;
  // As many entries as the matrix has, and none dropped for its size: the nearest to ILU(0).
  const auto with_factors = [](auto& solver) {
    solver.preconditioner().setDroptol(0);
    solver.preconditioner().setFillfactor(1);
  };
  constexpr const char* threshold = "ILUT, fill factor 1";
  if (wanted.method == "cg") {
    if (wanted.preconditioner == "jacobi") {
      Eigen::ConjugateGradient<Matrix, Eigen::Lower | Eigen::Upper, Diagonal> solver;
      return solved(solver, "", A, b, wanted, x);
    }
    using Cholesky = Eigen::IncompleteCholesky<double, Eigen::Lower, Eigen::NaturalOrdering<int>>;
    Eigen::ConjugateGradient<Matrix, Eigen::Lower | Eigen::Upper, Cholesky> solver;
    return solved(solver, "IncompleteCholesky", A, b, wanted, x);
  }
  if (wanted.method == "bicgstab") {
    if (wanted.preconditioner == "jacobi") {
      Eigen::BiCGSTAB<Matrix, Diagonal> solver;
      return solved(solver, "", A, b, wanted, x);
    }
    Eigen::BiCGSTAB<Matrix, Factors> solver;
    with_factors(solver);
    return solved(solver, threshold, A, b, wanted, x);
  }
  if (wanted.preconditioner == "jacobi") {
    Eigen::GMRES<Matrix, Diagonal> solver;
    return solver.set_restart(30), solved(solver, "", A, b, wanted, x);
  }
  Eigen::GMRES<Matrix, Factors> solver;
  solver.set_restart(30), with_factors(solver);
  return solved(solver, threshold, A, b, wanted, x);
}

std::optional<FactorTimes> eigen_factors(const CsrMatrix<double>& csr, const std::string& kind,
                                         double seconds, const std::vector<double>& r,
                                         std::vector<double>& z) {
  const SparsityPattern& p = csr.pattern;
  if (!p.row_ptr.p32) return std::nullopt;
  Eigen::setNbThreads(1);
  const Matrix A = Eigen::Map<const Matrix>(p.rows, p.cols, p.nonzeros, p.row_ptr.p32, p.col, csr.values);
  const auto n = static_cast<Eigen::Index>(r.size());
  const auto measured = [&](auto make, const char* what) {
    FactorTimes times;
    times.what = what;
    times.setup = shortest(seconds, [&] { make()->compute(A); });
    const auto factors = make();
    factors->compute(A);
    times.refactor = shortest(seconds, [&] { factors->factorize(A); });
    times.apply = shortest(seconds, [&] {
      Eigen::Map<Eigen::VectorXd>(z.data(), n) =
          factors->solve(Eigen::Map<const Eigen::VectorXd>(r.data(), n));
    });
    return times;
  };
  using Cholesky = Eigen::IncompleteCholesky<double, Eigen::Lower, Eigen::NaturalOrdering<int>>;
  using Factors = Eigen::IncompleteLUT<double, int>;
  if (kind == "ic0") return measured([] { return std::make_unique<Cholesky>(); }, "IncompleteCholesky");
  return measured(
      [] {
        auto made = std::make_unique<Factors>();
        made->setDroptol(0), made->setFillfactor(1);
        return made;
      },
      "ILUT, fill factor 1");
}

}  // namespace protean::bench
#else
std::optional<protean::bench::FactorTimes> protean::bench::eigen_factors(const CsrMatrix<double>&,
                                                                         const std::string&, double,
                                                                         const std::vector<double>&,
                                                                         std::vector<double>&) {
  return std::nullopt;
}
std::optional<protean::bench::PreconditionedResult> protean::bench::eigen_preconditioned(
    const CsrMatrix<double>&, const std::vector<double>&, const PreconditionedSolve&, std::vector<double>&) {
  return std::nullopt;
}
#endif
