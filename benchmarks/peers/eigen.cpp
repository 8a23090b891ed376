#include "benchmarks/peers/peers.hpp"

#if defined(PROTEAN_HAVE_EIGEN)
#include <fmt/format.h>

#include <Eigen/Sparse>
#include <memory>

#include "benchmarks/common/clock.hpp"

namespace protean::bench {
namespace {

using Matrix = Eigen::SparseMatrix<double, Eigen::RowMajor, int>;

std::vector<Product> products(const CsrMatrix<double>& csr, bool, int threads) {
  const auto& p = csr.pattern;
  if (!p.row_ptr.p32) return {};
  Eigen::setNbThreads(threads);
  const auto start = Clock::now();
  auto matrix = std::make_shared<Matrix>(
      Eigen::Map<const Matrix>(p.rows, p.cols, p.nonzeros, p.row_ptr.p32, p.col, csr.values));
  const double seconds = seconds_since(start);
  return {{"eigen row-major",
           [matrix](const double* x, double* y) {
             Eigen::Map<Eigen::VectorXd> to(y, matrix->rows());
             to.noalias() = *matrix * Eigen::Map<const Eigen::VectorXd>(x, matrix->cols());
           },
           seconds}};
}

}  // namespace

Peer eigen() {
  return {"Eigen", fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION),
          products};
}

}  // namespace protean::bench
#else
protean::bench::Peer protean::bench::eigen() { return {"Eigen", "", nullptr}; }
#endif
