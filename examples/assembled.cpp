// A finite-element code has its own CSR arrays. Protean uses them without a copy and solves many times with
// new values.
#include <cstdio>
#include <vector>

#include <protean/protean.hpp>

int main() {
  // -u'' + c u = 1 on a line; c changes with time. The program owns the arrays.
  const int n = 10000;
  std::vector<int> row_ptr{0}, col;
  for (int i = 0; i < n; ++i) {
    for (int j = i - 1; j <= i + 1; ++j)
      if (j >= 0 && j < n) col.push_back(j);
    row_ptr.push_back(static_cast<int>(col.size()));
  }
  std::vector<double> values(col.size()), b(n, 1.0), x(n, 0.0);
  const auto fill = [&](double c) {
    for (int i = 0; i < n; ++i)
      for (int k = row_ptr[i]; k < row_ptr[i + 1]; ++k) values[k] = col[k] == i ? 2 + c : -1;
  };

  const auto context = protean::Context::host();  // all processors; Context::host(2) for two threads
  fill(0.5);
  const auto csr = protean::csr_view(n, n, row_ptr.data(), col.data(), values.data());
  const auto A = protean::make_matrix(protean::find_format("sell-c-sigma"), csr, context);
  const auto M = protean::make_preconditioner("jacobi", *A);
  const auto cg = protean::make_solver<double>("cg");
  for (int step = 0; step < 10; ++step) {
    fill(0.5 + 0.1 * step);
    A->update_values(csr);  // same entries, new values: no new analysis, no new memory
    M->ensure(*A);          // has an effect only when A has changed
    const protean::SolveReport report = cg->solve(*A, {b.data(), n}, {x.data(), n}, M.get());
    std::printf("step %d: %lld iterations, |b - A x| / |b| = %.1e\n", step,
                static_cast<long long>(report.iterations), report.true_relative);
    if (!report.converged()) return 1;
  }
}
