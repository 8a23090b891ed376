// The finite-element problems of a problem file: the kinds fem-hex and fem-tet of matrix.generate.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "apps/fem/discretise.hpp"

namespace protean::apps::fem {

struct Spec {
  Shape shape = Shape::hexahedron;
  int degree = 1, n = 20;  // n: elements along a side of the cube
  double distortion = 0;
  std::string mesh;  // fem-tet: path of a Gmsh file; empty: the cube
  Physics physics = Physics::poisson;
  Material material;
  bool assembled = true;  // storage: assembled | element
};

// A mesh with its element matrices. The solution is 0 on the whole boundary (poisson) or on the face with the
// smallest x (elasticity); the unknowns there are removed from the system.
struct System {
  Mesh mesh;
  Physics physics = Physics::poisson;
  std::vector<double> matrices;
  std::vector<std::int64_t> constrained;

  // The operator stores half of each matrix. Its rows are the unknowns that were not removed.
  std::unique_ptr<ElementOperator<double>> on(const ContextPtr& context, ElementScatter scatter) const;
};

// Without the element matrices.
System make_mesh(const Spec& spec);
// Throws BadArgument, BadFile, OutOfMemory (before the matrices are made).
System make_system(const Context& host, const Spec& spec);

}  // namespace protean::apps::fem
