// The finite-element part of the command: meshes, orders of convergence, and element operators compared with
// assembled matrices.
#include <cmath>
#include <complex>
#include <fstream>

#include "apps/fem/discretise.hpp"
#include "apps/fem/lagrange.hpp"
#include "apps/fem/quadrilaterals.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/oracle.hpp"
#include "support/text.hpp"

namespace protean::apps::fem {
namespace {

using test::message_of;

using protean::test::Folder;
using protean::test::test_context;

constexpr Material steel{2.5, 0.3};

// An exact solution u and its right-hand side f.
struct Known {
  Field u, f;
};
Known known(Physics physics) {
  if (physics == Physics::poisson) {
    const Field u = [](const Point& p) -> Point {
      return {std::sin(1.9 * p[0] + 0.2) * std::cos(1.1 * p[1]) * std::exp(0.7 * p[2]), 0, 0};
    };
    return {u, [u](const Point& p) -> Point {
              return {(1.9 * 1.9 + 1.1 * 1.1 - 0.7 * 0.7) * u(p)[0], 0, 0};
            }};
  }
  // a sin(k . x): -div stress = ((lambda + mu) (a . k) k + mu |k|^2 a) sin(k . x)
  static constexpr Point a{1, -0.5, 0.7}, k{1.5, 1.1, -0.8};
  const auto wave = [](const Point& p) { return std::sin(k[0] * p[0] + k[1] * p[1] + k[2] * p[2] + 0.3); };
  return {[wave](const Point& p) -> Point {
            return {a[0] * wave(p), a[1] * wave(p), a[2] * wave(p)};
          },
          [wave](const Point& p) -> Point {
            Point f{};
            double ak = 0, kk = 0;
            for (int i = 0; i < 3; ++i) ak += a[i] * k[i], kk += k[i] * k[i];
            for (int i = 0; i < 3; ++i)
              f[i] = ((steel.lambda() + steel.mu()) * ak * k[i] + steel.mu() * kk * a[i]) * wave(p);
            return f;
          }};
}

// Solves on the element matrices, with the values of u given on the boundary.
double error_on(const Mesh& mesh, Physics physics, ElementScatter scatter) {
  const Known problem = known(physics);
  const auto matrices = stiffness(*test_context(), mesh, physics, steel);
  const ElementGroup<double> group[] = {group_of(mesh, matrices)};
  ElementOptions options;
  options.components = components(physics), options.symmetric = true, options.scatter = scatter;
  const auto nodes = static_cast<std::int64_t>(mesh.nodes.size());
  const auto K = make_element_operator<double>(test_context(), nodes, group, options);
  const auto given = boundary_unknowns(mesh, physics);
  const auto exact = interpolate(mesh, physics, problem.u);
  std::vector<double> u(exact.size(), 0.0), b = load(mesh, physics, problem.f);
  for (const std::int64_t k : given) u[k] = exact[k];
  const std::int64_t n = K->rows();
  K->apply(-1, {u.data(), n}, 1, {b.data(), n});
  options.constrained = given, options.constrained_rows = ConstrainedRows::eliminate;
  const auto A = make_element_operator<double>(test_context(), nodes, group, options);
  std::vector<double> b_free, x(static_cast<std::size_t>(A->rows()), 0.0);
  for (const std::int32_t k : A->free_unknowns()) b_free.push_back(b[k]);
  const auto M = make_preconditioner<double>("jacobi", *A);
  M->ensure(*A);
  SolverOptions how;
  how.stopping.relative_tolerance = 1e-10;
  const auto report =
      make_solver<double>("cg", how)->solve(*A, {b_free.data(), A->rows()}, {x.data(), A->rows()}, M.get());
  EXPECT_TRUE(report.converged()) << to_string(report.reason);
  for (std::size_t i = 0; i < x.size(); ++i) u[A->free_unknowns()[i]] = x[i];
  return l2_error(mesh, physics, u, problem.u);
}

struct Study {
  Physics physics;
  int degree;
  double distortion;
  int coarse;
};

class Convergence : public testing::TestWithParam<Study> {};

TEST_P(Convergence, ErrorFallsWithThePowerDegreePlusOne) {
  const auto [physics, degree, distortion, n] = GetParam();
  const double coarse = error_on(cube_of_hexahedra(n, degree, distortion), physics, ElementScatter::coloured);
  const double fine = error_on(cube_of_hexahedra(2 * n, degree, distortion), physics, ElementScatter::gather);
  const double order = std::log2(coarse / fine);
  EXPECT_GT(order, degree + 1 - 0.3) << coarse << " to " << fine;
  EXPECT_LT(order, degree + 1 + 1) << coarse << " to " << fine;
  EXPECT_LT(fine, 2e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Hexahedra, Convergence,
    testing::Values(Study{Physics::poisson, 1, 0, 6}, Study{Physics::poisson, 1, 0.08, 6},
                    Study{Physics::poisson, 2, 0, 3}, Study{Physics::poisson, 2, 0.08, 4},
                    Study{Physics::poisson, 3, 0, 2}, Study{Physics::poisson, 3, 0.05, 4},
                    Study{Physics::poisson, 4, 0, 2}, Study{Physics::poisson, 4, 0.05, 3},
                    Study{Physics::elasticity, 1, 0, 5}, Study{Physics::elasticity, 1, 0.08, 6},
                    Study{Physics::elasticity, 2, 0, 3}, Study{Physics::elasticity, 2, 0.08, 4},
                    Study{Physics::elasticity, 3, 0, 2}),
    [](const auto& instance) {
      return std::string(to_string(instance.param.physics)) + "_degree_" +
             std::to_string(instance.param.degree) + (instance.param.distortion > 0 ? "_distorted" : "");
    });

TEST(Fem, TetrahedraConvergeWithPowerTwo) {
  for (const double distortion : {0.0, 0.08})
    for (const Physics physics : {Physics::poisson, Physics::elasticity}) {
      const double coarse = error_on(cube_of_tetrahedra(4, distortion), physics, ElementScatter::atomic);
      const double fine = error_on(cube_of_tetrahedra(8, distortion), physics, ElementScatter::coloured);
      EXPECT_NEAR(std::log2(coarse / fine), 2, 0.3) << coarse << " to " << fine;
    }
}

TEST(Fem, QuadratureIsExactForPolynomialsAndLobattoPointsAreKnown) {
  for (int n = 1; n <= 7; ++n) {
    const Rule rule = gauss_legendre(n);
    for (int power = 0; power < 2 * n; ++power) {
      double sum = 0;
      for (int q = 0; q < n; ++q) sum += rule.weights[q] * std::pow(rule.points[q], power);
      EXPECT_NEAR(sum, 1.0 / (power + 1), 1e-14) << n << " points, power " << power;
    }
  }
  EXPECT_EQ(gauss_lobatto_points(1), (std::vector<double>{0, 1}));
  const auto p3 = gauss_lobatto_points(3), p4 = gauss_lobatto_points(4);
  EXPECT_NEAR(p3[1], 0.5 - std::sqrt(0.05), 1e-15);
  EXPECT_NEAR(p4[1], 0.5 - std::sqrt(3.0 / 28), 1e-15);
  EXPECT_NEAR(p4[2], 0.5, 1e-15);
}

// Rigid motions have no energy; linear elasticity has six of them.
TEST(Fem, RigidMotionsAreInTheKernel) {
  for (const Mesh& mesh : {cube_of_hexahedra(2, 2, 0.1), cube_of_tetrahedra(2, 0.1)}) {
    const auto matrices = stiffness(*test_context(), mesh, Physics::elasticity, steel);
    const ElementGroup<double> group[] = {group_of(mesh, matrices)};
    ElementOptions options;
    options.components = 3;
    const auto K = make_element_operator<double>(test_context(), static_cast<std::int64_t>(mesh.nodes.size()),
                                                 group, options);
    const std::int64_t n = K->rows();
    for (int motion = 0; motion < 7; ++motion) {
      const auto u = interpolate(mesh, Physics::elasticity, [&](const Point& p) -> Point {
        if (motion < 3) return {motion == 0 ? 1.0 : 0, motion == 1 ? 1.0 : 0, motion == 2 ? 1.0 : 0};
        if (motion == 3) return {0, -p[2], p[1]};
        if (motion == 4) return {p[2], 0, -p[0]};
        if (motion == 5) return {-p[1], p[0], 0};
        return {p[0], 0, 0};  // no rigid motion
      });
      std::vector<double> y(u.size());
      K->apply({u.data(), n}, {y.data(), n});
      double largest = 0;
      for (const double value : y) largest = std::max(largest, std::abs(value));
      if (motion < 6) {
        EXPECT_LT(largest, 1e-13) << motion;
      } else {
        EXPECT_GT(largest, 1e-3);
      }
    }
  }
}

TEST(Fem, ElementOperatorEqualsTheAssembledMatrixOnAllMeshes) {
  struct Case {
    Mesh mesh;
    Physics physics;
  };
  std::vector<Case> cases;
  for (const Physics physics : {Physics::poisson, Physics::elasticity}) {
    for (int degree = 1; degree <= (physics == Physics::poisson ? 4 : 2); ++degree)
      cases.push_back({cube_of_hexahedra(3, degree, 0.07), physics});
    cases.push_back({cube_of_tetrahedra(4, 0.07), physics});
  }
  for (const auto& [mesh, physics] : cases) {
    const auto matrices = stiffness(*test_context(), mesh, physics, steel);
    const ElementGroup<double> group[] = {group_of(mesh, matrices)};
    const auto given = boundary_unknowns(mesh, physics);
    for (const auto scatter : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather})
      for (const auto rows : {ConstrainedRows::keep, ConstrainedRows::eliminate}) {
        ElementOptions options;
        options.components = components(physics), options.symmetric = true, options.scatter = scatter;
        options.constrained = given, options.constrained_rows = rows;
        const auto A = make_element_operator<double>(
            test_context(), static_cast<std::int64_t>(mesh.nodes.size()), group, options);
        const CsrMatrix<double> csr = A->assemble();
        const auto x = protean::test::sample_vector<double>(A->rows(), 3);
        std::vector<double> y(x.size());
        A->apply({x.data(), A->rows()}, {y.data(), A->rows()});
        // The element sums have more terms and more magnitude than the rows of the matrix; 20 covers both.
        for (std::int64_t r = 0; r < csr.rows(); ++r) {
          long double sum = 0, magnitude = 0;
          for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k) {
            const long double product = static_cast<long double>(csr.values[k]) * x[csr.pattern.col[k]];
            sum += product, magnitude += std::abs(product);
          }
          ASSERT_LE(std::abs(static_cast<double>(sum - y[r])),
                    static_cast<double>(20 * (csr.pattern.row_length(r) + 2) * 2.3e-16L * magnitude))
              << "row " << r;
        }
        EXPECT_LT(asymmetry(*test_context(), csr), 1e-14);
      }
  }
}

// The two tetrahedra of a square pyramid, with a triangle and a point, which the reader ignores.
constexpr const char* version_2 = R"($MeshFormat
2.2 0 8
$EndMeshFormat
$PhysicalNames
1
3 7 "all of it"
$EndPhysicalNames
$Nodes
6
1 0 0 0
2 1 0 0
9 1 1 0
4 0 1 0
5 .5 .5 1e0
30 7 7 7
$EndNodes
$Elements
4
1 15 2 0 1 1
2 2 2 0 1 1 2 9
3 4 2 7 1 1 2 9 5
4 4 2 7 1 1 9 4 5
$EndElements
)";
constexpr const char* version_4 = R"($MeshFormat
4.1 0 8
$EndMeshFormat
$Entities
0 0 0 1
1 0 0 0 1 1 1 0 0
$EndEntities
$Nodes
2 6 1 30
2 1 0 2
1
2
0 0 0
1 0 0
3 1 0 4
9
4
5
30
1 1 0
0 1 0
.5 .5 1
7 7 7
$EndNodes
$Elements
2 3 1 3
2 1 2 1
1 1 2 9 
3 1 4 2
2 1 2 9 5 
3 1 9 4 5 
$EndElements
)";

