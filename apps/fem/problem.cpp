#include "apps/fem/problem.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/memory.hpp"

namespace protean::apps::fem {
namespace {

Mesh mesh_of(const Spec& spec) {
  if (!spec.mesh.empty()) return read_gmsh(spec.mesh);
  if (spec.shape == Shape::tetrahedron) return cube_of_tetrahedra(spec.n, spec.distortion);
  return cube_of_hexahedra(spec.n, spec.degree, spec.distortion);
}

// The boundary nodes whose x is the smallest one, within a thousandth of the width of the mesh.
std::vector<std::int32_t> nodes_at_left(const Mesh& mesh) {
  double low = mesh.nodes[0][0], high = low;
  for (const Point& p : mesh.nodes) low = std::min(low, p[0]), high = std::max(high, p[0]);
  std::vector<std::int32_t> nodes;
  for (const std::int32_t k : mesh.boundary)
    if (mesh.nodes[k][0] <= low + 1e-3 * (high - low)) nodes.push_back(k);
  return nodes;
}

}  // namespace

std::unique_ptr<ElementOperator<double>> System::on(const ContextPtr& context, ElementScatter scatter) const {
  ElementOptions options;
  options.scatter = scatter, options.components = components(physics), options.symmetric = true;
  options.constrained = constrained, options.constrained_rows = ConstrainedRows::eliminate;
  const ElementGroup<double> group[] = {group_of(mesh, matrices)};
  return make_element_operator<double>(context, static_cast<std::int64_t>(mesh.nodes.size()), group, options);
}

System make_mesh(const Spec& spec) {
  System system;
  system.physics = spec.physics;
  system.mesh = mesh_of(spec);
  if (spec.physics == Physics::elasticity) system.mesh.boundary = nodes_at_left(system.mesh);
  system.constrained = boundary_unknowns(system.mesh, spec.physics);
  return system;
}

System make_system(const Context& host, const Spec& spec) {
  System system = make_mesh(spec);
  const auto m = static_cast<std::size_t>(system.mesh.nodes_of_element() * components(spec.physics));
  detail::require_memory(static_cast<std::size_t>(system.mesh.elements()) * m * m * sizeof(double),
                         fmt::format("{} element matrices of {} x {}", system.mesh.elements(), m, m));
  system.matrices = stiffness(host, system.mesh, spec.physics, spec.material);
  return system;
}

}  // namespace protean::apps::fem
