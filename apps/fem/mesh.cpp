#include "apps/fem/mesh.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "apps/fem/lagrange.hpp"
#include "core/error.hpp"

namespace protean::apps::fem {
namespace {

// Moves the inner points of the unit cube. Points on the boundary stay.
Point moved(const Point& p, double by) {
  const double bump = by * std::sin(std::numbers::pi * p[0]) * std::sin(std::numbers::pi * p[1]) *
                      std::sin(std::numbers::pi * p[2]);
  return {p[0] + bump, p[1] - bump * std::cos(std::numbers::pi * p[0]),
          p[2] + bump * std::cos(2 * std::numbers::pi * p[1]) / 2};
}

// The nodes of a cube with n elements of this degree along each side.
Mesh cube_nodes(int n, int degree, double distortion) {
  if (n < 1 || n > 1000 || degree < 1 || degree > 4 || !(distortion >= 0 && distortion <= 0.1))
    throw BadArgument(fmt::format(
        "a cube of n = {} elements a side, degree {}, distortion {}: n must be 1 to 1000, the degree "
        "1 to 4, the distortion 0 to 0.1",
        n, degree, distortion));
  const std::vector<double> inside = gauss_lobatto_points(degree);
  const std::int64_t line = std::int64_t{n} * degree + 1;
  if (line * line * line > 2147483647)
    throw BadArgument(fmt::format("a cube of {} nodes; at most 2147483647", line * line * line));
  std::vector<double> at;
  for (int e = 0; e < n; ++e)
    for (int a = 0; a < degree; ++a) at.push_back((e + inside[static_cast<std::size_t>(a)]) / n);
  at.push_back(1);
  Mesh mesh;
  mesh.degree = degree;
  mesh.nodes.reserve(static_cast<std::size_t>(line * line * line));
  for (std::int64_t z = 0; z < line; ++z)
    for (std::int64_t y = 0; y < line; ++y)
      for (std::int64_t x = 0; x < line; ++x) {
        const auto outer = [&](std::int64_t i) { return i == 0 || i == line - 1; };
        if (outer(x) || outer(y) || outer(z))
          mesh.boundary.push_back(static_cast<std::int32_t>(mesh.nodes.size()));
        const Point plain{at[x], at[y], at[z]};
        mesh.nodes.push_back(distortion > 0 ? moved(plain, distortion) : plain);
      }
  return mesh;
}

}  // namespace

Mesh cube_of_hexahedra(int n, int degree, double distortion) {
  Mesh mesh = cube_nodes(n, degree, distortion);
  mesh.uniform = distortion == 0;
  const std::int64_t line = std::int64_t{n} * degree + 1;
  mesh.connectivity.reserve(static_cast<std::size_t>(n) * n * n * mesh.nodes_of_element());
  for (std::int64_t z = 0; z < n; ++z)
    for (std::int64_t y = 0; y < n; ++y)
      for (std::int64_t x = 0; x < n; ++x)
        for (std::int64_t c = z * degree; c <= (z + 1) * degree; ++c)
          for (std::int64_t b = y * degree; b <= (y + 1) * degree; ++b)
            for (std::int64_t a = x * degree; a <= (x + 1) * degree; ++a)
              mesh.connectivity.push_back(static_cast<std::int32_t>((c * line + b) * line + a));
  return mesh;
}

Mesh cube_of_tetrahedra(int n, double distortion) {
  Mesh mesh = cube_nodes(n, 1, distortion);
  mesh.shape = Shape::tetrahedron;
  // Kuhn's subdivision: one tetrahedron for each path from corner 000 to corner 111 along the axes.
  constexpr int ways[6][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}};
  const std::int64_t line = n + 1;
  const std::int64_t step[3] = {1, line, line * line};
  for (std::int64_t z = 0; z < n; ++z)
    for (std::int64_t y = 0; y < n; ++y)
      for (std::int64_t x = 0; x < n; ++x)
        for (int w = 0; w < 6; ++w) {
          std::int64_t node[4] = {(z * line + y) * line + x, 0, 0, 0};
          for (int k = 0; k < 3; ++k) node[k + 1] = node[k] + step[ways[w][k]];
          if (w >= 3) std::swap(node[1], node[2]);  // so that all have the same orientation
          for (const std::int64_t k : node) mesh.connectivity.push_back(static_cast<std::int32_t>(k));
        }
  return mesh;
}

}  // namespace protean::apps::fem
