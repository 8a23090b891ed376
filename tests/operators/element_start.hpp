// Solves that begin with element matrices.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "operators/elements/element_operator.hpp"
#include "support/space.hpp"

namespace protean::test {

// Bilinear quadrilaterals on n x n squares, -div grad u + wind du/dx, boundary nodes constrained. Row and
// column k of an element belong to its corner k: (0,0), (1,0), (1,1), (0,1).
struct Squares {
  std::int64_t nodes;
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  std::vector<std::int64_t> boundary;
  Squares(int n, double wind) : nodes((n + 1) * (n + 1)) {
    constexpr double diffusion[4][4] = {{4, -1, -2, -1}, {-1, 4, -1, -2}, {-2, -1, 4, -1}, {-1, -2, -1, 4}};
    constexpr double drift[4][4] = {{-2, 2, 1, -1}, {-2, 2, 1, -1}, {-1, 1, 2, -2}, {-1, 1, 2, -2}};
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) {
        const int at = y * (n + 1) + x;
        for (const int k : {at, at + 1, at + n + 2, at + n + 1}) connectivity.push_back(k);
        const double stiffness = 1 + 0.5 * ((x + y) % 3);  // so that no two neighbours are alike
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j)
            matrices.push_back(stiffness * diffusion[i][j] / 6 + wind * drift[i][j] / 12);
      }
    for (int y = 0; y <= n; ++y)
      for (int x = 0; x <= n; ++x)
        if (x == 0 || y == 0 || x == n || y == n) boundary.push_back(y * (n + 1) + x);
  }
  ElementGroup<double> group() const {
    return {static_cast<std::int64_t>(connectivity.size()) / 4, 4, connectivity, matrices};
  }
  std::unique_ptr<ElementOperator<double>> on(const ContextPtr& context, ElementScatter scatter,
                                              bool symmetric = false) const {
    ElementOptions options;
    options.scatter = scatter, options.symmetric = symmetric;
    options.constrained = boundary, options.constrained_rows = ConstrainedRows::eliminate;
    const ElementGroup<double> groups[] = {group()};
    return make_element_operator<double>(context, nodes, groups, options);
  }
};

}  // namespace protean::test
