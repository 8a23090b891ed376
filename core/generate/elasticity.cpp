// Linear elasticity of the unit cube in trilinear hexahedra of side h = 1 / n. The face x = 0 is clamped. The
// unknowns of the clamped nodes are removed; without this the matrix would not be symmetric positive
// definite. Nodes are i = 1 .. n, j = 0 .. n, k = 0 .. n with number (k (n + 1) + j) n + i - 1, and three
// unknowns a node.
#include <array>
#include <cmath>

#include "core/generate/row_fill.hpp"

namespace protean::generate_detail {
namespace {

using ElementMatrix = std::array<std::array<double, 24>, 24>;

// Stiffness of one element, integral of B' D B, by 2 x 2 x 2 Gauss points; corner c is (c & 1, c >> 1 & 1,
// c >> 2), unknowns 3 c + component. Cook et al., Concepts and Applications of Finite Element Analysis.
ElementMatrix element_stiffness(double h, double young, double poisson) {
  const double lambda = young * poisson / ((1 + poisson) * (1 - 2 * poisson)),
               mu = young / (2 * (1 + poisson));
  ElementMatrix matrix{};
  const double gauss = 1 / std::sqrt(3.0);
  for (int point = 0; point < 8; ++point) {
    std::array<double, 3> at{};
    for (int d = 0; d < 3; ++d) at[d] = (point >> d & 1) ? gauss : -gauss;
    std::array<std::array<double, 3>, 8> gradient{};  // of the shape functions
    for (int corner = 0; corner < 8; ++corner)
      for (int d = 0; d < 3; ++d) {
        double product = 1;
        for (int e = 0; e < 3; ++e) {
          const double sign = (corner >> e & 1) ? 1 : -1;
          product *= e == d ? sign / h : (1 + sign * at[e]) / 2;
        }
        gradient[corner][d] = product;
      }
    const double weight = h * h * h / 8;
    for (int a = 0; a < 8; ++a)
      for (int b = 0; b < 8; ++b) {
        double dot = 0;
        for (int d = 0; d < 3; ++d) dot += gradient[a][d] * gradient[b][d];
        for (int r = 0; r < 3; ++r)
          for (int c = 0; c < 3; ++c)
            matrix[3 * a + r][3 * b + c] +=
                weight * (lambda * gradient[a][r] * gradient[b][c] + mu * gradient[a][c] * gradient[b][r] +
                          (r == c ? mu * dot : 0));
      }
  }
  // Rounding is not symmetric, but the matrix must be, bit for bit.
  for (int r = 0; r < 24; ++r)
    for (int c = 0; c < r; ++c) matrix[c][r] = matrix[r][c];
  return matrix;
}

}  // namespace

CsrMatrix<double> elasticity_3d(const RowTarget& target, const GeneratorParams& p) {
  const auto n = static_cast<std::int64_t>(p.find("n")->second);
  check_size("elasticity-3d",
             3.0 * static_cast<double>(n) * static_cast<double>(n + 1) * static_cast<double>(n + 1));
  const ElementMatrix element =
      element_stiffness(1 / static_cast<double>(n), p.find("young")->second, p.find("poisson")->second);
  const std::int64_t nodes_yz = n + 1;

  // The block of nodes p and q: the sum over the elements that have both as corners, always in the same
  // order, so that the block of q and p is its exact transpose.
  const auto entry = [&](const std::array<std::int64_t, 3>& from, const std::array<std::int64_t, 3>& to,
                         int r, int c) {
    double sum = 0;
    std::array<std::int64_t, 3> low{}, high{};
    for (int d = 0; d < 3; ++d) {
      low[d] = std::max<std::int64_t>(std::max(from[d], to[d]) - 1, 0);
      high[d] = std::min(std::min(from[d], to[d]), n - 1);
    }
    for (std::int64_t z = low[2]; z <= high[2]; ++z)
      for (std::int64_t y = low[1]; y <= high[1]; ++y)
        for (std::int64_t x = low[0]; x <= high[0]; ++x) {
          const std::int64_t a = (from[0] - x) + 2 * (from[1] - y) + 4 * (from[2] - z);
          const std::int64_t b = (to[0] - x) + 2 * (to[1] - y) + 4 * (to[2] - z);
          sum += element[3 * a + r][3 * b + c];
        }
    return sum;
  };
  const auto node = [=](std::int64_t number) -> std::array<std::int64_t, 3> {
    return {number % n + 1, number / n % nodes_yz, number / (n * nodes_yz)};
  };
  // Inside the cube all nodes have the same 27 blocks.
  std::array<double, 243> inner{};
  const bool has_inner = n >= 4;
  if (has_inner)
    for (int at = 0, r = 0; r < 3; ++r)
      for (int q = 0; q < 27; ++q)
        for (int c = 0; c < 3; ++c)
          inner[at++] = entry({2, 2, 2}, {1 + q % 3, 1 + q / 3 % 3, 1 + q / 9}, r, c);

  const auto low = [](std::int64_t i, std::int64_t first) { return std::max(i - 1, first); };
  const auto high = [=](std::int64_t i) { return std::min(i + 1, n); };
  return fill_rows(
      target, "elasticity-3d", 3 * n * nodes_yz * nodes_yz,
      [=](std::int64_t row) {
        const auto at = node(row / 3);
        return 3 * (high(at[0]) - low(at[0], 1) + 1) * (high(at[1]) - low(at[1], 0) + 1) *
               (high(at[2]) - low(at[2], 0) + 1);
      },
      [&](std::int64_t row, std::int32_t* col, double* value) {
        const auto at = node(row / 3);
        const int r = static_cast<int>(row % 3);
        const bool is_inner =
            has_inner && at[0] >= 2 && at[0] < n && at[1] >= 1 && at[1] < n && at[2] >= 1 && at[2] < n;
        const double* block = inner.data() + 81 * r;
        for (std::int64_t z = low(at[2], 0); z <= high(at[2]); ++z)
          for (std::int64_t y = low(at[1], 0); y <= high(at[1]); ++y)
            for (std::int64_t x = low(at[0], 1); x <= high(at[0]); ++x)
              for (int c = 0; c < 3; ++c) {
                *col++ = static_cast<std::int32_t>(3 * ((z * nodes_yz + y) * n + x - 1) + c);
                *value++ = is_inner ? *block++ : entry(at, {x, y, z}, r, c);
              }
      });
}

}  // namespace protean::generate_detail
