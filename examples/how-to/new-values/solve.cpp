#include <protean/solve.hpp>

#include <cstdio>
#include <vector>

int main() {
  const int n = 2000;
  std::vector<int> row_ptr{0}, col;
  std::vector<double> values, b(n, 1.0), x(n, 0.0);
  for (int i = 0; i < n; ++i) {
    if (i > 0) col.push_back(i - 1), values.push_back(-1);
    col.push_back(i), values.push_back(2.1);
    if (i < n - 1) col.push_back(i + 1), values.push_back(-1);
    row_ptr.push_back(static_cast<int>(col.size()));
  }
  const auto csr = protean::csr_view(n, n, row_ptr, col, values);  // your arrays, not copied
  protean::LinearSystem<double> system(csr, {.method = "cg", .preconditioner = "ic0"});
  for (int step = 0; step < 5; ++step) {
    const auto result = system.solve({b.data(), n}, {x.data(), n});  // x holds the initial guess
    if (!result.converged()) return std::puts(result.report.advice.c_str()), 1;
    std::printf("step %d: %lld iterations\n", step, static_cast<long long>(result.report.iterations));
    for (int i = 0; i < n; ++i)
      for (int k = row_ptr[i]; k < row_ptr[i + 1]; ++k)
        if (col[k] == i) values[k] += 0.1;
    system.update_values(values);  // in the same pattern
  }
}
