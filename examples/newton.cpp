// Newton's method: a sequence of systems with one pattern. The system is kept, so order, format and what the policy has
// learnt stay from solve to solve, and the preconditioner is set up with every second Jacobian only.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <vector>

#include <protean/solve.hpp>

// -laplace u + exp(u) = f on a grid of m x m points, u = 0 around it.
struct Problem {
  int m = 150, n = m * m;
  std::vector<int> row_ptr{0}, col;
  std::vector<double> values, f = std::vector<double>(n, 100.0 / n);

  Problem() {
    for (int i = 0; i < n; ++i) {
      for (const int j : {i - m, i % m > 0 ? i - 1 : -1, i, i % m < m - 1 ? i + 1 : -1, i + m})
        if (j >= 0 && j < n) col.push_back(j);
      row_ptr.push_back(static_cast<int>(col.size()));
    }
    values.resize(col.size());
  }
  // The Jacobian in `values`, and r = f - A(u). Returns ||r||.
  double linearise(const std::vector<double>& u, std::vector<double>& r) {
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      r[i] = f[i] - std::exp(u[i]) / n;
      for (int k = row_ptr[i]; k < row_ptr[i + 1]; ++k) {
        values[k] = col[k] == i ? 4 + std::exp(u[i]) / n : -1;
        r[i] -= (col[k] == i ? 4.0 : -1.0) * u[col[k]];
      }
      sum += r[i] * r[i];
    }
    return std::sqrt(sum);
  }
};

int main() {
  Problem problem;
  const int n = problem.n;
  std::vector<double> u(n, 0.0), r(n), du(n);
  double norm = problem.linearise(u, r);
  const auto jacobian = protean::csr_view(n, n, problem.row_ptr, problem.col, problem.values);
  protean::LinearSystem<double> system(jacobian,
                                       {.preconditioner = "ic0",
                                        .preconditioning = {.refresh = protean::Refresh::when_slower},
                                        .policy = "auto"});
  for (int step = 0; step < 15 && norm > 1e-10; ++step) {
    du.assign(n, 0.0);
    const protean::SolveResult result = system.solve(r, du);
    if (!result.converged()) return std::puts(result.report.advice.c_str()), 1;
    for (int i = 0; i < n; ++i) u[i] += du[i];
    norm = problem.linearise(u, r);
    system.update_values(problem.values);
    std::printf("step %2d: %3lld iterations in %s, setup %.1f ms, |f - A(u)| = %.1e\n", step,
                static_cast<long long>(result.report.iterations), result.format.c_str(),
                1e3 * result.setup_seconds, norm);
  }
  std::cout << system;
  return norm <= 1e-10 ? 0 : 1;
}
