#include "benchmarks/preconditioners/nonlinear.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "apps/fem/problem.hpp"
#include "core/parallel.hpp"
#include "core/transfer.hpp"
#include "protean.hpp"

namespace protean::bench {
namespace {

void add_system(NonlinearSequence& sequence, const CsrMatrix<double>& csr, const std::vector<double>& b) {
  const ContextPtr& context = sequence.context;
  if (sequence.values.empty())
    sequence.first = context->space() == Space::device ? upload(context, csr) : csr;
  sequence.values.emplace_back(context, csr.nonzeros());
  copy<double>(*context, VectorView<const double>{csr.values, csr.nonzeros()}, sequence.values.back());
  sequence.right.emplace_back(context, csr.rows());
  copy<double>(*context, VectorView<const double>{b.data(), csr.rows()}, sequence.right.back().view());
}

// x := the solution of the last system of the sequence for the right-hand side b, from x.
void solve_last(const NonlinearSequence& sequence, const std::string& preconditioner, double tolerance,
                const std::vector<double>& b, std::vector<double>& x) {
  const ContextPtr& context = sequence.context;
  const auto n = static_cast<std::int64_t>(b.size());
  Vector<double> right(context, n), solution(context, n);
  SolveSettings settings;
  settings.method = "cg", settings.preconditioner = preconditioner, settings.format = "csr",
  settings.context = context;
  settings.solver.stopping.relative_tolerance = tolerance;
  copy<double>(*context, VectorView<const double>{b.data(), n}, right);
  copy<double>(*context, VectorView<const double>{x.data(), n}, solution);
  const SolveResult result = solve<double>(with_values(sequence.first, sequence.values.back().data()), right,
                                           solution.view(), settings);
  if (!result.converged()) throw std::runtime_error("a system was not solved: " + result.report.advice);
  copy<double>(*context, solution, VectorView<double>{x.data(), n});
}

class Diffusion {
 public:
  Diffusion(const ContextPtr& host, const std::string& shape, int n)
      : host_(host), fem_(apps::fem::make_system(*host, spec(shape, n))) {
    row_of_.assign(fem_.mesh.nodes.size(), 0);
    for (const std::int64_t node : fem_.constrained) row_of_[static_cast<std::size_t>(node)] = -1;
    for (std::int64_t& row : row_of_) row = row < 0 ? -1 : rows_++;
  }
  std::int64_t rows() const { return rows_; }
  CsrMatrix<double> assembled(const std::vector<double>& u) const {
    std::vector<double> matrices = fem_.matrices;
    const auto per = static_cast<std::size_t>(fem_.mesh.nodes_of_element());
    const auto elements = static_cast<std::size_t>(fem_.mesh.elements());
    const std::size_t entries = matrices.size() / elements;
    protean::parallel(host_->threads(), [&](int part, int parts) {
      const Range mine = even_range(static_cast<std::int64_t>(elements), part, parts);
      for (auto e = static_cast<std::size_t>(mine.begin); e < static_cast<std::size_t>(mine.end); ++e) {
        double middle = 0;
        for (std::size_t k = 0; k < per; ++k)
          if (const std::int64_t row = row_of_[static_cast<std::size_t>(fem_.mesh.connectivity[e * per + k])];
              row >= 0)
            middle += u[static_cast<std::size_t>(row)] / static_cast<double>(per);
        for (std::size_t k = 0; k < entries; ++k) matrices[e * entries + k] *= 1 + middle * middle;
      }
    });
    ElementOptions options;
    options.symmetric = true, options.constrained = fem_.constrained;
    options.constrained_rows = ConstrainedRows::eliminate;
    const ElementGroup<double> groups[] = {
        {fem_.mesh.elements(), fem_.mesh.nodes_of_element(), fem_.mesh.connectivity, matrices}};
    return make_element_operator<double>(host_, static_cast<std::int64_t>(fem_.mesh.nodes.size()), groups,
                                         options)
        ->assemble();
  }

 private:
  static apps::fem::Spec spec(const std::string& shape, int n) {
    apps::fem::Spec spec;
    if (shape == "tet") spec.shape = apps::fem::Shape::tetrahedron;
    spec.n = n;
    return spec;
  }

