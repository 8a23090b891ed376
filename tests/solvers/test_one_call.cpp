// make_matrix() by name with "auto", and solve() of protean.hpp: one system in one call.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

template <class Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) { return error.what(); }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

template <class T>
void expect_product(const AssembledMatrix<T>& A, const CsrMatrix<T>& csr) {
  const auto x = sample_vector<T>(csr.cols(), 5);
  std::vector<T> y(static_cast<std::size_t>(csr.rows()));
  A.apply(VectorView<const T>{x.data(), csr.cols()}, VectorView<T>{y.data(), csr.rows()});
  EXPECT_TRUE(product_is_right<T>(csr, 1, x, 0, {}, y));
}

TEST(AutoFormat, IsTheFormatThatTheRuleNames) {
  for (const auto& [kind, n] :
       {std::pair{"poisson-2d", 60.0}, {"elasticity-3d", 8.0}, {"random-spd", 4000.0}}) {
    SCOPED_TRACE(kind);
    const auto csr = generate(test_context(), kind, {{"n", n}});
    const auto choice = choose_format(csr.pattern, CostModel(builtin_machine(), Space::host));
    ASSERT_NE(choice.id, "csr") << "a matrix for which something is to be chosen";
    const auto A = make_matrix("auto", csr, test_context());
    EXPECT_EQ(A->name(), choice.id);
    expect_product(*A, csr);
    // For a few products no conversion pays.
    EXPECT_EQ(make_matrix("auto", csr, test_context(), {}, {}, {.expected_iterations = 1})->name(), "csr");
    const auto single = convert_values<float>(test_context(), csr);
    const auto A32 = make_matrix("auto", single, test_context(), {}, "native");
    EXPECT_EQ(A32->name(), choice.id);
    expect_product(*A32, single);
  }
}

TEST(AutoFormat, TakesOnlyDeterministicKernelsInThatMode) {
  const auto context = Context::host(2, {.deterministic = true});
  const auto csr = generate(context, "poisson-3d", {{"n", 20}});
  const auto A = make_matrix("auto", csr, context);
  const ChoiceOptions options{.deterministic = true};
  EXPECT_EQ(A->name(), choose_format(csr.pattern, CostModel(builtin_machine(), Space::host), options).id);
}

// A band, but 100 rows between the samples have their entries anywhere: the choice sees a band.
TEST(AutoFormat, IsCsrWhereTheChosenFormatRefusesTheWholeMatrix) {
  const int n = 200000;
  std::vector<Triplet<double>> entries;
  for (int i = 0; i < n; ++i)
    for (int d = -3; d <= 3; ++d)
      if (i + d >= 0 && i + d < n) entries.push_back({i, i + d, 1.0 + d});
  unsigned state = 1;
  for (int i = 30000; i < 30100; ++i)
    for (int k = 0; k < 7; ++k) {
      state = state * 1664525u + 1013904223u;
      entries.push_back({i, static_cast<std::int32_t>(state % n), 1});
    }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const auto choice = choose_format(csr.pattern, CostModel(builtin_machine(), Space::host));
  EXPECT_THROW((void)make_matrix(find_format(choice.id), csr, test_context()), FormatRefused) << choice.id;
  EXPECT_EQ(make_matrix("auto", csr, test_context())->name(), "csr");
}

TEST(AutoFormat, IsCsrForRowsThatAreNotSorted) {
  const auto sorted = generate(test_context(), "poisson-2d", {{"n", 60}});
  std::vector<std::int32_t> col(sorted.pattern.col, sorted.pattern.col + sorted.nonzeros());
  std::vector<double> values(sorted.values, sorted.values + sorted.nonzeros());
  for (std::int64_t r = 0; r < sorted.rows(); ++r) {
    const std::int64_t begin = sorted.pattern.row_ptr[r], end = sorted.pattern.row_ptr[r + 1];
    std::reverse(col.begin() + begin, col.begin() + end);
    std::reverse(values.begin() + begin, values.begin() + end);
  }
  const auto csr =
      csr_view<double>(sorted.rows(), sorted.cols(), sorted.pattern.row_ptr.p32, col.data(), values.data());
  const auto A = make_matrix("auto", csr, test_context());
  EXPECT_EQ(A->name(), "csr");
  expect_product(*A, sorted);
  // The policy cannot change the format of such a matrix, and says so before it solves.
  std::vector<double> b(values.size(), 1.0), x(values.size(), 7.0);
  const auto message = message_of<BadMatrix>([&] {
    (void)solve(csr, {b.data(), csr.rows()}, {x.data(), csr.rows()},
                {.policy = true, .context = test_context()});
  });
  EXPECT_TRUE(has(message, "sorted_copy()")) << message;
  EXPECT_EQ(x[0], 7.0);
}

TEST(AutoFormat, RefusesWhatBelongsToOneFormat) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60}});
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)make_matrix("auto", csr, test_context(), {{"C", "8"}});
                  }),
                  "parameters belong to one format"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)make_matrix("auto", csr, test_context(), {}, "mkl"); }),
                  "kernel mkl belongs to one format"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)make_matrix("sell-c-sigmo", csr, test_context()); }),
                  "Did you mean 'sell-c-sigma'?"));
  // By name it is the other make_matrix().
  EXPECT_EQ(make_matrix("sell-c-sigma", csr, test_context(), {{"C", "4"}})->params().integer("C"), 4);
}

