// Matrices of regular grids. Unknown (i, j, k) of an nx x ny x nz grid is row (k ny + j) nx + i; neighbours
// outside the grid are Dirichlet zeros and have no entry.
#include <array>

#include "core/generate/row_fill.hpp"

namespace protean::generate_detail {
namespace {

struct Grid {
  std::int64_t nx, ny, nz;
  std::int64_t size() const noexcept { return nx * ny * nz; }
};

std::int64_t side(const GeneratorParams& p, std::string_view name) {
  const auto own = static_cast<std::int64_t>(p.find(name)->second);
  return own > 0 ? own : static_cast<std::int64_t>(p.find("n")->second);
}

Grid grid_2d(std::string_view kind, const GeneratorParams& p) {
  const Grid grid{side(p, "nx"), side(p, "ny"), 1};
  check_size(kind, static_cast<double>(grid.nx) * static_cast<double>(grid.ny));
  return grid;
}
Grid grid_3d(std::string_view kind, const GeneratorParams& p) {
  const Grid grid{side(p, "nx"), side(p, "ny"), side(p, "nz")};
  check_size(kind,
             static_cast<double>(grid.nx) * static_cast<double>(grid.ny) * static_cast<double>(grid.nz));
  return grid;
}

// The stencil of a point and its nearest neighbours, the same at all points of the grid.
struct Star {
  double centre, west, east, south, north, below, above;
};

CsrMatrix<double> star_matrix(const RowTarget& target, std::string_view kind, Grid g, const Star& s) {
  const std::int64_t layer = g.nx * g.ny;
  return fill_rows(
      target, kind, g.size(),
      [=](std::int64_t row) -> std::int64_t {
        const std::int64_t i = row % g.nx, j = row / g.nx % g.ny, k = row / layer;
        return 1 + (i > 0) + (i + 1 < g.nx) + (j > 0) + (j + 1 < g.ny) + (k > 0) + (k + 1 < g.nz);
      },
      [=](std::int64_t row, std::int32_t* col, double* value) {
        const std::int64_t i = row % g.nx, j = row / g.nx % g.ny, k = row / layer;
        const auto put = [&](std::int64_t c, double v) {
          *col++ = static_cast<std::int32_t>(c), *value++ = v;
        };
        if (k > 0) put(row - layer, s.below);
        if (j > 0) put(row - g.nx, s.south);
        if (i > 0) put(row - 1, s.west);
        put(row, s.centre);
        if (i + 1 < g.nx) put(row + 1, s.east);
        if (j + 1 < g.ny) put(row + g.nx, s.north);
        if (k + 1 < g.nz) put(row + layer, s.above);
      });
}

CsrMatrix<double> box_matrix(const RowTarget& target, std::string_view kind, Grid g) {
  const std::int64_t layer = g.nx * g.ny;
  const auto width = [](std::int64_t i, std::int64_t n) -> std::int64_t { return 1 + (i > 0) + (i + 1 < n); };
  return fill_rows(
      target, kind, g.size(),
      [=](std::int64_t row) {
        return width(row % g.nx, g.nx) * width(row / g.nx % g.ny, g.ny) * width(row / layer, g.nz);
      },
      [=](std::int64_t row, std::int32_t* col, double* value) {
        const std::int64_t i = row % g.nx, j = row / g.nx % g.ny, k = row / layer;
        for (std::int64_t c = std::max<std::int64_t>(k - 1, 0); c <= std::min(k + 1, g.nz - 1); ++c)
          for (std::int64_t b = std::max<std::int64_t>(j - 1, 0); b <= std::min(j + 1, g.ny - 1); ++b)
            for (std::int64_t a = std::max<std::int64_t>(i - 1, 0); a <= std::min(i + 1, g.nx - 1); ++a) {
              const std::int64_t at = (c * g.ny + b) * g.nx + a;
              *col++ = static_cast<std::int32_t>(at), *value++ = at == row ? 26.0 : -1.0;
            }
      });
}

}  // namespace

CsrMatrix<double> poisson_2d(const RowTarget& target, const GeneratorParams& p) {
  return star_matrix(target, "poisson-2d", grid_2d("poisson-2d", p), {4, -1, -1, -1, -1, 0, 0});
}

CsrMatrix<double> poisson_3d(const RowTarget& target, const GeneratorParams& p) {
  const double points = p.find("points")->second;
  if (points != 7 && points != 27)
    throw BadArgument(
        fmt::format("poisson-3d: points = {}; a stencil of 7 or of 27 points is allowed", points));
  const Grid grid = grid_3d("poisson-3d", p);
  return points == 27 ? box_matrix(target, "poisson-3d", grid)
                      : star_matrix(target, "poisson-3d", grid, {6, -1, -1, -1, -1, -1, -1});
}

CsrMatrix<double> anisotropic_2d(const RowTarget& target, const GeneratorParams& p) {
  const double x = p.find("epsilon_x")->second, y = p.find("epsilon_y")->second;
  return star_matrix(target, "anisotropic-2d", grid_2d("anisotropic-2d", p),
                     {2 * (x + y), -x, -x, -y, -y, 0, 0});
}

CsrMatrix<double> anisotropic_3d(const RowTarget& target, const GeneratorParams& p) {
  const double x = p.find("epsilon_x")->second, y = p.find("epsilon_y")->second,
               z = p.find("epsilon_z")->second;
  return star_matrix(target, "anisotropic-3d", grid_3d("anisotropic-3d", p),
                     {2 * (x + y + z), -x, -x, -y, -y, -z, -z});
}

CsrMatrix<double> convection_diffusion_3d(const RowTarget& target, const GeneratorParams& p) {
  const Grid grid = grid_3d("convection-diffusion-3d", p);
  const std::array<std::int64_t, 3> n{grid.nx, grid.ny, grid.nz};
  constexpr std::array<std::string_view, 3> diffusion{"a1", "a2", "a3"}, convection{"b1", "b2", "b3"};
  std::array<double, 3> minus{}, plus{};
  double centre = p.find("c")->second;
  for (std::size_t d = 0; d < 3; ++d) {
    const double inverse_h = static_cast<double>(n[d] + 1);  // the unit cube, h = 1 / (n + 1)
    const double a = p.find(diffusion[d])->second * inverse_h * inverse_h;
    const double b = p.find(convection[d])->second * inverse_h / 2;
    minus[d] = -a - b, plus[d] = -a + b, centre += 2 * a;
  }
  return star_matrix(target, "convection-diffusion-3d", grid,
                     {centre, minus[0], plus[0], minus[1], plus[1], minus[2], plus[2]});
}

}  // namespace protean::generate_detail
