// Subdomains in use: new values, several columns, large matrices, solves and kept systems.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/subdomain_cases.hpp"
#include "solvers/systems.hpp"
#include "support/multi.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

// On a device new values are factored there: what is wrong with them has the message of the host, and M is kept.
TEST_P(Subdomains, BadNewValuesKeepTheOldFactors) {
  const CsrMatrix<double> csr = sparse(poisson_2d(6));
  for (const char* id : both) {
    SCOPED_TRACE(id);
    const auto A = matrix(csr);
    const auto M = ready<double>(id, *A, of_size(7));
    const std::vector<double> r = right_hand_side<double>(36), z = apply(*M, r);
    const auto with = [&](std::size_t at, double value) {
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      values[at] = value;
      A->update_values(placed(context_, with_values(csr, values.data())));
      return message<BadMatrix>([&] { M->ensure(*A); });
    };
    EXPECT_SAYS(with(0, 0), "row 0 (0)");
    EXPECT_EQ(apply(*M, r), z);
    EXPECT_SAYS(with(1, std::numeric_limits<double>::infinity()), "row 0, column 1 is inf");
    EXPECT_EQ(apply(*M, r), z);
    // Between two subdomains: M does not compute with it.
    EXPECT_SAYS(with(2, std::numeric_limits<double>::infinity()), "row 0, column 6 is inf");
    EXPECT_EQ(apply(*M, r), z);
    if (M->symmetric()) {
      EXPECT_SAYS(with(1, -0.5), "differ by up to 1.2e-01 of the largest entry");
      EXPECT_SAYS(with(0, 1e-9), "broke down with every shift");
      EXPECT_EQ(apply(*M, r), z);
    }
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    for (double& value : values) value *= 2;
    A->update_values(placed(context_, with_values(csr, values.data())));
    M->ensure(*A);
    const std::vector<double> half = apply(*M, r);
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(half[i], z[i] / 2, 1e-14);
  }
}

// New values, other patterns and back: the bits of an object that is made anew. New values leave all arrays where they
// are, so steps that a solver has recorded need not be recorded again.
TEST_P(Subdomains, RenewedAsMadeAnew) {
  std::mt19937 random(73);
  struct Kind {
    const char* id;
    PreconditionerOptions options;
  };
  for (const Kind& kind : {Kind{"subdomain-ic0", of_size(10)}, Kind{"subdomain-ic0", of_size(0)},
                           Kind{"subdomain-ilu0", of_size(64)}, Kind{"subdomain-ilu0", of_size(9, 1)}}) {
    std::vector<CsrMatrix<double>> patterns;
    std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
    for (const Dense& A : {poisson_2d(8), poisson_1d(64), full(64)})
      patterns.push_back(sparse(A)), matrices.push_back(matrix(patterns.back()));
    const auto M = make_preconditioner<double>(kind.id, *matrices[0], kind.options);
    const std::vector<double> r = right_hand_side<double>(64);
    std::size_t last = patterns.size();
    std::uint64_t version = 0;
    for (int step = 0; step < 24; ++step) {
      const std::size_t which = random() % 3 == 0 ? random() % patterns.size() : step == 0 ? 0 : last;
      const CsrMatrix<double>& csr = patterns[which];
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      const double factor = 1 + static_cast<double>(random() % 1000) / 300;
      for (std::int64_t i = 0; i < csr.rows(); ++i)
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
          values[static_cast<std::size_t>(p)] *= csr.pattern.col[p] == i ? 1.5 * factor : factor;
      const CsrMatrix<double> next = with_values(csr, values.data());
      matrices[which]->update_values(placed(context_, next));
      M->ensure(*matrices[which]);
      const auto fresh = matrix(next);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>(kind.id, *fresh, kind.options), r))
          << kind.id << ' ' << step;
      EXPECT_EQ(M->recording().version == version, which == last) << kind.id << ' ' << step;
      last = which, version = M->recording().version;
    }
  }
}