  ContextPtr host_;
  apps::fem::System fem_;
  std::vector<std::int64_t> row_of_;  // of each node; -1: on the boundary
  std::int64_t rows_ = 0;
};

using Vector3 = std::array<double, 3>;
using Tensor = std::array<Vector3, 3>;

double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

class Beam {
 public:
  explicit Beam(const ContextPtr& host, int n) : host_(host), n_(n) {
    for (int k = 0; k < 3 * n; ++k)
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < n; ++i)
          for (int corner = 0; corner < 8; ++corner)
            connectivity_.push_back(
                static_cast<std::int32_t>(node(i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2))));
    for (std::int64_t i = 0; i < 3 * node(0, 0, 1); ++i) constrained_.push_back(i);
    // Gradients of the shape functions at 2 x 2 x 2 Gauss points: all elements are cubes of one size.
    const double inner = 0.5 / std::sqrt(3.0);
    for (int g = 0; g < 8; ++g)
      for (int corner = 0; corner < 8; ++corner) {
        double value[3], slope[3];
        for (int axis = 0; axis < 3; ++axis) {
          const double at = 0.5 + ((g >> axis & 1) != 0 ? inner : -inner);
          const bool far = (corner >> axis & 1) != 0;
          value[axis] = far ? at : 1 - at, slope[axis] = far ? n : -n;
        }
        gradients_[static_cast<std::size_t>(g)][static_cast<std::size_t>(corner)] = {
            slope[0] * value[1] * value[2], value[0] * slope[1] * value[2], value[0] * value[1] * slope[2]};
      }
  }
  std::int64_t rows() const { return 3 * node(0, 0, 3 * n_ + 1); }
  Vector3 place(std::int64_t node) const {
    const std::int64_t side = n_ + 1;
    return {static_cast<double>(node % side) / n_, static_cast<double>(node / side % side) / n_,
            static_cast<double>(node / side / side) / n_};
  }

  // The tangent stiffness for displacements u.
  CsrMatrix<double> tangent(const std::vector<double>& u) const {
    std::vector<double> matrices(connectivity_.size() * 8 * 9);
    for_elements([&](std::size_t e) {
      double* K = matrices.data() + e * 24 * 24;
      for (const auto& gradients : gradients_) {
        const Point at = point(u, e, gradients);
        std::array<Vector3, 8> q;  // gradients in the deformed beam
        for (std::size_t a = 0; a < 8; ++a)
          for (std::size_t i = 0; i < 3; ++i) q[a][i] = dot(at.inverse_transposed[i], gradients[a]);
        for (std::size_t a = 0; a < 8; ++a)
          for (std::size_t b = 0; b <= a; ++b) {
            const double direct = mu * dot(gradients[a], gradients[b]);
            for (std::size_t i = 0; i < 3; ++i)
              for (std::size_t j = 0; j < 3; ++j)
                K[(3 * a + i) * 24 + 3 * b + j] +=
                    weight() * ((i == j ? direct : 0) + lambda * q[a][i] * q[b][j] -
                                (lambda * at.log_volume - mu) * q[b][i] * q[a][j]);
          }
      }
      for (std::size_t i = 0; i < 24; ++i)
        for (std::size_t j = 0; j < i; ++j) K[j * 24 + i] = K[i * 24 + j];
    });
    ElementOptions options;
    options.components = 3, options.symmetric = true, options.constrained = constrained_;
    const ElementGroup<double> groups[] = {
        {static_cast<std::int64_t>(connectivity_.size() / 8), 8, connectivity_, matrices}};
    return make_element_operator<double>(host_, rows() / 3, groups, options)->assemble();
  }

  // The force on the end across the beam, minus the inner forces.
  std::vector<double> residual(const std::vector<double>& u, double force) const {
    std::vector<double> forces(connectivity_.size() * 3), r(u.size(), 0.0);
    for_elements([&](std::size_t e) {
      double* f = forces.data() + e * 24;
      for (const auto& gradients : gradients_) {
        const Point at = point(u, e, gradients);
        for (std::size_t i = 0; i < 3; ++i) {
          Vector3 stress;  // first Piola-Kirchhoff
          for (std::size_t k = 0; k < 3; ++k)
            stress[k] = mu * at.gradient[i][k] + (lambda * at.log_volume - mu) * at.inverse_transposed[i][k];
          for (std::size_t a = 0; a < 8; ++a) f[3 * a + i] += weight() * dot(stress, gradients[a]);
        }
      }
    });
    for (std::size_t k = 0; k < connectivity_.size(); ++k)
      for (std::size_t i = 0; i < 3; ++i)
        r[3 * static_cast<std::size_t>(connectivity_[k]) + i] -= forces[3 * k + i];
    for (int j = 0; j < n_; ++j)
      for (int i = 0; i < n_; ++i)
        for (int corner = 0; corner < 4; ++corner)
          r[3 * static_cast<std::size_t>(node(i + (corner & 1), j + (corner >> 1), 3 * n_))] +=
              force / (4.0 * n_ * n_);
    for (const std::int64_t fixed : constrained_) r[static_cast<std::size_t>(fixed)] = 0;
    return r;
  }

