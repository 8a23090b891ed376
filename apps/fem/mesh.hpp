// Meshes for the finite-element problems of the command, for examples and for tests.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace protean::apps::fem {

using Point = std::array<double, 3>;
enum class Shape : unsigned char { hexahedron, tetrahedron };

// A mesh of elements of one shape and degree.
struct Mesh {
  Shape shape = Shape::hexahedron;
  int degree = 1;
  std::vector<Point> nodes;
  // The nodes of each element. Hexahedra of degree p: node a + (p + 1) (b + (p + 1) c) is at the
  // Gauss-Lobatto points a, b, c of the three axes of the element. Tetrahedra: four corners.
  std::vector<std::int32_t> connectivity;
  std::vector<std::int32_t> boundary;  // nodes on the boundary, ascending
  bool uniform = false;                // all elements have the same shape and size

  int nodes_of_element() const noexcept {
    return shape == Shape::tetrahedron ? 4 : (degree + 1) * (degree + 1) * (degree + 1);
  }
  std::int64_t elements() const noexcept {
    return static_cast<std::int64_t>(connectivity.size()) / nodes_of_element();
  }
};

// The unit cube, divided into n x n x n hexahedra of degree 1 to 4. It has (n degree + 1)^3 nodes; x changes
// fastest. `distortion` is the largest distance by which inner points are moved, smoothly (0: not at all; up
// to 0.1 all elements keep a positive volume). Throws BadArgument.
Mesh cube_of_hexahedra(int n, int degree, double distortion = 0);
// The same cube; each of the n x n x n small cubes is divided into six tetrahedra of degree 1.
Mesh cube_of_tetrahedra(int n, double distortion = 0);

// Reads the tetrahedra of degree 1 of a Gmsh file (ASCII, version 2.x or 4.1). Other elements are ignored,
// and so are nodes that belong to no tetrahedron. The file may be compressed by gzip or xz. Throws BadFile with the
// line.
Mesh read_gmsh(const std::string& path);

}  // namespace protean::apps::fem
