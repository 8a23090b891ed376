// A minimal finite-element code: its own CSR arrays are used without a copy and solved twice.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <protean/protean.hpp>

int main() {
  const int n = 1000;
  std::vector<int> row_ptr{0}, col;
  std::vector<double> values;
  for (int i = 0; i < n; ++i) {
    if (i > 0) col.push_back(i - 1), values.push_back(-1);
    col.push_back(i), values.push_back(2.5);
    if (i + 1 < n) col.push_back(i + 1), values.push_back(-1);
    row_ptr.push_back(static_cast<int>(col.size()));
  }
  const auto context = protean::Context::host();
  const auto csr = protean::csr_view(n, n, row_ptr.data(), col.data(), values.data());
  const auto A = protean::make_matrix(protean::find_format("csr"), csr, context);
  const auto M = protean::make_preconditioner("jacobi", *A);
  M->ensure(*A);
  const auto cg = protean::make_solver<double>("cg");
  std::vector<double> b(n, 1.0), x(n, 0.0);
  const protean::SolveReport report = cg->solve(*A, {b.data(), n}, {x.data(), n}, M.get());
  std::printf("%lld iterations, true residual %.2e\n", static_cast<long long>(report.iterations),
              report.true_relative);
  if (!report.converged() || report.true_relative > 1e-8) return 1;
  // Libraries behind preconditioners are linked, too.
  for (const protean::PreconditionerEntry& entry : protean::preconditioners()) {
    if (entry.library.empty()) continue;
    const auto other = protean::make_preconditioner(entry.id, *A);
    other->ensure(*A);
    std::fill(x.begin(), x.end(), 0.0);
    if (!cg->solve(*A, {b.data(), n}, {x.data(), n}, other.get()).converged()) return 1;
    std::printf("%s of %s\n", std::string(entry.id).c_str(), std::string(entry.library).c_str());
  }
  return 0;
}