TEST_P(Subdomains, ColumnsHaveTheBitsOfOneAlone) {
  const auto check = [&]<class T>(T) {
    for (const Dense& A : {poisson_2d(8), full(64), convection_2d(8, 2)}) {
      const auto A_here = matrix(sparse<T>(A));
      const auto M = ready<T>("subdomain-ilu0", *A_here, of_size(20, 1));
      EXPECT_EQ(column_by_column(*M), "");
      for (const std::int64_t k : {1, 2, 3, 4, 7, 8, 15})
        for (const MultiShape& shape : multi_shapes()) {
          const Columns<T> X = sample_columns<T>(64, k, 3), Y = sample_columns<T>(64, k, 4);
          PlacedColumns<T> x(context_, X, 64, shape), y(context_, Y, 64, shape);
          multi_apply<T>(*M, 1, x.read(), 0, y.view());
          const Columns<T> got = y.fetch();
          for (std::size_t j = 0; j < got.size(); ++j) EXPECT_EQ(got[j], apply(*M, X[j])) << shape.name();
          EXPECT_TRUE(y.gaps_are_untouched());
          PlacedColumns<T> added(context_, Y, 64, shape);
          multi_apply<T>(*M, 3, x.read(), -2, added.view());
          const Columns<T> sum = added.fetch();
          const T tolerance = 100 * std::numeric_limits<T>::epsilon();
          for (std::size_t j = 0; j < got.size(); ++j)
            for (std::size_t i = 0; i < 64; ++i)
              EXPECT_NEAR(sum[j][i], 3 * got[j][i] - 2 * Y[j][i],
                          tolerance * (std::abs(3 * got[j][i]) + std::abs(2 * Y[j][i])));
          multi_apply<T>(*M, 0, x.read(), 0.5, added.view());
          EXPECT_EQ(added.fetch()[0][0], T(0.5) * sum[0][0]);
        }
    }
  };
  check(double{}), check(float{});
}

// A result that is NaN stays in its subdomain, and leaves nothing behind.
TEST_P(Subdomains, NaNsStayWhereTheyAre) {
  const auto A = matrix(sparse(poisson_2d(8)));
  const auto M = ready<double>("subdomain-ic0", *A, of_size(16));
  const std::vector<double> r = right_hand_side<double>(64), z = apply(*M, r);
  std::vector<double> bad = r;
  bad[17] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> got = apply(*M, bad);
  for (std::size_t i = 0; i < 64; ++i) {
    if (i / 16 != 1)
      EXPECT_EQ(got[i], z[i]) << i;
    else
      EXPECT_TRUE(std::isnan(got[i])) << i;
  }
  bad[17] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(apply(*M, bad)[40], z[40]);
  EXPECT_EQ(apply(*M, r), z);
}

TEST_P(Subdomains, TooLargeForAThreadBlockIsRefused) {
  // Every row is coupled with every other one of its block of 256: 32,640 entries in each triangle.
  std::vector<Triplet<double>> entries;
  constexpr std::int64_t n = 1024, block = 512;
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t j = static_cast<std::int32_t>(i / block * block); j < (i / block + 1) * block; ++j)
      entries.push_back({i, j, i == j ? 1000.0 : -1.0});
  const CsrMatrix<double> csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const auto A = matrix(csr);
  if (on_host()) {  // where a subdomain may have any size
    EXPECT_EQ(figure(*ready<double>("subdomain-ic0", *A, of_size(512)), "subdomains"), 2);
    return;
  }
  const std::string text = message<BadArgument>([&] { ready<double>("subdomain-ic0", *A, of_size(512)); });
  EXPECT_SAYS(text, "subdomain-ic0 keeps a subdomain in the shared memory of a thread block, which has ");
  EXPECT_SAYS(text, "subdomain 0, which has 512 rows from row 0 to row 511, needs ");
  EXPECT_SAYS(text, "take a smaller subdomain_size, or auto");
  const auto M = ready<double>("subdomain-ic0", *A);
  EXPECT_LT(figure(*M, "subdomain_size"), 512);
  const std::vector<double> r = right_hand_side<double>(n), z = apply(*M, r);
  const auto same = ready<double>("subdomain-ic0", *assembled(csr),
                                  of_size(static_cast<std::int64_t>(figure(*M, "subdomain_size"))));
  const std::vector<double> expected = applied(*same, r);
  for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(z[i], expected[i], 1e-15);
  // A row that is coupled with all others has a halo that fits nowhere.
  std::vector<Triplet<double>> arrow;
  constexpr std::int32_t rows = 60000;
  for (std::int32_t i = 0; i < rows; ++i) {
    arrow.push_back({i, i, 4.0});
    if (i > 0) arrow.push_back({0, i, -1e-5}), arrow.push_back({i, 0, -1e-5});
  }
  const auto B = matrix(csr_from_triplets<double>(test_context(), rows, rows, arrow));
  EXPECT_SAYS(message<BadArgument>([&] { ready<double>("subdomain-ilu0", *B, of_size(0, 1)); }),
              "take another preconditioner, or overlap: 0");
  EXPECT_EQ(figure(*ready<double>("subdomain-ilu0", *B), "shift"), 0);
}

