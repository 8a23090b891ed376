// Solves with values in float next to vectors in double: they end by the matrix that was given, whatever the products
// were with.
#include <cmath>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/rounded_systems.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

double norm_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double one : v) sum += one * one;
  return std::sqrt(sum);
}

constexpr double tolerance = 1e-10;
SolveSettings settings(std::string method, std::string preconditioner, std::string format,
                       const char* values) {
  SolveSettings s;
  s.method = std::move(method), s.preconditioner = std::move(preconditioner), s.format = std::move(format);
  s.parameters = {{"values", values}};
  s.solver.stopping.relative_tolerance = tolerance, s.solver.stopping.max_iterations = 5000;
  s.context = test_context();
  return s;
}

struct Solved {
  SolveResult result;
  std::vector<double> x;
};
Solved solved(const CsrMatrix<double>& csr, const SolveSettings& s) {
  const std::vector<double> b = sample_vector<double>(csr.rows(), 9);
  Solved one{{}, std::vector<double>(b.size(), 0.0)};
  const Placed<double> its_b(s.context, b);
  Placed<double> x(s.context, one.x);
  one.result = solve<double>(placed(s.context, csr), its_b.read(), x.view(), s);
  one.x = x.fetch();
  if (one.result.converged()) {
    EXPECT_LE(residual_of(csr, b, one.x), 1.01 * s.solver.stopping.relative_tolerance * norm_of(b));
  }
  return one;
}

struct Way {
  const char *method, *preconditioner, *format;
  double across = 0;
  Space space = Space::host;
};
class SolvesInFloat : public testing::TestWithParam<Way> {};

