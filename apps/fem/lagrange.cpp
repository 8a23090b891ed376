#include "apps/fem/lagrange.hpp"

#include <cmath>
#include <numbers>

namespace protean::apps::fem {
namespace {

// P_n(x), P_n'(x) and P_n''(x) on [-1, 1], |x| < 1.
struct Legendre {
  double value, first, second;
};
Legendre legendre(int n, double x) {
  double last = 1, value = x;
  if (n == 0) return {1, 0, 0};
  for (int k = 2; k <= n; ++k) {
    const double next = ((2 * k - 1) * x * value - (k - 1) * last) / k;
    last = value, value = next;
  }
  const double first = n * (x * value - last) / (x * x - 1);
  return {value, first, (2 * x * first - n * (n + 1) * value) / (1 - x * x)};
}

}  // namespace

Rule gauss_legendre(int n) {
  Rule rule;
  for (int i = 0; i < n; ++i) {
    double x = -std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5));
    for (int step = 0; step < 20; ++step) {
      const Legendre p = legendre(n, x);
      x -= p.value / p.first;
    }
    const double slope = legendre(n, x).first;
    rule.points.push_back((1 + x) / 2);
    rule.weights.push_back(1 / ((1 - x * x) * slope * slope));
  }
  return rule;
}

std::vector<double> gauss_lobatto_points(int degree) {
  std::vector<double> points{0};
  for (int i = 1; i < degree; ++i) {
    double x = -std::cos(std::numbers::pi * i / degree);
    for (int step = 0; step < 20; ++step) {
      const Legendre p = legendre(degree, x);
      x -= p.first / p.second;
    }
    points.push_back((1 + x) / 2);
  }
  points.push_back(1);
  return points;
}

void lagrange(const std::vector<double>& nodes, double x, double* values, double* derivatives) {
  const std::size_t n = nodes.size();
  for (std::size_t a = 0; a < n; ++a) {
    double value = 1, derivative = 0;
    for (std::size_t b = 0; b < n; ++b) {
      if (b == a) continue;
      const double factor = 1 / (nodes[a] - nodes[b]);
      derivative = derivative * (x - nodes[b]) * factor + value * factor;
      value *= (x - nodes[b]) * factor;
    }
    values[a] = value, derivatives[a] = derivative;
  }
}

}  // namespace protean::apps::fem
