// Element matrices and vectors of two model problems on a mesh, and the error of a solution.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/fem/mesh.hpp"
#include "core/context.hpp"
#include "operators/elements/element_operator.hpp"

namespace protean::apps::fem {

enum class Physics : unsigned char {
  poisson,    // -div grad u = f: integral of grad u . grad v; one unknown a node
  elasticity  // linear, isotropic, small strains: integral of strain' D strain; three unknowns a node
};
std::string_view to_string(Physics physics) noexcept;
constexpr int components(Physics physics) noexcept { return physics == Physics::poisson ? 1 : 3; }

// Young's modulus and Poisson's ratio; elasticity only.
struct Material {
  double young = 1, poisson = 0.3;
  double lambda() const noexcept { return young * poisson / ((1 + poisson) * (1 - 2 * poisson)); }
  double mu() const noexcept { return young / (2 * (1 + poisson)); }
};

// A function of the point with three values; only the first is used if a node has one unknown.
using Field = std::function<Point(const Point&)>;

// The element matrices in the layout of ElementGroup, exactly symmetric, by Gauss quadrature with degree + 1
// points along each axis. Throws BadMatrix for an element with a negative volume.
std::vector<double> stiffness(const Context& context, const Mesh& mesh, Physics physics,
                              const Material& material = {});
// The integral of f . v for each unknown.
std::vector<double> load(const Mesh& mesh, Physics physics, const Field& f);
// The values of a field at the nodes, for each unknown.
std::vector<double> interpolate(const Mesh& mesh, Physics physics, const Field& u);
// The square root of the integral of |u_h - u|^2.
double l2_error(const Mesh& mesh, Physics physics, std::span<const double> solution, const Field& exact);

// All unknowns of the nodes on the boundary.
std::vector<std::int64_t> boundary_unknowns(const Mesh& mesh, Physics physics);
// Views of the arrays of mesh and matrices, which must outlive it.
ElementGroup<double> group_of(const Mesh& mesh, const std::vector<double>& matrices);

}  // namespace protean::apps::fem
