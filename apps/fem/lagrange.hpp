// Points, weights and Lagrange polynomials on [0, 1].
#pragma once
#include <vector>

namespace protean::apps::fem {

struct Rule {
  std::vector<double> points, weights;
};
// Gauss-Legendre with n points: exact for polynomials of degree 2 n - 1.
Rule gauss_legendre(int n);
// The degree + 1 Gauss-Lobatto points: both ends and the zeros of the derivative of the Legendre polynomial.
std::vector<double> gauss_lobatto_points(int degree);

// Values and derivatives at x of the polynomials that are 1 at one of the nodes and 0 at the others.
void lagrange(const std::vector<double>& nodes, double x, double* values, double* derivatives);

}  // namespace protean::apps::fem