TEST_P(SolvesInFloat, EndByTheMatrixThatWasGiven) {
  const auto [method, preconditioner, format, across, space] = GetParam();
  const ContextPtr context = test_context(space);
  if (!context) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = diffusion(40, across);
  const auto with = [&](const char* values) {
    SolveSettings s = settings(method, preconditioner, format, values);
    s.context = context;
    return solved(csr, s);
  };
  const Solved full = with("double"), narrow = with("float");
  ASSERT_TRUE(full.result.converged()) << full.result.report.detail;
  ASSERT_TRUE(narrow.result.converged()) << narrow.result.report.detail;
  EXPECT_EQ(full.result.values, "double");
  EXPECT_EQ(full.result.report.corrections, 0);
  EXPECT_EQ(narrow.result.values, "float (rounded)");
  EXPECT_TRUE(has(narrow.result.values_reason, "given")) << narrow.result.values_reason;
  EXPECT_EQ(narrow.result.report.left_rounding, "");
  // One at the end at least, and before that some: float alone ends at 1e-7 or so.
  EXPECT_GE(narrow.result.report.corrections, 2);
  EXPECT_LE(narrow.result.report.corrections, 60);
  if (std::string(method) == "cg") {
    EXPECT_EQ(narrow.result.report.restarts, 0) << "the direction was lost";
    EXPECT_LE(static_cast<double>(narrow.result.report.iterations),
              1.4 * static_cast<double>(full.result.report.iterations) + 3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SolvesInFloat,
    testing::Values(Way{"cg", "none", "csr"}, Way{"cg", "jacobi", "csr"}, Way{"cg", "ic0", "csr"},
                    Way{"cg", "none", "sell-packed"}, Way{"cg", "jacobi", "sell-packed"},
                    Way{"cg", "ic0", "sell-packed"}, Way{"cg", "jacobi", "dia"},
                    Way{"fcg", "jacobi", "sell-packed"}, Way{"minres", "jacobi", "sell-packed"},
                    Way{"bicgstab", "jacobi", "csr", 0.2}, Way{"bicgstab2", "jacobi", "sell-packed", 0.2},
                    Way{"idr", "jacobi", "sell-packed", 0.2}, Way{"gmres", "ilu0", "sell-packed", 0.2},
                    Way{"fgmres", "jacobi", "csr", 0.2}, Way{"cg", "jacobi", "sell-packed", 0, Space::device},
                    Way{"cg", "none", "dia", 0, Space::device}, Way{"cg", "ic0", "hdi", 0, Space::device},
                    Way{"minres", "jacobi", "sell-packed", 0, Space::device},
                    Way{"bicgstab", "jacobi", "hdi", 0.2, Space::device},
                    Way{"gmres", "jacobi", "sell-packed", 0.2, Space::device}),
    [](const auto& way) {
      std::string name = std::string(way.param.method) + "_" + way.param.preconditioner + "_" +
                         way.param.format + (way.param.space == Space::device ? "_device" : "");
      for (char& c : name)
        if (c == '-') c = '_';
      return name;
    });

TEST(FloatValuesInSolves, InAnotherOrderAndWithWeightsAndInDeterministicMode) {
  const CsrMatrix<double> csr = diffusion(30);
  SolveSettings s = settings("cg", "jacobi", "sell-packed", "float");
  s.order = "rcm";
  EXPECT_TRUE(solved(csr, s).result.converged());
  s.solver.residual_norm = "diagonal";
  const std::vector<double> b = sample_vector<double>(csr.rows(), 9);
  std::vector<double> x(b.size(), 0.0);
  const SolveResult weighted = solve<double>(csr, b, x, s);
  EXPECT_TRUE(weighted.converged());
  EXPECT_GE(weighted.report.corrections, 2);
  s = settings("cg", "jacobi", "sell-packed", "float");
  s.context = Context::host(2, {.deterministic = true});
  const Solved two = solved(csr, s);
  s.context = Context::host(3, {.deterministic = true});
  const Solved three = solved(csr, s);
  EXPECT_TRUE(two.result.converged());
  EXPECT_EQ(two.x, three.x);
}

TEST(FloatValuesInSolves, OfSeveralColumnsEndByTheMatrixThatWasGiven) {
  const CsrMatrix<double> csr = diffusion(30);
  constexpr std::int64_t k = 4;
  const std::int64_t n = csr.rows();
  for (const char* format : {"csr", "sell-packed"})
    for (const char* order : {"none", "rcm"}) {
      SCOPED_TRACE(std::string(format) + " in order " + order);
      SolveSettings s = settings("cg", "jacobi", format, "float");
      s.order = order;
      const Columns<double> B = sample_columns<double>(n, k, 11);
      std::vector<double> b, x(static_cast<std::size_t>(n * k), 0.0);
      for (const auto& column : B) b.insert(b.end(), column.begin(), column.end());
      const MultiSolveResult done = multi_solve<double>(csr, {b.data(), n, k, n}, {x.data(), n, k, n}, s);
      EXPECT_TRUE(done.converged());
      EXPECT_EQ(done.values, "float (rounded)");
      for (std::int64_t j = 0; j < k; ++j) {
        const std::vector<double> one(x.begin() + j * n, x.begin() + (j + 1) * n);
        EXPECT_LE(residual_of(csr, B[static_cast<std::size_t>(j)], one),
                  1.01 * tolerance * norm_of(B[static_cast<std::size_t>(j)]));
      }
    }
}

// What float loses, the solve wins back by the values that were given, and keeps these.
TEST(FloatValuesInSolves, ThatCannotGoOnLeaveFloatForGood) {
  const CsrMatrix<double> csr = barely_definite(300, 1e-9);
  SolveSettings s = settings("cg", "jacobi", "sell-packed", "float");
  s.solver.stopping.relative_tolerance = 1e-5;
  const std::vector<double> b = sample_vector<double>(csr.rows(), 9);
  std::vector<double> x(b.size(), 0.0);
  SolveSettings in_double = s;
  in_double.parameters = {{"values", "double"}};
  ASSERT_TRUE(solve<double>(csr, b, x, in_double).converged());
  std::ranges::fill(x, 0.0);
  LinearSystem<double> system(csr, s);
  const SolveResult first = system.solve(b, x);
  EXPECT_TRUE(first.converged()) << to_string(first.report.reason) << ": " << first.report.detail;
  EXPECT_NE(first.report.left_rounding, "");
  EXPECT_EQ(first.values, "double");
  EXPECT_TRUE(has(first.values_reason, first.report.left_rounding)) << first.values_reason;
  EXPECT_LE(residual_of(csr, b, x), 1.01e-5 * norm_of(b));
  std::ranges::fill(x, 0.0);
  const SolveResult second = system.solve(b, x);
  EXPECT_TRUE(second.converged());
  EXPECT_EQ(second.values, "double");
  EXPECT_EQ(second.report.corrections, 0);
  EXPECT_EQ(second.report.left_rounding, "");
  EXPECT_EQ(system.matrix().assembled()->stored_values(), "double");
}

// Preconditioners belong to the given matrix, and so do its entries.
TEST(FloatValuesInSolves, EntriesAndDiagonalAreThoseThatWereGiven) {
  const CsrMatrix<double> csr = diffusion(20);
  for (const char* format : {"csr", "sell-packed"}) {
    LinearSystem<double> system(csr, settings("cg", "jacobi", format, "float"));
    system.set_up();
    const std::optional<CsrMatrix<double>> entries = csr_of(system.A());
    ASSERT_TRUE(entries);
    EXPECT_TRUE(identical(*entries, csr));
    std::vector<double> found(static_cast<std::size_t>(csr.rows())), expected = found;
    system.A().abilities().diagonal->diagonal({found.data(), csr.rows()});
    extract_diagonal(*test_context(), csr, expected.data());
    EXPECT_EQ(found, expected);
    ASSERT_TRUE(system.A().abilities().given_matrix);
    const LinearOperator<double>* const given = system.A().abilities().given_matrix->given_matrix();
    ASSERT_NE(given, nullptr);
    const std::vector<double> x = sample_vector<double>(csr.cols(), 2);
    std::vector<double> y(x.size(), std::nan(""));
    given->apply({x.data(), csr.cols()}, {y.data(), csr.rows()});
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, x, y));
  }
}

