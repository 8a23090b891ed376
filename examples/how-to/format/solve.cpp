#include <protean/solve.hpp>

#include <cstdio>
#include <vector>

int main() {
  const int n = 1000;
  std::vector<int> row_ptr{0}, col;
  std::vector<double> values, b(n, 1.0), x(n, 0.0);
  for (int i = 0; i < n; ++i) {
    if (i > 0) col.push_back(i - 1), values.push_back(-1);
    col.push_back(i), values.push_back(2.5);
    if (i < n - 1) col.push_back(i + 1), values.push_back(-1);
    row_ptr.push_back(static_cast<int>(col.size()));
  }
  const auto csr = protean::csr_view(n, n, row_ptr, col, values);
  const auto result = protean::solve(csr, {b.data(), n}, {x.data(), n}, {.format = "sell-packed"});
  std::printf("%s, %lld iterations\n", result.format.c_str(),
              static_cast<long long>(result.report.iterations));
  return result.converged() && result.format == "sell-packed" ? 0 : 1;
}