 private:
  static constexpr double young = 1, poisson = 0.3;
  static constexpr double mu = young / (2 * (1 + poisson)),
                          lambda = young * poisson / ((1 + poisson) * (1 - 2 * poisson));
  struct Point {
    Tensor gradient, inverse_transposed;  // of the deformation
    double log_volume;
  };

  std::int64_t node(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t side = n_ + 1;
    return i + side * (j + side * k);
  }
  double weight() const { return 1 / (8.0 * n_ * n_ * n_); }
  template <class F>
  void for_elements(F f) const {
    protean::parallel(host_->threads(), [&](int part, int parts) {
      const Range mine = even_range(static_cast<std::int64_t>(connectivity_.size() / 8), part, parts);
      for (std::int64_t e = mine.begin; e < mine.end; ++e) f(static_cast<std::size_t>(e));
    });
    if (turned_over_) throw std::runtime_error("an element of the beam is turned inside out");
  }
  Point point(const std::vector<double>& u, std::size_t e, const std::array<Vector3, 8>& gradients) const {
    Point at;
    at.gradient = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    for (std::size_t a = 0; a < 8; ++a)
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < 3; ++k)
          at.gradient[i][k] +=
              u[3 * static_cast<std::size_t>(connectivity_[8 * e + a]) + i] * gradients[a][k];
    const Tensor& F = at.gradient;
    const Tensor cofactors = {cross(F[1], F[2]), cross(F[2], F[0]), cross(F[0], F[1])};
    const double volume = dot(F[0], cofactors[0]);
    if (!(volume > 0)) turned_over_ = true;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t k = 0; k < 3; ++k) at.inverse_transposed[i][k] = cofactors[i][k] / volume;
    at.log_volume = std::log(volume);
    return at;
  }

  ContextPtr host_;
  int n_;
  std::vector<std::int32_t> connectivity_;
  std::vector<std::int64_t> constrained_;
  std::array<std::array<Vector3, 8>, 8> gradients_{};  // of each Gauss point and corner
  mutable std::atomic<bool> turned_over_ = false;
};

}  // namespace

NonlinearSequence diffusion_sequence(const ContextPtr& host, const ContextPtr& context,
                                     const std::string& shape, int n, int steps) {
  constexpr double largest_source = 100;
  const Diffusion problem(host, shape, n);
  NonlinearSequence sequence;
  sequence.context = context;
  std::vector<double> u(static_cast<std::size_t>(problem.rows()), 0.0);
  const std::vector<double> b(u.size(), 1.0 / (static_cast<double>(n) * n * n));  // a source of 1, lumped
  for (int step = 0; step < steps; ++step) {
    add_system(sequence, problem.assembled(u), b);
    std::vector<double> source = b;
    for (double& one : source) one *= largest_source * (1 + step) / steps;
    solve_last(sequence, "amg", 1e-6, source, u);
  }
  sequence.about = fmt::format("largest u {:.3g}", *std::max_element(u.begin(), u.end()));
  return sequence;
}

NonlinearSequence beam_sequence(const ContextPtr& host, const ContextPtr& context, int n, int systems) {
  constexpr int newton = 3;
  constexpr double largest_force = 0.01;
  const Beam beam(host, n);
  NonlinearSequence sequence;
  sequence.context = context;
  sequence.coordinates = MultiVector<double>(host, beam.rows() / 3, 3);
  for (std::int64_t node = 0; node < beam.rows() / 3; ++node)
    for (std::int64_t axis = 0; axis < 3; ++axis)
      sequence.coordinates.view()(node, axis) = beam.place(node)[static_cast<std::size_t>(axis)];
  std::vector<double> u(static_cast<std::size_t>(beam.rows()), 0.0);
  const int steps = (systems + newton - 1) / newton;
  for (int k = 0; k < systems; ++k) {
    const std::vector<double> r = beam.residual(u, largest_force * (k / newton + 1) / steps);
    add_system(sequence, beam.tangent(u), r);
    std::vector<double> change(u.size(), 0.0);
    solve_last(sequence, "jacobi", 1e-8, r, change);
    for (std::size_t i = 0; i < u.size(); ++i) u[i] += change[i];
  }
  sequence.about = fmt::format("the end has moved by {:.3g}", u[u.size() - 3]);
  return sequence;
}

}  // namespace protean::bench
