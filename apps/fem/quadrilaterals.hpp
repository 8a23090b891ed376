// Poisson's equation on a square of quadrilaterals, for `protean reproduce`: the finite elements of Reguly and Giles
// (InPar 2012, section 8).
#pragma once
#include <cstdint>
#include <vector>

namespace protean::apps::fem {

// n x n equal squares with (degree + 1)^2 nodes each, at the Gauss-Lobatto points; node (i, j) of the (n degree + 1)^2
// nodes has the number j (n degree + 1) + i. An interior vertex shares an element with (2 degree + 1)^2 nodes.
struct Quadrilaterals {
  int n = 0, degree = 0;
  std::vector<std::int32_t> connectivity = {};  // elements x nodes of an element
  std::vector<std::int64_t> boundary = {};      // nodes

  int nodes_of_element() const { return (degree + 1) * (degree + 1); }
  std::int64_t elements() const { return std::int64_t{n} * n; }
  std::int64_t nodes_of_line() const { return std::int64_t{n} * degree + 1; }
  std::int64_t nodes() const { return nodes_of_line() * nodes_of_line(); }
  // For a coordinate of the nodes of a line, in [0, 1].
  std::vector<double> line() const;
};
Quadrilaterals square_of_quadrilaterals(int n, int degree);

// The element matrix, row by row. In two dimensions it does not depend on the size of the square.
std::vector<double> poisson_on_square(int degree);

}  // namespace protean::apps::fem
