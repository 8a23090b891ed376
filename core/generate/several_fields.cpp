// Systems of several fields on a grid of n x n cells of the unit square, h = 1 / n. Fluxes and velocities lie on the
// faces between two cells (Harlow and Welch, Phys. Fluids 8 (1965) 2182; Raviart and Thomas, Lecture Notes in Math. 606
// (1977) 292), scalars in the middle of the cells. Nothing flows through the border.
//   faces along x:  (j (n - 1) + i),              i < n - 1, between cells (i, j) and (i + 1, j)
//   faces along y:  n (n - 1) + j n + i,          j < n - 1, between cells (i, j) and (i, j + 1)
//   cells:          2 n (n - 1) + j n + i
#include <array>
#include <cmath>

#include "core/generate/row_fill.hpp"

namespace protean::generate_detail {
namespace {

// At most ten entries, columns ascending.
struct Row {
  std::int64_t size = 0;
  std::array<std::int32_t, 10> col{};
  std::array<double, 10> value{};
  void put(std::int64_t j, double v) {
    col[static_cast<std::size_t>(size)] = static_cast<std::int32_t>(j);
    value[static_cast<std::size_t>(size++)] = v;
  }
};

template <class RowOf>
CsrMatrix<double> matrix_of_rows(const RowTarget& target, std::string_view kind, double rows,
                                 const RowOf& row_of) {
  check_size(kind, rows);
  return fill_rows(
      target, kind, static_cast<std::int64_t>(rows), [&](std::int64_t r) { return row_of(r).size; },
      [&](std::int64_t r, std::int32_t* col, double* value) {
        const Row row = row_of(r);
        for (std::int64_t k = 0; k < row.size; ++k)
          col[k] = row.col[static_cast<std::size_t>(k)], value[k] = row.value[static_cast<std::size_t>(k)];
      });
}

struct Cells {
  std::int64_t n;
  double h = 1.0 / static_cast<double>(n);
  std::int64_t faces() const noexcept { return n * (n - 1); }
  std::int64_t x(std::int64_t i, std::int64_t j) const noexcept { return j * (n - 1) + i; }
  std::int64_t y(std::int64_t i, std::int64_t j) const noexcept { return faces() + j * n + i; }
  std::int64_t cell(std::int64_t i, std::int64_t j) const noexcept { return 2 * faces() + j * n + i; }
  double rows() const noexcept {
    const auto m = static_cast<double>(n);
    return 3 * m * m - 2 * m;
  }
  // `contrast` in the disc of radius 1/4 about the middle, 1 around it; at (i, j) h.
  double coefficient(double contrast, double i, double j) const noexcept {
    return std::hypot(i * h - 0.5, j * h - 0.5) < 0.25 ? contrast : 1;
  }
};

// The divergence in a cell, with the sign that makes it the transpose of the differences of pressure.
Row divergence(const Cells& g, std::int64_t i, std::int64_t j) {
  Row row;
  if (i > 0) row.put(g.x(i - 1, j), 1);
  if (i + 1 < g.n) row.put(g.x(i, j), -1);
  if (j > 0) row.put(g.y(i, j - 1), 1);
  if (j + 1 < g.n) row.put(g.y(i, j), -1);
  return row;
}

double number(const GeneratorParams& p, std::string_view name) { return p.find(name)->second; }

}  // namespace

CsrMatrix<double> stokes_2d(const RowTarget& target, const GeneratorParams& p) {
  const Cells g{static_cast<std::int64_t>(number(p, "n"))};
  const double contrast = number(p, "contrast"), wind = number(p, "convection");
  const std::int64_t n = g.n, faces = g.faces();
  // Of a velocity at (a, b) h that has `wide` x `high` neighbours of its kind, the first of them in column `first`.
  const auto momentum = [=](Row& row, double a, double b, std::int64_t i, std::int64_t j, std::int64_t wide,
                            std::int64_t high, std::int64_t self) {
    const double west = g.coefficient(contrast, a - 0.5, b), east = g.coefficient(contrast, a + 0.5, b),
                 south = g.coefficient(contrast, a, b - 0.5), north = g.coefficient(contrast, a, b + 0.5);
    // A rotation about the middle, upwind.
    const double along_x = wind * (b * g.h - 0.5) * g.h, along_y = wind * (0.5 - a * g.h) * g.h;
    const double from_west = std::max(along_x, 0.0), from_east = std::max(-along_x, 0.0),
                 from_south = std::max(along_y, 0.0), from_north = std::max(-along_y, 0.0);
    if (j > 0) row.put(self - wide, -south - from_south);
    if (i > 0) row.put(self - 1, -west - from_west);
    row.put(self, west + east + south + north + from_west + from_east + from_south + from_north);
    if (i + 1 < wide) row.put(self + 1, -east - from_east);
    if (j + 1 < high) row.put(self + wide, -north - from_north);
  };
  return matrix_of_rows(target, "stokes-2d", g.rows(), [=](std::int64_t r) {
    Row row;
    if (r < faces) {
      const std::int64_t i = r % (n - 1), j = r / (n - 1);
      momentum(row, static_cast<double>(i) + 1, static_cast<double>(j) + 0.5, i, j, n - 1, n, r);
      row.put(g.cell(i, j), -1), row.put(g.cell(i + 1, j), 1);
    } else if (r < 2 * faces) {
      const std::int64_t i = (r - faces) % n, j = (r - faces) / n;
      momentum(row, static_cast<double>(i) + 0.5, static_cast<double>(j) + 1, i, j, n, n - 1, r);
      row.put(g.cell(i, j), -1), row.put(g.cell(i, j + 1), 1);
    } else {
      row = divergence(g, (r - 2 * faces) % n, (r - 2 * faces) / n);
    }
    return row;
  });
}

CsrMatrix<double> darcy_2d(const RowTarget& target, const GeneratorParams& p) {
  const Cells g{static_cast<std::int64_t>(number(p, "n"))};
  const double contrast = number(p, "contrast");
  const std::int64_t n = g.n, faces = g.faces();
  // 1 / permeability of a cell.
  const auto resistance = [=](std::int64_t i, std::int64_t j) {
    return 1 / g.coefficient(contrast, static_cast<double>(i) + 0.5, static_cast<double>(j) + 0.5);
  };
  return matrix_of_rows(target, "darcy-2d", g.rows(), [=](std::int64_t r) {
    Row row;
    if (r >= 2 * faces) return divergence(g, (r - 2 * faces) % n, (r - 2 * faces) / n);
    const bool along_x = r < faces;
    const std::int64_t i = along_x ? r % (n - 1) : (r - faces) % n,
                       j = along_x ? r / (n - 1) : (r - faces) / n;
    const std::int64_t next_i = along_x ? i + 1 : i, next_j = along_x ? j : j + 1, step = along_x ? 1 : n,
                       place = along_x ? i : j;
    const double before = resistance(i, j), after = resistance(next_i, next_j);
    if (place > 0) row.put(r - step, before / 6);
    row.put(r, (before + after) / 3);
    if (place + 2 < n) row.put(r + step, after / 6);
    row.put(g.cell(i, j), -1), row.put(g.cell(next_i, next_j), 1);
    return row;
  });
}

CsrMatrix<double> reservoir_2d(const RowTarget& target, const GeneratorParams& p) {
  const Cells g{static_cast<std::int64_t>(number(p, "n"))};
  const double contrast = number(p, "contrast"), step = number(p, "step");
  const std::int64_t n = g.n;
  const auto permeability = [=](std::int64_t i, std::int64_t j) {
    return g.coefficient(contrast, static_cast<double>(i) + 0.5, static_cast<double>(j) + 0.5);
  };
  return matrix_of_rows(
      target, "reservoir-2d", 2 * static_cast<double>(n) * static_cast<double>(n), [=](std::int64_t r) {
        const std::int64_t cell = r / 2, i = cell % n, j = cell / n;
        const bool saturation = r % 2 == 1;
        constexpr double mobility = 0.4;  // of the second phase, in the one of both
        // Neighbours in ascending order; the flow comes from the west and the south.
        const std::array<std::array<std::int64_t, 2>, 4> by{{{0, -1}, {-1, 0}, {1, 0}, {0, 1}}};
        double sum = 0, inflow = 0;
        std::array<double, 4> coupling{};
        for (std::size_t k = 0; k < 4; ++k) {
          const std::int64_t a = i + by[k][0], b = j + by[k][1];
          if (a < 0 || a >= n || b < 0 || b >= n) continue;
          const double one = permeability(i, j), other = permeability(a, b);
          coupling[k] = 2 * one * other / (one + other), sum += coupling[k];
          if (k < 2) inflow += coupling[k];
        }
        Row row;
        const auto neighbour = [&](std::size_t k) {
          if (coupling[k] == 0) return;
          const std::int64_t to = 2 * (cell + by[k][0] + n * by[k][1]);
          row.put(to, -(saturation ? mobility : 1) * coupling[k]);
          if (saturation && k < 2) row.put(to + 1, -g.h * coupling[k]);
        };
        neighbour(0), neighbour(1);
        const double volume = g.h * g.h;
        if (saturation)
          row.put(r - 1, mobility * sum), row.put(r, volume / step + g.h * inflow);
        else
          row.put(r, sum + volume), row.put(r + 1, -g.h * inflow);
        neighbour(2), neighbour(3);
        return row;
      });
}

}  // namespace protean::generate_detail
