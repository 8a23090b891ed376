#include "apps/fem/discretise.hpp"

#include <fmt/format.h>

#include <cmath>

#include "apps/fem/lagrange.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean::apps::fem {
namespace {

// Quadrature points of the reference element with values and gradients of all shape functions there:
// value[q][a], gradient[q][d][a].
struct Reference {
  int nodes = 0;
  std::vector<double> weight, value, gradient;
  int points() const noexcept { return static_cast<int>(weight.size()); }
  const double* values(int q) const noexcept { return value.data() + q * nodes; }
  const double* gradients(int q) const noexcept { return gradient.data() + q * 3 * nodes; }
};

Reference hexahedron(int degree, int along_axis) {
  const Rule rule = gauss_legendre(along_axis);
  const std::vector<double> at = gauss_lobatto_points(degree);
  const int p = degree + 1;
  std::vector<double> n(static_cast<std::size_t>(along_axis * p)), dn(n.size());
  for (int q = 0; q < along_axis; ++q) lagrange(at, rule.points[q], n.data() + q * p, dn.data() + q * p);
  Reference r;
  r.nodes = p * p * p;
  for (int z = 0; z < along_axis; ++z)
    for (int y = 0; y < along_axis; ++y)
      for (int x = 0; x < along_axis; ++x) {
        r.weight.push_back(rule.weights[x] * rule.weights[y] * rule.weights[z]);
        for (int kind = -1; kind < 3; ++kind)  // value, then derivatives along x, y, z
          for (int c = 0; c < p; ++c)
            for (int b = 0; b < p; ++b)
              for (int a = 0; a < p; ++a) {
                const double product = (kind == 0 ? dn : n)[x * p + a] * (kind == 1 ? dn : n)[y * p + b] *
                                       (kind == 2 ? dn : n)[z * p + c];
                (kind < 0 ? r.value : r.gradient).push_back(product);
              }
      }
  return r;
}

// The corners are 000, 100, 010, 001. The points of the cube are mapped into the tetrahedron.
Reference tetrahedron(int along_axis) {
  const Rule rule = gauss_legendre(along_axis);
  Reference r;
  r.nodes = 4;
  for (int i = 0; i < along_axis; ++i)
    for (int j = 0; j < along_axis; ++j)
      for (int k = 0; k < along_axis; ++k) {
        const double u = rule.points[i], v = rule.points[j], w = rule.points[k];
        const double x = u, y = v * (1 - u), z = w * (1 - u) * (1 - v);
        r.weight.push_back(rule.weights[i] * rule.weights[j] * rule.weights[k] * (1 - u) * (1 - u) * (1 - v));
        r.value.insert(r.value.end(), {1 - x - y - z, x, y, z});
        r.gradient.insert(r.gradient.end(), {-1, 1, 0, 0, -1, 0, 1, 0, -1, 0, 0, 1});
      }
  return r;
}

Reference reference_of(const Mesh& mesh, int along_axis) {
  return mesh.shape == Shape::tetrahedron ? tetrahedron(along_axis) : hexahedron(mesh.degree, along_axis);
}

// One quadrature point of one element: its position, its share of the volume, and gradients[d][a] in space.
struct Place {
  Point at;
  double volume;
};
Place place(const Mesh& mesh, const Reference& r, std::int64_t element, int q, double* gradients) {
  const std::int32_t* node = mesh.connectivity.data() + element * r.nodes;
  const double* value = r.values(q);
  const double* slope = r.gradients(q);
  Point at{};
  double J[3][3] = {};  // d x_i / d xi_d
  for (int a = 0; a < r.nodes; ++a)
    for (int i = 0; i < 3; ++i) {
      const double x = mesh.nodes[node[a]][i];
      at[i] += x * value[a];
      for (int d = 0; d < 3; ++d) J[i][d] += x * slope[d * r.nodes + a];
    }
  const auto minor = [&](int i, int d) {
    const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, d1 = (d + 1) % 3, d2 = (d + 2) % 3;
    return J[i1][d1] * J[i2][d2] - J[i1][d2] * J[i2][d1];
  };
  const double determinant = J[0][0] * minor(0, 0) + J[0][1] * minor(0, 1) + J[0][2] * minor(0, 2);
  if (determinant == 0 || !std::isfinite(determinant) || (mesh.shape == Shape::hexahedron && determinant < 0))
    throw BadMatrix(
        fmt::format("element {} of the mesh is flat or turned inside out (its Jacobian is {} at a "
                    "quadrature point)",
                    element, determinant));
  if (gradients)
    for (int i = 0; i < 3; ++i)
      for (int a = 0; a < r.nodes; ++a) {
        double sum = 0;
        for (int d = 0; d < 3; ++d) sum += minor(i, d) * slope[d * r.nodes + a];
        gradients[i * r.nodes + a] = sum / determinant;
      }
  return {at, r.weight[q] * std::abs(determinant)};
}

// k[a][b] += w grad a . grad b for b <= a
void add_poisson(int nodes, const double* g, double w, double* k) {
  for (int a = 0; a < nodes; ++a) {
    const double x = w * g[a], y = w * g[nodes + a], z = w * g[2 * nodes + a];
    for (int b = 0; b <= a; ++b) k[a * nodes + b] += x * g[b] + y * g[nodes + b] + z * g[2 * nodes + b];
  }
}

// Unknown c of node a is row 3 a + c; lower half.
void add_elasticity(int nodes, const double* g, double w, const Material& material, double* k) {
  const double lambda = w * material.lambda(), mu = w * material.mu();
  const int m = 3 * nodes;
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b <= a; ++b) {
      double dot = 0;
      for (int d = 0; d < 3; ++d) dot += g[d * nodes + a] * g[d * nodes + b];
      for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 3; ++c)
          k[(3 * a + r) * m + 3 * b + c] += lambda * g[r * nodes + a] * g[c * nodes + b] +
                                            mu * g[c * nodes + a] * g[r * nodes + b] +
                                            (r == c ? mu * dot : 0);
    }
}

}  // namespace

