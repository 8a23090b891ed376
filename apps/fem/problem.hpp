// A finite-element problem as a problem file names it: kinds fem-hex and fem-tet of matrix.generate.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "apps/fem/discretise.hpp"

namespace protean::apps::fem {

struct Spec {
  Shape shape = Shape::hexahedron;
  int degree = 1, n = 20;  // of the cube
  double distortion = 0;
  std::string mesh;  // fem-tet: path of a Gmsh file instead of the cube; empty: none
  Physics physics = Physics::poisson;
  Material material;
  bool assembled = true;  // storage: assembled | element
};

// A mesh with its element matrices. Unknowns of boundary nodes are 0 and taken out: for poisson on the whole
// boundary, for elasticity on the face with the smallest x.
struct System {
  Mesh mesh;
  Physics physics = Physics::poisson;
  std::vector<double> matrices;
  std::vector<std::int64_t> constrained;

  // Half stored; rows are the free unknowns.
  std::unique_ptr<ElementOperator<double>> on(const ContextPtr& context, ElementScatter scatter) const;
};

// Throws BadArgument, BadFile, OutOfMemory (before the matrices are made).
System make_system(const Context& host, const Spec& spec);

}  // namespace protean::apps::fem
