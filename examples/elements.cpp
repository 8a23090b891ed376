// A finite-element code that does not assemble a matrix gives its element matrices and its connectivity to
// Protean.
#include <cmath>
#include <cstdio>
#include <vector>

#include <protean/protean.hpp>

int main() {
  // -laplace u = 1 on the unit square in n x n bilinear squares, u = 0 on the boundary.
  const int n = 60, line = n + 1;
  const double k[16] = {4, -1, -1, -2, -1, 4, -2, -1, -1, -2, 4, -1, -2, -1, -1, 4};  // times 1/6
  std::vector<int> connectivity;
  std::vector<double> matrices, b(line * line, 0.0);
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const int corner = y * line + x;
      for (const int node : {corner, corner + 1, corner + line, corner + line + 1}) {
        connectivity.push_back(node);
        b[node] += 0.25 / (n * n);
      }
      for (const double entry : k) matrices.push_back(entry / 6);
    }
  std::vector<std::int64_t> boundary;
  for (int y = 0; y < line; ++y)
    for (int x = 0; x < line; ++x)
      if (x == 0 || y == 0 || x == n || y == n) boundary.push_back(y * line + x);
  for (const auto node : boundary) b[node] = 0;

  const protean::ElementGroup<double> group[] = {{n * n, 4, connectivity, matrices}};
  protean::ElementOptions options;
  options.symmetric = true;        // half of the memory, half of the memory traffic
  options.constrained = boundary;  // rows of the identity
  const auto context = protean::Context::host();
  const auto A = protean::make_element_operator<double>(context, line * line, group, options);
  const auto M = protean::make_preconditioner("jacobi", *A);
  M->ensure(*A);
  const auto cg = protean::make_solver<double>("cg");
  std::vector<double> u(b.size(), 0.0);
  const auto report = cg->solve(*A, {b.data(), A->rows()}, {u.data(), A->rows()}, M.get());
  const double middle = u[(line / 2) * line + line / 2];
  std::printf("%s: %lld iterations, u(1/2, 1/2) = %.6f\n", A->name().data(),
              static_cast<long long>(report.iterations), middle);

  // The same matrix, assembled, for use with a storage format.
  const auto assembled = protean::make_matrix(protean::find_format("csr"), A->assemble(), context);
  std::vector<double> v(b.size(), 0.0);
  const auto again = cg->solve(*assembled, {b.data(), A->rows()}, {v.data(), A->rows()});
  std::printf("assembled: %lld iterations, u(1/2, 1/2) = %.6f\n", static_cast<long long>(again.iterations),
              v[(line / 2) * line + line / 2]);
  // 0.0736714 is the value of the series solution.
  return report.converged() && again.converged() && std::abs(middle - 0.0736714) < 1e-4 ? 0 : 1;
}
