// Meshes of a small finite-element front: what examples and tests of element matrices need, no library.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace protean::apps::fem {

using Point = std::array<double, 3>;
enum class Shape : unsigned char { hexahedron, tetrahedron };

// Elements of one shape and degree; node coordinates; the nodes on the boundary, ascending.
struct Mesh {
  Shape shape = Shape::hexahedron;
  int degree = 1;
  std::vector<Point> nodes;
  // Hexahedra: node a + (p + 1) (b + (p + 1) c) of (p + 1)^3 is at Gauss-Lobatto points a, b, c of the
  // element's axes. Tetrahedra: four corners.
  std::vector<std::int32_t> connectivity;
  std::vector<std::int32_t> boundary;
  bool uniform = false;  // all elements are the same but for where they lie

  int nodes_of_element() const noexcept {
    return shape == Shape::tetrahedron ? 4 : (degree + 1) * (degree + 1) * (degree + 1);
  }
  std::int64_t elements() const noexcept {
    return static_cast<std::int64_t>(connectivity.size()) / nodes_of_element();
  }
};

// The unit cube in n x n x n hexahedra of a degree of 1 to 4; (n degree + 1)^3 nodes, x fastest. `distortion`
// moves the points inside by up to that much, smoothly (0: none; up to 0.1 keeps elements sound). Throws
// BadArgument.
Mesh cube_of_hexahedra(int n, int degree, double distortion = 0);
// The same cube, each cube of n x n x n cut into six tetrahedra of degree 1.
Mesh cube_of_tetrahedra(int n, double distortion = 0);

// Tetrahedra of degree 1 from a Gmsh file, ASCII, version 2.x or 4.1. Other elements in it are passed over;
// nodes no tetrahedron has are left out. Throws BadFile with the line.
Mesh read_gmsh(const std::string& path);

}  // namespace protean::apps::fem
