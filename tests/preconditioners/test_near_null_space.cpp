// Multigrid by aggregation with vectors near the null space.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/aggregation_solves.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "protean.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// Nodes of an elastic body: one vector for each displacement, and better its rigid body modes.
// elasticity-3d: node (k (n + 1) + j) n + i - 1 lies at (i, j, k) / n; i = 0 is clamped.
MultiVector<double> places_of_nodes(std::int64_t n) {
  const std::int64_t m = n + 1;
  MultiVector<double> coordinates(test_context(), n * m * m, 3);
  for (std::int64_t node = 0; node < n * m * m; ++node) {
    coordinates.view()(node, 0) = static_cast<double>(node % n + 1) / static_cast<double>(n);
    coordinates.view()(node, 1) = static_cast<double>(node / n % m) / static_cast<double>(n);
    coordinates.view()(node, 2) = static_cast<double>(node / n / m) / static_cast<double>(n);
  }
  return coordinates;
}

TEST(Aggregation, Elasticity) {
  const std::int64_t n = 12, m = n + 1;
  const CsrMatrix<double> csr = poisson("elasticity-3d", static_cast<double>(n));
  const std::int64_t scalar = iterations(csr, "cg", "amg"),
                     blocks = iterations(csr, "cg", "amg", {.unknowns = 3});
  EXPECT_LT(blocks, scalar);
  EXPECT_LT(2 * blocks, iterations(csr, "cg", "jacobi"));
  const MultiVector<double> modes = rigid_body_modes(test_context(), places_of_nodes(n));
  ASSERT_EQ(modes.columns(), 6);
  const auto A = assembled(csr);
  // Away from the clamped face the body does not resist them.
  for (std::int64_t k = 0; k < 6; ++k) {
    std::vector<double> y(static_cast<std::size_t>(csr.rows()));
    A->apply(modes.view().column(k), view(y));
    const std::int64_t inner = ((6 * m) + 6) * n + 6;
    for (std::int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(y[static_cast<std::size_t>(3 * inner + c)], 0, 1e-13) << k;
  }
  const auto M = make_amg<double>(*A, modes, {.unknowns = 3});
  M->ensure(*A);
  EXPECT_LT(solved(csr, "cg", *M, *A).iterations, blocks);
  // The same as an option: of M alone, of one call, and of a kept system with new values.
  const PreconditionerOptions options{.unknowns = 3, .near_null_space = &modes};
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  EXPECT_EQ(applied(*ready<double>("amg", *A, options), r), applied(*M, r));
  SolveSettings settings;
  settings.preconditioner = "amg", settings.preconditioning = options, settings.format = "csr";
  settings.context = test_context();
  LinearSystem<double> system(csr, settings);
  std::vector<double> expected(r.size(), 0.0);
  system.solver().set_preconditioner(
      [&](const LinearOperator<double>& of) { return make_amg<double>(of, modes, {.unknowns = 3}); });
  EXPECT_TRUE(system.solve(view(r), view(expected)).converged());
  system.solver().set_preconditioner({});
  std::vector<double> x(r.size(), 0.0);
  EXPECT_TRUE(solve<double>(csr, view(r), view(x), settings).converged());
  EXPECT_EQ(x, expected);
  for (int step = 0; step < 2; ++step) {
    std::fill(x.begin(), x.end(), 0.0);
    EXPECT_TRUE(system.solve(view(r), view(x)).converged());
    EXPECT_EQ(x, expected) << step;
    system.update_values(csr.values);
  }
}

TEST(Aggregation, OthersRefuseVectorsNearTheNullSpace) {
  const auto A = assembled(sparse(poisson_2d(20)));
  MultiVector<double> B(test_context(), 400, 1);
  for (std::int64_t i = 0; i < 400; ++i) B.view()(i, 0) = 1;
  const PreconditionerOptions options{.near_null_space = &B};
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (!entry.unavailable.empty()) continue;
    if (reads_near_null_space(entry.id)) {
      EXPECT_NE(make_preconditioner<double>(entry.id, *A, options), nullptr) << entry.id;
      EXPECT_EQ(preconditioner_options_read_by(entry.id, options), options) << entry.id;
      continue;
    }
    EXPECT_SAYS(message<BadArgument>([&] { make_preconditioner<double>(entry.id, *A, options); }),
                "near_null_space is for preconditioners amg and auto, and " + std::string(entry.id));
    EXPECT_EQ(preconditioner_options_read_by(entry.id, options).near_null_space, nullptr) << entry.id;
  }
}

