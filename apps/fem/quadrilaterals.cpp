#include "apps/fem/quadrilaterals.hpp"

#include <cstddef>

#include "apps/fem/lagrange.hpp"

namespace protean::apps::fem {

std::vector<double> Quadrilaterals::line() const {
  const std::vector<double> points = gauss_lobatto_points(degree);
  std::vector<double> all;
  for (int e = 0; e < n; ++e)
    for (int k = 0; k < degree; ++k) all.push_back((e + points[static_cast<std::size_t>(k)]) / n);
  all.push_back(1);
  return all;
}

Quadrilaterals square_of_quadrilaterals(int n, int degree) {
  Quadrilaterals mesh{.n = n, .degree = degree};
  const std::int64_t line = mesh.nodes_of_line();
  mesh.connectivity.reserve(static_cast<std::size_t>(mesh.elements() * mesh.nodes_of_element()));
  for (int row = 0; row < n; ++row)
    for (int col = 0; col < n; ++col)
      for (int j = 0; j <= degree; ++j)
        for (int i = 0; i <= degree; ++i)
          mesh.connectivity.push_back(static_cast<std::int32_t>((std::int64_t{row} * degree + j) * line +
                                                                std::int64_t{col} * degree + i));
  for (std::int64_t j = 0; j < line; ++j)
    for (std::int64_t i = 0; i < line; ++i)
      if (i == 0 || j == 0 || i + 1 == line || j + 1 == line) mesh.boundary.push_back(j * line + i);
  return mesh;
}

std::vector<double> poisson_on_square(int degree) {
  const auto m = static_cast<std::size_t>(degree) + 1;
  const std::vector<double> points = gauss_lobatto_points(degree);
  // In one dimension on [0, 1]: integrals of products of derivatives, and of values.
  std::vector<double> stiffness(m * m), mass(m * m), value(m), slope(m);
  const Rule rule = gauss_legendre(degree + 1);
  for (std::size_t q = 0; q < rule.points.size(); ++q) {
    lagrange(points, rule.points[q], value.data(), slope.data());
    for (std::size_t a = 0; a < m; ++a)
      for (std::size_t b = 0; b < m; ++b) {
        stiffness[a * m + b] += rule.weights[q] * slope[a] * slope[b];
        mass[a * m + b] += rule.weights[q] * value[a] * value[b];
      }
  }
  std::vector<double> matrix;
  for (std::size_t j = 0; j < m; ++j)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t l = 0; l < m; ++l)
        for (std::size_t k = 0; k < m; ++k)
          matrix.push_back(stiffness[i * m + k] * mass[j * m + l] + mass[i * m + k] * stiffness[j * m + l]);
  return matrix;
}

}  // namespace protean::apps::fem
