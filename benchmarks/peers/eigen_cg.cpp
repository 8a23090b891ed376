#include "benchmarks/peers/peers.hpp"

#if defined(PROTEAN_HAVE_EIGEN)
#include <Eigen/IterativeLinearSolvers>
#include <Eigen/Sparse>
#include <memory>

namespace protean::bench {

std::vector<CgSolve> eigen_cg(const CsrMatrix<double>& csr, int threads) {
  using Matrix = Eigen::SparseMatrix<double, Eigen::RowMajor, int>;
  // Lower|Upper, without which the product is neither threaded nor fast.
  using Solver = Eigen::ConjugateGradient<Matrix, Eigen::Lower | Eigen::Upper>;
  const auto& p = csr.pattern;
  if (!p.row_ptr.p32) return {};
  Eigen::setNbThreads(threads);
  struct Held {
    Matrix matrix;
    Solver solver;
  };
  auto held = std::make_shared<Held>();
  held->matrix = Eigen::Map<const Matrix>(p.rows, p.cols, p.nonzeros, p.row_ptr.p32, p.col, csr.values);
  held->solver.compute(held->matrix);
  held->solver.setTolerance(0);
  return {{"eigen", [held](const double* b, double* x, int iterations) {
             const auto n = held->matrix.rows();
             held->solver.setMaxIterations(iterations);
             Eigen::Map<Eigen::VectorXd>(x, n) = held->solver.solve(Eigen::Map<const Eigen::VectorXd>(b, n));
           }}};
}

}  // namespace protean::bench
#else
std::vector<protean::bench::CgSolve> protean::bench::eigen_cg(const CsrMatrix<double>&, int) { return {}; }
#endif
