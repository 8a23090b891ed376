// One call solves a system: the storage format is named, chosen for the matrix, or left to the policy, which changes
// it during the solve when that pays.
#include <cmath>
#include <cstdio>
#include <vector>

#include <protean/protean.hpp>

int main() {
  // -laplace u + u = 1 on a grid of m x m points, u = 0 around it. The program owns the arrays.
  const int m = 300, n = m * m;
  std::vector<int> row_ptr{0}, col;
  std::vector<double> values, b(n, 1.0);
  for (int i = 0; i < n; ++i) {
    const auto add = [&](bool inside, int j, double value) {
      if (inside) col.push_back(j), values.push_back(value);
    };
    add(i >= m, i - m, -1), add(i % m > 0, i - 1, -1);
    add(true, i, 4 + 1e-4);
    add(i % m < m - 1, i + 1, -1), add(i + m < n, i + m, -1);
    row_ptr.push_back(static_cast<int>(col.size()));
  }
  const auto csr = protean::csr_view(n, n, row_ptr.data(), col.data(), values.data());

  const auto solved = [&](const char* what, const protean::SolveSettings& settings) {
    std::vector<double> x(b.size(), 0.0);
    const protean::SolveResult result = protean::solve(csr, {b.data(), n}, {x.data(), n}, settings);
    std::printf("%-28s %4lld iterations, |b - A x| / |b| = %.1e, ended in %s after %zu changes of format\n",
                what, static_cast<long long>(result.report.iterations), result.report.true_relative,
                result.format.c_str(), result.switches.size());
    for (const protean::SwitchRecord& one : result.switches)
      std::printf("  iteration %lld: %s -> %s\n", static_cast<long long>(one.iteration), one.from.c_str(),
                  one.to.c_str());
    if (!result.converged()) std::puts(result.report.advice.c_str());
    return result.converged();
  };
  bool good = solved("auto, before the solve:", {});
  good = solved("the policy:", {.policy = "auto"}) && good;
  good = solved("by name:", {.preconditioner = "ic0", .format = "sell-packed"}) && good;
  good = solved("in another order:", {.preconditioner = "ic0", .format = "csr", .order = "rcm"}) && good;
  good = solved("a schedule:", {.schedule = {{.at = 20, .format = "sell-c-sigma"}}}) && good;

  // The same in two steps, for a matrix that is used many times: make_matrix("auto", ...) looks at the pattern.
  const auto A = protean::make_matrix("auto", csr, protean::Context::host());
  std::printf("format auto: %s\n", A->name().data());
  return good ? 0 : 1;
}
