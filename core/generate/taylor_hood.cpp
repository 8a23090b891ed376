// The Stokes equations by Taylor-Hood elements on a grid of n^d cells of the unit square or cube (Taylor and Hood,
// Computers and Fluids 1 (1973) 73): velocities continuous and quadratic along each axis of a cell, pressures
// continuous and linear, the viscosity mu constant in each cell.
//   integral of 2 mu e(u) : e(v) - p div v - q div u,   e(u) = (grad u + grad u') / 2
// and the integral of p q / mu, the mass matrix of the pressures over the viscosity.
//
// Nodes have coordinates of half a cell, 0 to 2 n along each axis. Velocities are 0 on the border and have no unknowns
// there; pressures lie on the nodes whose coordinates are even.
//   velocities:  d node + component,  node = (x - 1) + (y - 1) (2 n - 1) + ..
//   pressures:   d (2 n - 1)^d + x / 2 + (y / 2) (n + 1) + ..
#include <array>
#include <cmath>

#include "core/generate/row_fill.hpp"

namespace protean::generate_detail {
namespace {

// Over [0, 1] by three points of Gauss, which are exact up to degree 5.
template <class F>
double integral(const F& f) {
  const double off = std::sqrt(0.15);
  return (5 * (f(0.5 - off) + f(0.5 + off)) + 8 * f(0.5)) / 18;
}
// Shape functions of the nodes 0, 1/2, 1, and their derivatives.
double quadratic(int a, double x) {
  return a == 0 ? (1 - x) * (1 - 2 * x) : a == 1 ? 4 * x * (1 - x) : x * (2 * x - 1);
}
double slope(int a, double x) { return a == 0 ? 4 * x - 3 : a == 1 ? 4 - 8 * x : 4 * x - 1; }
// Shape functions of the nodes 0, 1.
double linear(int q, double x) { return q == 0 ? 1 - x : x; }

// Integrals over a line of length one. An integral over a cell is a product of one for each axis.
struct Line {
  double mass[3][3], slopes[3][3], one_slope[3][3];  // phi_a phi_b, phi_a' phi_b', phi_a phi_b'
  double pressure[2][3], pressure_slope[2][3];       // psi_q phi_b, psi_q phi_b'
  double pressures[2][2];                            // psi_q psi_s
  Line() {
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) {
        mass[a][b] = integral([=](double x) { return quadratic(a, x) * quadratic(b, x); });
        slopes[a][b] = integral([=](double x) { return slope(a, x) * slope(b, x); });
        one_slope[a][b] = integral([=](double x) { return quadratic(a, x) * slope(b, x); });
      }
    for (int q = 0; q < 2; ++q) {
      for (int b = 0; b < 3; ++b) {
        pressure[q][b] = integral([=](double x) { return linear(q, x) * quadratic(b, x); });
        pressure_slope[q][b] = integral([=](double x) { return linear(q, x) * slope(b, x); });
      }
      for (int s = 0; s < 2; ++s)
        pressures[q][s] = integral([=](double x) { return linear(q, x) * linear(s, x); });
    }
  }
};

constexpr int power(int base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// The matrices of a cell of side h and viscosity one. Node a has digit k of a in base 3 along axis k, corner q digit k
// in base 2.
template <int d>
struct Cell {
  static constexpr int nodes = power(3, d), corners = power(2, d), unknowns = d * nodes;
  std::vector<double> viscous;  // unknowns x unknowns, unknown d a + component
  double divergence[corners][unknowns], mass[corners][corners];

  explicit Cell(double h) : viscous(static_cast<std::size_t>(unknowns * unknowns)) {
    const Line line;
    const auto product = [](const auto& factor) {
      double all = 1;
      for (int k = 0; k < d; ++k) all *= factor(k);
      return all;
    };
    const auto node = [](int a, int k) { return a / power(3, k) % 3; };
    const auto corner = [](int q, int k) { return q >> k & 1; };
    for (int a = 0; a < nodes; ++a)
      for (int b = 0; b < nodes; ++b) {
        double gradients = 0;
        for (int axis = 0; axis < d; ++axis)
          gradients +=
              product([&](int k) { return (k == axis ? line.slopes : line.mass)[node(a, k)][node(b, k)]; });
        for (int r = 0; r < d; ++r)
          for (int c = 0; c < d; ++c) {
            // The derivative along c of the function of a times the one along r of the function of b.
            const double crossed = product([&](int k) {
              const int i = node(a, k), j = node(b, k);
              if (k == r && k == c) return line.slopes[i][j];
              return k == r ? line.one_slope[i][j] : k == c ? line.one_slope[j][i] : line.mass[i][j];
            });
            at(d * a + r, d * b + c) = std::pow(h, d - 2) * ((r == c ? gradients : 0) + crossed);
          }
      }
    // Rounding is not symmetric, but the matrix must be, bit for bit.
    for (int i = 0; i < unknowns; ++i)
      for (int j = 0; j < i; ++j) at(j, i) = at(i, j);
    for (int q = 0; q < corners; ++q) {
      for (int b = 0; b < nodes; ++b)
        for (int c = 0; c < d; ++c)
          divergence[q][d * b + c] = -std::pow(h, d - 1) * product([&](int k) {
            return (k == c ? line.pressure_slope : line.pressure)[corner(q, k)][node(b, k)];
          });
      for (int s = 0; s < corners; ++s)
        mass[q][s] =
            std::pow(h, d) * product([&](int k) { return line.pressures[corner(q, k)][corner(s, k)]; });
    }
  }
  double& at(int i, int j) noexcept { return viscous[static_cast<std::size_t>(i * unknowns + j)]; }
  double at(int i, int j) const noexcept { return viscous[static_cast<std::size_t>(i * unknowns + j)]; }
};

template <int d>
class Grid {
 public:
  using Place = std::array<std::int64_t, d>;  // of a node or a cell

  explicit Grid(const GeneratorParams& p)
      : n_(static_cast<std::int64_t>(p.find("n")->second)),
        contrast_(p.find("contrast")->second),
        cell_(1 / static_cast<double>(n_)),
        odd_(static_cast<std::size_t>(n_)) {
    const auto blocks = static_cast<std::int64_t>(p.find("blocks")->second);
    for (std::int64_t i = 0; i < n_; ++i)
      odd_[static_cast<std::size_t>(i)] = (2 * i + 1) * blocks / (2 * n_) % 2;
  }
  std::int64_t velocities() const noexcept { return d * raised(2 * n_ - 1); }
  std::int64_t pressures() const noexcept { return raised(n_ + 1); }

  Place velocity_place(std::int64_t row) const noexcept {
    Place at = digits(row / d, 2 * n_ - 1);
    for (std::int64_t& x : at) ++x;
    return at;
  }
  Place pressure_place(std::int64_t number) const noexcept {
    Place at = digits(number, n_ + 1);
    for (std::int64_t& x : at) x *= 2;
    return at;
  }

  // f(unknown of component 0) for each node with a velocity in the cells around this one, f(number) for each with a
  // pressure, ascending.
  template <class F>
  void each_velocity(const Place& at, const F& f) const {
    Place low{}, high{};
    for (int k = 0; k < d; ++k)
      low[k] = std::max<std::int64_t>(2 * first_cell(at[k]), 1),
      high[k] = std::min(2 * last_cell(at[k]) + 2, 2 * n_ - 1);
    each(low, high, [&](const Place& to) {
      std::int64_t number = 0;
      for (int k = d; k-- > 0;) number = number * (2 * n_ - 1) + to[k] - 1;
      f(to, d * number);
    });
  }
  template <class F>
  void each_pressure(const Place& at, const F& f) const {
    Place low{}, high{};
    for (int k = 0; k < d; ++k) low[k] = first_cell(at[k]), high[k] = last_cell(at[k]) + 1;
    each(low, high, [&](Place to) {
      std::int64_t number = 0;
      for (int k = d; k-- > 0;) number = number * (n_ + 1) + to[k];
      for (std::int64_t& x : to) x *= 2;
      f(to, number);
    });
  }
  std::int64_t velocities_around(const Place& at) const noexcept {
    std::int64_t count = d;
    for (int k = 0; k < d; ++k)
      count *= std::min(2 * last_cell(at[k]) + 2, 2 * n_ - 1) -
               std::max<std::int64_t>(2 * first_cell(at[k]), 1) + 1;
    return count;
  }
  std::int64_t pressures_around(const Place& at) const noexcept {
    std::int64_t count = 1;
    for (int k = 0; k < d; ++k) count *= last_cell(at[k]) - first_cell(at[k]) + 2;
    return count;
  }

  // Entries: sums over the cells that have both nodes, always in the same order, so that the matrix is symmetric bit
  // for bit.
  double viscous(const Place& from, int r, const Place& to, int c) const {
    double sum = 0;
    each_cell(from, to, [&](const Place& cell) {
      sum += viscosity(cell) * cell_.at(d * node(from, cell) + r, d * node(to, cell) + c);
    });
    return sum;
  }
  double divergence(const Place& pressure, const Place& velocity, int c) const {
    double sum = 0;
    each_cell(pressure, velocity, [&](const Place& cell) {
      sum += cell_.divergence[corner(pressure, cell)][d * node(velocity, cell) + c];
    });
    return sum;
  }
  double mass(const Place& from, const Place& to) const {
    double sum = 0;
    each_cell(from, to, [&](const Place& cell) {
      sum += cell_.mass[corner(from, cell)][corner(to, cell)] / viscosity(cell);
    });
    return sum;
  }

 private:
  static std::int64_t raised(std::int64_t base) noexcept {
    std::int64_t all = 1;
    for (int k = 0; k < d; ++k) all *= base;
    return all;
  }
  static Place digits(std::int64_t number, std::int64_t base) noexcept {
    Place at{};
    for (std::int64_t& x : at) x = number % base, number /= base;
    return at;
  }
  // Of the cells around a node, along one axis.
  std::int64_t first_cell(std::int64_t x) const noexcept { return std::max<std::int64_t>(x - 1, 0) / 2; }
  std::int64_t last_cell(std::int64_t x) const noexcept { return std::min(x / 2, n_ - 1); }

  template <class F>
  static void each(const Place& low, const Place& high, const F& f) {
    for (Place at = low;;) {
      f(std::as_const(at));
      int k = 0;
      while (k < d && at[k] == high[k]) at[k] = low[k], ++k;
      if (k == d) return;
      ++at[k];
    }
  }
  template <class F>
  void each_cell(const Place& one, const Place& other, const F& f) const {
    Place low{}, high{};
    for (int k = 0; k < d; ++k)
      low[k] = std::max(first_cell(one[k]), first_cell(other[k])),
      high[k] = std::min(last_cell(one[k]), last_cell(other[k]));
    each(low, high, f);
  }
  static int node(const Place& at, const Place& cell) noexcept {
    int number = 0;
    for (int k = d; k-- > 0;) number = 3 * number + static_cast<int>(at[k] - 2 * cell[k]);
    return number;
  }
  static int corner(const Place& at, const Place& cell) noexcept {
    int number = 0;
    for (int k = d; k-- > 0;) number = 2 * number + static_cast<int>(at[k] / 2 - cell[k]);
    return number;
  }
  double viscosity(const Place& cell) const noexcept {
    int sum = 0;
    for (const std::int64_t x : cell) sum += odd_[static_cast<std::size_t>(x)];
    return sum % 2 == 1 ? contrast_ : 1;
  }

  std::int64_t n_;
  double contrast_;
  Cell<d> cell_;
  std::vector<char> odd_;  // whether the block of a cell has an odd number, along an axis
};

}  // namespace

template <int d>
CsrMatrix<double> taylor_hood(const RowTarget& target, const GeneratorParams& p) {
  const Grid<d> grid(p);
  const std::int64_t velocities = grid.velocities();
  return fill_rows(
      target, d == 2 ? "taylor-hood-2d" : "taylor-hood-3d", velocities + grid.pressures(),
      [&](std::int64_t row) {
        if (row >= velocities) return grid.velocities_around(grid.pressure_place(row - velocities));
        const auto at = grid.velocity_place(row);
        return grid.velocities_around(at) + grid.pressures_around(at);
      },
      [&](std::int64_t row, std::int32_t* col, double* value) {
        const auto put = [&](std::int64_t j, double v) {
          *col++ = static_cast<std::int32_t>(j), *value++ = v;
        };
        if (row >= velocities) {
          const auto at = grid.pressure_place(row - velocities);
          grid.each_velocity(at, [&](const auto& to, std::int64_t unknown) {
            for (int c = 0; c < d; ++c) put(unknown + c, grid.divergence(at, to, c));
          });
          return;
        }
        const auto at = grid.velocity_place(row);
        const int r = static_cast<int>(row % d);
        grid.each_velocity(at, [&](const auto& to, std::int64_t unknown) {
          for (int c = 0; c < d; ++c) put(unknown + c, grid.viscous(at, r, to, c));
        });
        grid.each_pressure(at, [&](const auto& to, std::int64_t number) {
          put(velocities + number, grid.divergence(to, at, r));
        });
      });
}

template <int d>
CsrMatrix<double> pressure_mass(const RowTarget& target, const GeneratorParams& p) {
  const Grid<d> grid(p);
  return fill_rows(
      target, d == 2 ? "pressure-mass-2d" : "pressure-mass-3d", grid.pressures(),
      [&](std::int64_t row) { return grid.pressures_around(grid.pressure_place(row)); },
      [&](std::int64_t row, std::int32_t* col, double* value) {
        const auto at = grid.pressure_place(row);
        grid.each_pressure(at, [&](const auto& to, std::int64_t number) {
          *col++ = static_cast<std::int32_t>(number), *value++ = grid.mass(at, to);
        });
      });
}

template CsrMatrix<double> taylor_hood<2>(const RowTarget&, const GeneratorParams&);
template CsrMatrix<double> taylor_hood<3>(const RowTarget&, const GeneratorParams&);
template CsrMatrix<double> pressure_mass<2>(const RowTarget&, const GeneratorParams&);
template CsrMatrix<double> pressure_mass<3>(const RowTarget&, const GeneratorParams&);

}  // namespace protean::generate_detail