std::string write(const Folder& folder, const std::string& text) {
  const std::string path = folder / "mesh.msh";
  std::ofstream(path) << text;
  return path;
}

TEST(Fem, GmshFilesOfBothVersionsAreTheSameMesh) {
  const Folder folder;
  for (const char* text : {version_2, version_4}) {
    const Mesh mesh = read_gmsh(write(folder, text));
    EXPECT_EQ(mesh.shape, Shape::tetrahedron);
    ASSERT_EQ(mesh.nodes.size(), 5u);
    EXPECT_EQ(mesh.nodes[2], (Point{1, 1, 0}));
    EXPECT_EQ(mesh.nodes[4], (Point{0.5, 0.5, 1}));
    EXPECT_EQ(mesh.connectivity, (std::vector<std::int32_t>{0, 1, 2, 4, 0, 2, 3, 4}));
    EXPECT_EQ(mesh.boundary, (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(stiffness(*test_context(), mesh, Physics::poisson).size(), 32u);
  }
}

TEST(Fem, GmshFilesOfACubeSolveAsTheCubeDoes) {
  const Folder folder;
  const Mesh cube = cube_of_tetrahedra(4, 0.05);
  std::string text =
      "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n" + std::to_string(cube.nodes.size()) + "\n";
  char line[200];
  for (std::size_t k = 0; k < cube.nodes.size(); ++k) {
    std::snprintf(line, sizeof line, "%zu %.17g %.17g %.17g\n", k + 1, cube.nodes[k][0], cube.nodes[k][1],
                  cube.nodes[k][2]);
    text += line;
  }
  text += "$EndNodes\n$Elements\n" + std::to_string(cube.elements()) + "\n";
  for (std::int64_t e = 0; e < cube.elements(); ++e) {
    const auto* node = cube.connectivity.data() + 4 * e;
    std::snprintf(line, sizeof line, "%d 4 0 %d %d %d %d\n", static_cast<int>(e + 1), node[0] + 1,
                  node[1] + 1, node[2] + 1, node[3] + 1);
    text += line;
  }
  const Mesh mesh = read_gmsh(write(folder, text + "$EndElements\n"));
  EXPECT_EQ(mesh.nodes, cube.nodes);
  EXPECT_EQ(mesh.connectivity, cube.connectivity);
  EXPECT_EQ(mesh.boundary, cube.boundary);
  EXPECT_EQ(error_on(mesh, Physics::poisson, ElementScatter::gather),
            error_on(cube, Physics::poisson, ElementScatter::gather));
}

TEST(Fem, BadGmshFilesAreRefusedWithTheLine) {
  const Folder folder;
  const auto message = [&](const std::string& text) {
    return message_of<BadFile>([&] { (void)read_gmsh(write(folder, text)); });
  };
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos ? testing::AssertionSuccess()
                                                : testing::AssertionFailure() << text << " lacks " << part;
  };
  EXPECT_TRUE(has(message(""), "there are no $Nodes"));
  EXPECT_TRUE(has(message("no mesh at all\n"), "there are no $Nodes"));
  EXPECT_TRUE(has(message(changed(version_2, "2.2 0 8", "2.2 1 8")), ":2: a binary file"));
  EXPECT_TRUE(has(message(changed(version_2, "2.2 0 8", "4 0 8")), "version 4 of the format"));
  EXPECT_TRUE(has(message(changed(version_2, "9 1 1 0", "9 1 1")), ":12: '9 1 1'"));
  EXPECT_TRUE(has(message(changed(version_2, "9 1 1 0", "9 1 x 0")), ":12: '9 1 x 0'"));
  for (const std::string bad : {"nan", "-inf", "1e999"}) {
    EXPECT_TRUE(has(message(changed(version_2, "9 1 1 0", "9 1 " + bad + " 0")), ":12: "));
    EXPECT_TRUE(has(message(changed(version_4, "0 1 0\n", "0 " + bad + " 0\n")), "numbers are needed here"));
  }
  EXPECT_TRUE(has(message(changed(version_2, "9 1 1 0", "2 1 1 0")), ":12: node 2 is there twice"));
  EXPECT_TRUE(has(message(changed(version_2, "7 1 1 2 9 5", "7 1 1 2 8 5")), ":21: there is no node 8"));
  EXPECT_TRUE(has(message(changed(version_2, "6\n1 0", "5\n1 0")), "instead of $EndNodes"));
  EXPECT_TRUE(
      has(message(std::string(version_4, std::string(version_4).find("3 1 4 2"))), "ends inside a section"));
  EXPECT_TRUE(has(message(changed(version_4, "3 1 4 2", "3 1 11 2")), "there are no tetrahedra"));
  EXPECT_TRUE(
      has(message(changed(version_2, "9 1 1 0", "1e300 1 1 0")), ":12: the number of the node is 1e+300"));
  EXPECT_TRUE(has(message(changed(version_2, "9 1 1 0", "9.5 1 1 0")), "not a whole number"));
  EXPECT_TRUE(
      has(message(changed(version_2, "$Nodes\n6", "$Nodes\n2147483648")), "2147483648 nodes; allowed is"));
  EXPECT_TRUE(
      has(message(changed(version_2, "9 1 1 0", std::string(1 << 20, '9'))), "a line of more than 524288"));
  EXPECT_THROW((void)read_gmsh(folder / "nothing.msh"), BadFile);
}

// A section that is not read may be longer than what is kept of a text, and its lines may end anywhere in it.
TEST(Fem, GmshFilesOfManyPieces) {
  const Folder folder;
  std::string text = version_2, names = "$PhysicalNames\n";
  for (int k = 0; k < 100000; ++k) names += std::to_string(k) + " \"a name\"\n";
  text.insert(text.find("$Nodes"), names + "$EndPhysicalNames\n");
  const Mesh mesh = read_gmsh(write(folder, text));
  EXPECT_EQ(mesh.nodes.size(), 5u);
  EXPECT_EQ(mesh.connectivity, (std::vector<std::int32_t>{0, 1, 2, 4, 0, 2, 3, 4}));
}

TEST(Fem, MeshesOutOfRangeAndElementsInsideOutAreRefused) {
  EXPECT_THROW((void)cube_of_hexahedra(0, 1), BadArgument);
  EXPECT_THROW((void)cube_of_hexahedra(2, 5), BadArgument);
  EXPECT_THROW((void)cube_of_hexahedra(2, 1, 0.5), BadArgument);
  EXPECT_THROW((void)cube_of_hexahedra(1000, 2), BadArgument);
  Mesh mesh = cube_of_hexahedra(2, 1, 0.05);
  std::swap(mesh.connectivity[8], mesh.connectivity[9]);
  EXPECT_THROW((void)stiffness(*test_context(), mesh, Physics::poisson), BadMatrix);
}

// Re (x + i y)^p solves Laplace's equation and is a polynomial of degree p, so that its residual is 0 at all inner
// nodes, and not at the boundary. An inner vertex shares elements with (2 p + 1)^2 nodes.
TEST(Fem, QuadrilateralsSolveHarmonicPolynomials) {
  for (int degree = 1; degree <= 4; ++degree) {
    const Quadrilaterals mesh = square_of_quadrilaterals(3, degree);
    const std::vector<double> one = poisson_on_square(degree), line = mesh.line();
    std::vector<double> matrices;
    for (std::int64_t e = 0; e < mesh.elements(); ++e)
      matrices.insert(matrices.end(), one.begin(), one.end());
    const ElementGroup<double> group[] = {
        {mesh.elements(), mesh.nodes_of_element(), mesh.connectivity, matrices}};
    const auto K = make_element_operator<double>(test_context(), mesh.nodes(), group);
    ASSERT_EQ(std::ssize(line), mesh.nodes_of_line());
    std::vector<double> u, residual(static_cast<std::size_t>(mesh.nodes()));
    for (const double y : line)
      for (const double x : line) u.push_back(std::real(std::pow(std::complex<double>(x, y), degree)));
    K->apply(1, {u.data(), mesh.nodes()}, 0, {residual.data(), mesh.nodes()});
    std::vector<char> inner(residual.size(), 1);
    for (const std::int64_t k : mesh.boundary) inner[static_cast<std::size_t>(k)] = 0;
    double inside = 0, outside = 0;
    for (std::size_t k = 0; k < residual.size(); ++k)
      (inner[k] ? inside : outside) = std::max(inner[k] ? inside : outside, std::fabs(residual[k]));
    EXPECT_LT(inside, 1e-12) << degree;
    EXPECT_GT(outside, 1e-3) << degree;
    EXPECT_EQ(std::ssize(mesh.boundary), 4 * (mesh.nodes_of_line() - 1));
    const CsrMatrix<double> A = K->assemble();
    EXPECT_EQ(statistics(*test_context(), A.pattern).longest, (2 * degree + 1) * (2 * degree + 1));
  }
}

}  // namespace
}  // namespace protean::apps::fem