// Only the direction of a vector counts, down to numbers whose squares vanish and up to those whose squares overflow.
TEST(Aggregation, GivenVectorsOfAnySizeAreThoseOfSizeOne) {
  const Dense S = poisson_2d(30);
  const auto A = assembled(sparse(S));
  const std::int64_t n = S.n;
  const std::vector<double> r = right_hand_side<double>(n);
  const auto same = ready<double>("amg", *A);
  const std::vector<double> expected = applied(*same, r);
  for (const double size : {0x1p-1070, 0x1p-600, 1.0, 0x1p600, 0x1p1020, 1e300, -3e-300}) {
    MultiVector<double> B(test_context(), n, 1);
    for (std::int64_t i = 0; i < n; ++i) B.view()(i, 0) = size;
    const auto M = make_amg<double>(*A, B);
    M->ensure(*A);
    EXPECT_EQ(figure(*M, "levels"), figure(*same, "levels")) << size;
    const std::vector<double> found = applied(*M, r);
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(found[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)], 1e-12) << size;
    if (std::abs(std::frexp(size, std::make_unique<int>().get())) == 0.5) {
      EXPECT_EQ(found, expected) << size;
    }
  }
}

TEST(Aggregation, GivenVectorsAreChecked) {
  const auto A = assembled(sparse(poisson_2d(20)));
  MultiVector<double> B(test_context(), 400, 2), short_one(test_context(), 399, 1),
      none(test_context(), 400, 0);
  const auto fill = [&](auto second) {
    for (std::int64_t i = 0; i < 400; ++i) B.view()(i, 0) = 1, B.view()(i, 1) = second(i);
  };
  const auto why = [&] { return message<BadArgument>([&] { make_amg<double>(*A, B); }); };
  fill([](auto) { return 0.0; });
  EXPECT_SAYS(why(), "vector 1 near the null space is zero");
  fill([](auto) { return 2.0; });
  EXPECT_SAYS(why(), "vector 1 near the null space is a sum of multiples of those before it");
  fill([](auto i) { return 1e300 * (1 + 1e-15 * static_cast<double>(i % 2)); });
  EXPECT_SAYS(why(), "vector 1 near the null space is a sum of multiples of those before it");
  fill([](auto i) { return 1 + 1e-9 * static_cast<double>(i % 2); });
  EXPECT_NO_THROW(make_amg<double>(*A, B)->ensure(*A));
  EXPECT_THROW(make_amg<double>(*A, short_one), ShapeMismatch);
  EXPECT_SAYS(message<BadArgument>([&] { make_amg<double>(*A, none); }), "amg takes 1 to 64 vectors");
  B.view()(7, 1) = std::nan("");
  EXPECT_SAYS(message<BadArgument>([&] { make_amg<double>(*A, B); }),
              "entry 7 of vector 1 near the null space is nan");
  EXPECT_SAYS(message<BadArgument>([&] { make_amg<double>(*A, B, {.setup = AmgSetup::classical}); }),
              "are for amg with setup aggregation");
  EXPECT_SAYS(message<ShapeMismatch>([&] { ready<double>("amg", *A, {.unknowns = 3}); }),
              "unknowns is 3, which does not divide the 400 rows");
  EXPECT_SAYS(message<BadArgument>([&] { (void)rigid_body_modes(test_context(), B.view().part(0, 1)); }),
              "2 or 3 coordinates");
  EXPECT_EQ(rigid_body_modes(test_context(), MultiVector<double>(test_context(), 0, 2)).columns(), 3);
}

}  // namespace
}  // namespace protean::test
