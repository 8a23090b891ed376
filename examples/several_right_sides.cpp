// Several right-hand sides at once: load cases of one stiffness matrix. The matrix is read once an iteration for all of
// them, and each ends when it has converged.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <protean/protean.hpp>

int main() {
  // -laplace u = f on a grid of m x m points, u = 0 around it, for k sources at different places.
  const int m = 150, n = m * m, k = 12;
  std::vector<int> row_ptr{0}, col;
  std::vector<double> values;
  for (int i = 0; i < n; ++i) {
    const auto add = [&](bool inside, int j, double value) {
      if (inside) col.push_back(j), values.push_back(value);
    };
    add(i >= m, i - m, -1), add(i % m > 0, i - 1, -1);
    add(true, i, 4);
    add(i % m < m - 1, i + 1, -1), add(i + m < n, i + m, -1);
    row_ptr.push_back(static_cast<int>(col.size()));
  }
  // One right-hand side after another, as programs have them: entry i of column j at B[i + j n].
  std::vector<double> B(static_cast<std::size_t>(n) * k, 0.0), X = B;
  for (int j = 0; j < k; ++j)
    B[static_cast<std::size_t>(j) * n + static_cast<std::size_t>((n / (k + 1)) * (j + 1))] = 1;

  const auto csr = protean::csr_view(protean::Context::host(), n, n, row_ptr.back(), row_ptr.data(),
                                     col.data(), values.data());
  // The last column needs two digits only.
  std::vector<protean::StoppingRule> rules(k);
  rules.back().relative_tolerance = 1e-2;
  const protean::MultiSolveResult all = protean::multi_solve(
      csr, {B.data(), n, k, n}, {X.data(), n, k, n}, {.preconditioner = "ic0", .format = "csr"}, rules);
  std::printf("%d columns in %lld iterations, products %s, preconditioner %s\n", k,
              static_cast<long long>(all.report.iterations), all.report.product.c_str(),
              all.report.preconditioner.c_str());
  for (int j = 0; j < k; ++j) {
    const protean::SolveReport& one = all.report.columns[static_cast<std::size_t>(j)];
    std::printf("  column %2d: %s after %lld iterations, |b - A x| / |b| = %.1e\n", j,
                protean::to_string(one.reason).data(), static_cast<long long>(one.iterations),
                one.true_relative);
  }

  // Each column has met its own tolerance, and the last one took fewer iterations, as it was asked to.
  bool good = all.converged();
  for (int j = 0; j < k; ++j) {
    const double relative = all.report.columns[static_cast<std::size_t>(j)].true_relative;
    good = good && relative <= rules[static_cast<std::size_t>(j)].relative_tolerance &&
           (relative > 1e-6) == (j == k - 1);
  }
  good = good && all.report.columns.back().iterations < all.report.columns.front().iterations;

  // In steps, if the matrix is used again: products with several vectors, and a solver that keeps its memory.
  const auto A = protean::make_matrix("sell-c-sigma", csr, protean::Context::host());
  std::vector<double> Y(B.size());
  protean::multi_apply<double>(*A, {X.data(), n, k, n}, {Y.data(), n, k, n});
  double largest = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n) * (k - 1); ++i)
    largest = std::max(largest, std::abs(B[i] - Y[i]));
  std::printf("largest entry of b - A x of the first %d columns: %.1e\n", k - 1, largest);
  protean::MultiSolver<double> solver;
  good = good && largest < 1e-6;
  for (const int columns : {4, 2})
    good = solver.solve(*A, {B.data(), n, columns, n}, {X.data(), n, columns, n}).converged() && good;
  return good ? 0 : 1;
}