// A without the entries between subdomains of `size` rows.
CsrMatrix<double> without_couplings(const CsrMatrix<double>& csr, std::int64_t size) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      if (csr.pattern.col[p] / size == i / size)
        entries.push_back({static_cast<std::int32_t>(i), csr.pattern.col[p], csr.values[p]});
  return csr_from_triplets<double>(test_context(), csr.rows(), csr.cols(), entries);
}

// Many subdomains, levels and lanes: ic0 and ilu0 of the matrix without the entries between them have other code.
TEST_P(Subdomains, OfLargeMatrices) {
  const std::int64_t n = gpu() ? 40 : 14;
  for (const char* kind : {"poisson-3d", "anisotropic-3d", "elasticity-3d", "convection-diffusion-3d"}) {
    const CsrMatrix<double> csr =
        generate(test_context(), kind, {{"n", static_cast<double>(kind[0] == 'e' ? n / 2 : n)}});
    const std::vector<double> r = right_hand_side<double>(csr.rows());
    for (const char* id : both) {
      if (kind[0] == 'c' && id == both[0]) continue;
      for (const std::int64_t size : {32, 150}) {
        SCOPED_TRACE(std::string(kind) + ' ' + id + ' ' + std::to_string(size));
        const auto reference = ready<double>(id == both[0] ? "ic0" : "ilu0",
                                             *assembled(without_couplings(csr, size), Context::host(1)));
        ASSERT_EQ(figure(*reference, "shift"), 0);
        const std::vector<double> expected = applied(*reference, r);
        const auto A = matrix(csr);
        const auto M = ready<double>(id, *A, of_size(size));
        const std::vector<double> got = apply(*M, r);
        double largest = 0, difference = 0;
        for (std::size_t i = 0; i < r.size(); ++i)
          largest = std::max(largest, std::abs(expected[i])),
          difference = std::max(difference, std::abs(expected[i] - got[i]));
        EXPECT_LE(difference, 1e-12 * largest);
        for (int k = 0; k < 3; ++k) EXPECT_EQ(apply(*M, r), got) << "two applications gave different bits";
      }
    }
  }
}

TEST(SubdomainsOfThreads, HaveTheSameBits) {
  const CsrMatrix<double> csr = generate(test_context(), "convection-diffusion-3d", {{"n", 20}});
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const std::int64_t overlap : {0, 1}) {
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 7}) {
      const auto A = assembled(csr, Context::host(threads));
      const auto M = ready<double>("subdomain-ilu0", *A, of_size(0, overlap));
      EXPECT_EQ(figure(*M, "subdomains"), 8);
      const std::vector<double> z = applied(*M, r);
      if (first.empty()) first = z;
      EXPECT_EQ(z, first) << threads << " threads";
      A->update_values(csr), M->ensure(*A);
      EXPECT_EQ(applied(*M, r), first) << threads << " threads, set up again";
    }
  }
}