std::string_view to_string(Physics physics) noexcept {
  return physics == Physics::poisson ? "poisson" : "elasticity";
}

std::vector<double> stiffness(const Context& context, const Mesh& mesh, Physics physics,
                              const Material& material) {
  const Reference r = reference_of(mesh, mesh.degree + 1);
  const int m = r.nodes * components(physics);
  const std::int64_t size = std::int64_t{m} * m, different = mesh.uniform ? 1 : mesh.elements();
  std::vector<double> all(static_cast<std::size_t>(mesh.elements() * size));
  parallel(useful_parts(context, different * size), [&](int part, int parts) {
    const Range range = even_range(different, part, parts);
    std::vector<double> gradients(static_cast<std::size_t>(3 * r.nodes));
    for (std::int64_t e = range.begin; e < range.end; ++e) {
      double* k = all.data() + e * size;
      for (int q = 0; q < r.points(); ++q) {
        const double volume = place(mesh, r, e, q, gradients.data()).volume;
        if (physics == Physics::poisson)
          add_poisson(r.nodes, gradients.data(), volume, k);
        else
          add_elasticity(r.nodes, gradients.data(), volume, material, k);
      }
      for (int i = 0; i < m; ++i)
        for (int j = i + 1; j < m; ++j) k[i * m + j] = k[j * m + i];
    }
  });
  parallel(useful_parts(context, mesh.elements() * size), [&](int part, int parts) {
    const Range range = even_range(mesh.elements(), part, parts);
    for (std::int64_t e = std::max(range.begin, different); e < range.end; ++e)
      std::copy(all.begin(), all.begin() + size, all.begin() + e * size);
  });
  return all;
}

std::vector<double> load(const Mesh& mesh, Physics physics, const Field& f) {
  const Reference r = reference_of(mesh, mesh.degree + 3);
  const int c = components(physics);
  std::vector<double> b(mesh.nodes.size() * static_cast<std::size_t>(c), 0.0);
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    for (int q = 0; q < r.points(); ++q) {
      const Place here = place(mesh, r, e, q, nullptr);
      const Point value = f(here.at);
      for (int a = 0; a < r.nodes; ++a)
        for (int i = 0; i < c; ++i)
          b[std::int64_t{mesh.connectivity[e * r.nodes + a]} * c + i] +=
              here.volume * r.values(q)[a] * value[i];
    }
  return b;
}

std::vector<double> interpolate(const Mesh& mesh, Physics physics, const Field& u) {
  std::vector<double> values;
  for (const Point& node : mesh.nodes) {
    const Point value = u(node);
    values.insert(values.end(), value.begin(), value.begin() + components(physics));
  }
  return values;
}

double l2_error(const Mesh& mesh, Physics physics, std::span<const double> solution, const Field& exact) {
  const Reference r = reference_of(mesh, mesh.degree + 3);
  const int c = components(physics);
  double squared = 0;
  for (std::int64_t e = 0; e < mesh.elements(); ++e)
    for (int q = 0; q < r.points(); ++q) {
      const Place here = place(mesh, r, e, q, nullptr);
      const Point wanted = exact(here.at);
      for (int i = 0; i < c; ++i) {
        double found = 0;
        for (int a = 0; a < r.nodes; ++a)
          found += r.values(q)[a] * solution[std::int64_t{mesh.connectivity[e * r.nodes + a]} * c + i];
        squared += here.volume * (found - wanted[i]) * (found - wanted[i]);
      }
    }
  return std::sqrt(squared);
}

std::vector<std::int64_t> boundary_unknowns(const Mesh& mesh, Physics physics) {
  std::vector<std::int64_t> list;
  for (const std::int32_t node : mesh.boundary)
    for (int i = 0; i < components(physics); ++i)
      list.push_back(std::int64_t{node} * components(physics) + i);
  return list;
}

ElementGroup<double> group_of(const Mesh& mesh, const std::vector<double>& matrices) {
  return {mesh.elements(), mesh.nodes_of_element(), mesh.connectivity, matrices};
}

}  // namespace protean::apps::fem