TEST(FloatValuesInSolves, FollowNewValuesByThemselves) {
  const CsrMatrix<double> whole = generate(test_context(), "poisson-2d", {{"n", 30}});
  CsrMatrix<double> third = deep_copy(test_context(), whole);
  for (std::int64_t k = 0; k < third.nonzeros(); ++k) const_cast<double*>(third.values)[k] /= 3;
  LinearSystem<double> system(whole, settings("cg", "jacobi", "sell-packed", "auto"));
  const std::vector<double> b = sample_vector<double>(whole.rows(), 9);
  for (const auto& [csr, values] :
       {std::pair{&whole, "float (exact)"}, {&third, "double"}, {&whole, "float (exact)"}}) {
    system.update_values(*csr);
    std::vector<double> x(b.size(), 0.0), fresh = x;
    const SolveResult done = system.solve(b, x);
    EXPECT_TRUE(done.converged());
    EXPECT_EQ(done.values, values) << done.values_reason;
    EXPECT_EQ(done.report.corrections, 0);
    (void)solve<double>(*csr, b, fresh, settings("cg", "jacobi", "sell-packed", "double"));
    EXPECT_EQ(x, fresh) << "other bits than in double";
  }
  EXPECT_TRUE(has(system.describe(), "float (exact)")) << system.describe();
}

// A change of format in the middle of a solve.
TEST(FloatValuesInSolves, StayInFloatInTheNextFormat) {
  const CsrMatrix<double> csr = diffusion(40);
  SolveSettings s = settings("cg", "jacobi", "csr", "float");
  s.schedule = {{.at = 20, .overlapped = false, .format = "sell-packed"},
                {.at = 50, .overlapped = false, .format = "ell"}};
  const Solved one = solved(csr, s);
  EXPECT_TRUE(one.result.converged());
  ASSERT_EQ(one.result.switches.size(), 2u);
  EXPECT_EQ(one.result.switches[0].parameters.word("values"), "float");
  EXPECT_EQ(one.result.values, "double") << "ell has no others";
  // ell has the given values, and cg begins again once. Whether it has to has not been examined.
  EXPECT_LE(one.result.report.restarts, 1);
}

TEST(FloatValuesInSolves, AreRefusedWhereThereAreNone) {
  const CsrMatrix<double> csr = diffusion(10);
  for (const char* format : {"auto", "ell"}) {
    try {
      (void)solved(csr, settings("cg", "jacobi", format, "float"));
      ADD_FAILURE() << format;
    } catch (const BadArgument& error) {
      if (format == std::string("ell")) { EXPECT_TRUE(has(error.what(), "sell-packed")) << error.what(); }
    }
  }
  const ContextPtr device = fake_device_context();
  try {
    (void)make_matrix(fake_format("csr"), upload(device, csr), device, {{"values", "float"}});
    ADD_FAILURE() << "on a device";
  } catch (const BadArgument& error) {
    EXPECT_TRUE(has(error.what(), "on a GPU csr does not")) << error.what();
  }
}

// A dictionary rounds nothing: the solve has the bits of a solve with doubles, and ends without corrections.
TEST(DictionaryValuesInSolves, HaveTheBitsOfDoubles) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  const Solved full = solved(csr, settings("cg", "jacobi", "sell-packed", "double")),
               coded = solved(csr, settings("cg", "jacobi", "sell-packed", "dictionary"));
  ASSERT_TRUE(full.result.converged());
  EXPECT_EQ(coded.x, full.x);
  EXPECT_EQ(coded.result.report.iterations, full.result.report.iterations);
  EXPECT_EQ(coded.result.report.corrections, 0);
  EXPECT_EQ(coded.result.values, "dictionary");
  EXPECT_TRUE(has(coded.result.values_reason, "distinct values")) << coded.result.values_reason;
  try {
    (void)solved(diffusion(20, 0.3), settings("bicgstab", "jacobi", "csr", "dictionary"));
    ADD_FAILURE() << "csr";
  } catch (const BadArgument&) {}
}

TEST(DictionaryValuesInSolves, AreReachedByASchedule) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  SolveSettings s = settings("cg", "jacobi", "csr", "double");
  SchedulePoint point{.at = 10, .overlapped = false, .format = "sell-packed"};
  point.to.params = {{"values", "dictionary"}};
  s.schedule = {point};
  const Solved one = solved(csr, s);
  EXPECT_TRUE(one.result.converged());
  ASSERT_EQ(one.result.switches.size(), 1u);
  EXPECT_EQ(one.result.switches[0].from_values, "double");
  EXPECT_EQ(one.result.switches[0].to_values, "dictionary");
  EXPECT_EQ(one.result.values, "dictionary");
}

}  // namespace
}  // namespace protean::test