TEST_P(Subdomains, InSolvesWithFewerIterations) {
  const auto iterations = [&](const CsrMatrix<double>& csr, const char* method, const char* id,
                              const PreconditionerOptions& options) {
    const auto A = matrix(csr);
    const auto M = ready<double>(id, *A, options);
    const Placed<double> b(context_, right_hand_side<double>(csr.rows()));
    Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const auto solver = make_solver<double>(method);
    const SolveReport report = solver->solve(*A, b.read(), x.view(), M.get());
    EXPECT_TRUE(report.converged()) << id << report.detail;
    // On a GPU with recorded steps, where the solve is long enough to record them.
    if (gpu()) { EXPECT_TRUE(M->recording().allowed && M->recording().heeds_stop); }
    fill<double>(*context_, 0.0, x.view());
    EXPECT_EQ(solver->solve(*A, b.read(), x.view(), M.get()).iterations, report.iterations);
    return report.iterations;
  };
  const CsrMatrix<double> poisson = generate(test_context(), "poisson-3d", {{"n", 16}}),
                          convection = generate(test_context(), "convection-diffusion-3d", {{"n", 14}});
  const std::int64_t jacobi = iterations(poisson, "cg", "jacobi", {}),
                     many = iterations(poisson, "cg", "subdomain-ic0", of_size(64)),
                     few = iterations(poisson, "cg", "subdomain-ic0", of_size(512)),
                     one = iterations(poisson, "cg", "ic0", {.ordering = FactorOrdering::natural});
  EXPECT_LT(many, jacobi);
  EXPECT_LE(few, many);
  EXPECT_LE(one, few);
  const std::int64_t apart = iterations(convection, "gmres", "subdomain-ilu0", of_size(196)),
                     overlapping = iterations(convection, "gmres", "subdomain-ilu0", of_size(196, 1));
  EXPECT_LT(overlapping, apart);
  iterations(convection, "bicgstab", "subdomain-ilu0", of_size(0, 1));
}

// An order of the rows, formats that change in the solve, and several right-hand sides.
TEST_P(Subdomains, InSystems) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  const std::vector<double> b = right_hand_side<double>(csr.rows());
  const auto solve = [&](const std::string& order, bool columns) {
    SolveSettings settings{
        .method = "cg", .preconditioner = "subdomain-ic0", .format = "csr", .order = order};
    settings.preconditioning.subdomain_size = 90;
    settings.solver.stopping.relative_tolerance = 1e-10;
    LinearSystem<double> system(csr, settings);
    std::vector<double> x(2 * b.size(), 0.0), B = b;
    B.insert(B.end(), b.begin(), b.end());
    if (columns) {
      const std::int64_t n = csr.rows();
      EXPECT_TRUE(system.multi_solve({B.data(), n, 2, n}, {x.data(), n, 2, n}).converged());
      EXPECT_EQ(std::vector<double>(x.begin(), x.begin() + n), std::vector<double>(x.begin() + n, x.end()));
    } else {
      EXPECT_TRUE(system.solve(view(b), {x.data(), csr.rows()}).converged());
    }
    x.resize(b.size());
    return x;
  };
  if (on_host()) {
    const std::vector<double> plain = solve("none", false);
    const double largest =
        std::abs(*std::ranges::max_element(plain, {}, [](double v) { return std::abs(v); }));
    for (const char* order : {"none", "rcm"})
      for (const bool columns : {false, true}) {
        const std::vector<double> x = solve(order, columns);
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], plain[i], 1e-8 * largest) << order;
      }
  }
  const FormatEntry& sell = gpu() || on_host() ? find_format("sell-c-sigma") : fake_format("sell-c-sigma");
  Matrix<double> A(placed(context_, csr), matrix(csr));
  const auto M = ready<double>("subdomain-ilu0", A, of_size(90, 1));
  const std::vector<double> z = apply(*M, b);
  const std::uint64_t version = M->recording().version;
  ASSERT_TRUE(A.switch_to({.entry = &sell}, 1));
  M->ensure(A);
  EXPECT_EQ(M->recording().version, version);
  EXPECT_EQ(apply(*M, b), z);
  EXPECT_EQ(apply(*ready<double>("subdomain-ilu0", A, of_size(90, 1)), b), z);
}

}  // namespace
}  // namespace protean::test
