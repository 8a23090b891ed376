// Stokes equations on a grid of cells, velocities on their faces, pressure in their middle (Harlow and Welch, Phys.
// Fluids 8 (1965) 2182), with no flow through or along the border: symmetric, indefinite, and singular, since only
// differences of pressure count.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"

namespace protean::test {

// The velocities in x and y first, then the pressures. `stabilised`: -1/8 of a Laplacian instead of the zeros for the
// pressure.
inline CsrMatrix<double> stokes(const ContextPtr& context, std::int32_t cells, bool stabilised = false) {
  std::vector<Triplet<double>> list;
  const std::int32_t n = cells, faces = n * (n - 1), pressures = 2 * faces;
  const auto x = [n](std::int32_t i, std::int32_t j) { return j * (n - 1) + i; };           // i < n - 1
  const auto y = [n, faces](std::int32_t i, std::int32_t j) { return faces + j * n + i; };  // j < n - 1
  const auto p = [n, pressures](std::int32_t i, std::int32_t j) { return pressures + j * n + i; };
  const auto couple = [&](std::int32_t a, std::int32_t b, double value) {
    list.push_back({a, b, value}), list.push_back({b, a, value});
  };
  for (std::int32_t j = 0; j < n; ++j)
    for (std::int32_t i = 0; i < n; ++i) {
      if (i + 1 < n) {
        list.push_back({x(i, j), x(i, j), 4});
        if (i + 2 < n) couple(x(i, j), x(i + 1, j), -1);
        if (j + 1 < n) couple(x(i, j), x(i, j + 1), -1);
        couple(x(i, j), p(i, j), -1), couple(x(i, j), p(i + 1, j), 1);
      }
      if (j + 1 < n) {
        list.push_back({y(i, j), y(i, j), 4});
        if (j + 2 < n) couple(y(i, j), y(i, j + 1), -1);
        if (i + 1 < n) couple(y(i, j), y(i + 1, j), -1);
        couple(y(i, j), p(i, j), -1), couple(y(i, j), p(i, j + 1), 1);
      }
      if (!stabilised) continue;
      const std::int32_t neighbours = (i > 0) + (i + 1 < n) + (j > 0) + (j + 1 < n);
      list.push_back({p(i, j), p(i, j), -neighbours / 8.0});
      if (i + 1 < n) couple(p(i, j), p(i + 1, j), 1 / 8.0);
      if (j + 1 < n) couple(p(i, j), p(i, j + 1), 1 / 8.0);
    }
  return csr_from_triplets<double>(context, pressures + n * n, pressures + n * n, list);
}

}  // namespace protean::test