struct Solving {
  CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 200}});
  std::int64_t n = csr.rows();
  std::vector<double> b = sample_vector<double>(n, 3), x = std::vector<double>(b.size(), 0.0);

  SolveResult operator()(SolveSettings settings = {}) {
    if (!settings.context) settings.context = test_context();
    x.assign(x.size(), 0.0);
    return solve(csr, {b.data(), n}, {x.data(), n}, settings);
  }
  // ||b - A x|| / ||b|| in long double.
  double residual() const {
    long double squares = 0, norm = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      long double r = b[i];
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        r -= static_cast<long double>(csr.values[k]) * x[csr.pattern.col[k]];
      squares += r * r, norm += static_cast<long double>(b[i]) * b[i];
    }
    return static_cast<double>(std::sqrt(squares / norm));
  }
};

TEST(OneCall, SolvesByNames) {
  Solving one;
  SolveResult result = one();
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_EQ(result.format, make_matrix("auto", one.csr, test_context())->name());
  EXPECT_EQ(result.kernel, "native");
  EXPECT_GT(result.convert_seconds, 0);
  const std::int64_t jacobi = result.report.iterations;

  result = one({.preconditioner = "ssor", .preconditioning = {.omega = 1.5}});
  const std::int64_t ssor = result.report.iterations;
  EXPECT_LT(ssor, jacobi);
  EXPECT_GT(result.setup_seconds, 0);
  EXPECT_NE(one({.preconditioner = "ssor", .preconditioning = {.omega = 0.5}}).report.iterations, ssor);
  result = one({.method = "bicgstab",
                .solver = {.stopping = {.relative_tolerance = 1e-4}},
                .preconditioner = "none",
                .format = "sell-c-sigma",
                .parameters = {{"C", "4"}}});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-4);
  EXPECT_GT(one.residual(), 1e-9) << "the tolerance was given";
  EXPECT_EQ(result.format, "sell-c-sigma");

  result = one({.solver = {.stopping = {.max_iterations = 3}}});
  EXPECT_FALSE(result.converged());
  EXPECT_EQ(result.report.reason, StopReason::max_iterations);
}

TEST(OneCall, SolvesInSinglePrecision) {
  const auto csr = convert_values<float>(test_context(), generate(test_context(), "poisson-2d", {{"n", 30}}));
  Vector<float> b(test_context(), csr.rows()), x(test_context(), csr.rows());
  for (std::int64_t i = 0; i < b.size(); ++i) b[i] = 1, x[i] = 0;
  const auto result = solve(csr, b, x, {.solver = {.stopping = {.relative_tolerance = 1e-5}}});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(result.report.true_relative, 1e-5);
  EXPECT_NEAR(x[0], x[csr.rows() - 1], 1e-2 * x[0]) << "symmetric about the middle";
}

TEST(OneCall, AScheduleIsCarriedOut) {
  Solving one;
  struct Watch final : SolveObserver {
    std::int64_t last = -1;
    bool on_iteration(const IterationInfo& info) override {
      last = info.iteration;
      return true;
    }
  } watch;
  const SolveResult result =
      one({.format = "csr",
           .schedule = {{.at = 5, .to = {&find_format("ell")}, .overlapped = false},
                        {.at = 9, .to = {&find_format("sell-c-sigma"), {{"C", "4"}}}, .overlapped = false},
                        {.at = 1e6, .to = {&find_format("coo")}}},
           .observer = &watch});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].to, "ell");
  EXPECT_EQ(result.switches[0].iteration, 5);
  EXPECT_EQ(result.switches[1].to, "sell-c-sigma");
  EXPECT_EQ(result.format, "sell-c-sigma");
  ASSERT_EQ(result.events.size(), 3u);
  EXPECT_EQ(result.events[2].action, ScheduleEvent::Action::not_reached);
  EXPECT_EQ(watch.last, result.report.iterations);
}

// A table that promises a tenth of the product's time makes the policy change the format.
TEST(OneCall, ThePolicyChangesTheFormat) {
  Solving one;
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     one.csr.rows(),
                     one.csr.nonzeros(),
                     {{"csr", one.csr.bytes(), 1e-3, 0}, {"ell", one.csr.bytes(), 1e-4, 1e-4}}}};
  SolveSettings settings{.policy = true, .machine = &table};
  settings.context = Context::host(available_threads());  // so that the solve waits for the build
  settings.preconditioner = "none";
  const SolveResult result = one(settings);
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_FALSE(result.switches.empty());
  EXPECT_EQ(result.switches[0].from, "csr");
  EXPECT_EQ(result.switches[0].to, "ell");
  EXPECT_FALSE(result.decisions.empty());
  bool known = false;
  for (const CandidateRecord& one_of : result.candidates) known = known || one_of.format == "ell";
  EXPECT_TRUE(known);

  // Named, the first format is that one; a table that promises nothing leaves it.
  table.matrices[0].formats = {{"csr", one.csr.bytes(), 1e-3, 0}};
  settings.format = "sell-c-sigma";
  const SolveResult stayed = one(settings);
  EXPECT_TRUE(stayed.converged());
  EXPECT_TRUE(stayed.switches.empty());
  EXPECT_EQ(stayed.format, "sell-c-sigma");
}

TEST(OneCall, RefusesBadNamesBeforeAnyWork) {
  Solving one;
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.method = "cgs"}); }), "'cgs'"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.preconditioner = "jacobie"}); }),
                  "Did you mean 'jacobi'?"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.format = "scr"}); }), "'scr'"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)one({.policy = true, .schedule = {{.at = 5, .to = {&find_format("ell")}}}});
                  }),
                  "exclude each other"));
  std::vector<double> x(one.b.size() - 1);
  EXPECT_THROW((void)solve(one.csr, {one.b.data(), one.n}, {x.data(), one.n - 1}), ShapeMismatch);
}

}  // namespace
}  // namespace protean::test
