// make_matrix() by name with "auto", and solve() of protean.hpp: one system in one call.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "operators/policy/builtin_machine.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

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
    // On each processor by the same table, in which something is to be chosen for these matrices.
    const MachineTable& machine = builtin_machine(BuiltinHost::avx512);
    // As many as pay for a conversion, and too few to try formats.
    ChoiceOptions options;
    options.expected_iterations = 5000, options.machine = &machine;
    const auto choice = choose_format(csr.pattern, CostModel(machine, Space::host), options);
    ASSERT_NE(choice.id, "csr") << "a matrix for which something is to be chosen";
    const auto A = make_matrix("auto", csr, test_context(), {}, {}, options);
    EXPECT_EQ(A->name(), choice.id);
    expect_product(*A, csr);
    // For a few products no conversion pays.
    EXPECT_EQ(make_matrix("auto", csr, test_context(), {}, {}, {.expected_iterations = 1})->name(), "csr");
    const auto single = convert_values<float>(test_context(), csr);
    const auto A32 = make_matrix("auto", single, test_context(), {}, "native", options);
    ChoiceOptions of_single = options;  // it has fewer bytes, so another format may be the fastest
    of_single.value_bytes = sizeof(float);
    EXPECT_EQ(A32->name(), choose_format(single.pattern, CostModel(machine, Space::host), of_single).id);
    expect_product(*A32, single);
  }
}

TEST(AutoFormat, TakesOnlyDeterministicKernelsInThatMode) {
  const auto context = Context::host(2, {.deterministic = true});
  const auto csr = generate(context, "poisson-3d", {{"n", 20}});
  const auto A = make_matrix("auto", csr, context);
  const ChoiceOptions options{.deterministic = true};
  EXPECT_EQ(A->name(), choose_format(csr.pattern, CostModel(Space::host), options).id);
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
  MachineTable table;  // in which diagonals are fast
  table.matrices = {{"band",
                     Space::host,
                     csr.rows(),
                     csr.nonzeros(),
                     {{"csr", csr.bytes(), 1e-3, 0}, {"dia", csr.bytes() / 2, 1e-4, 1e-4}}}};
  EXPECT_EQ(choose_format(csr.pattern, CostModel(table, Space::host)).id, "dia");
  EXPECT_THROW((void)make_matrix(find_format("dia"), csr, test_context()), FormatRefused);
  EXPECT_EQ(make_matrix("auto", csr, test_context(), {}, {}, {.machine = &table})->name(), "csr");
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
  SolveResult result = one({.expected_iterations = assumed_iterations});
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

// The format of a point by its name, with parameters of its own; what is wrong is said before the solve.
TEST(OneCall, AScheduleNamesItsFormats) {
  Solving one;
  const SolveResult result = one({.format = "csr",
                                  .schedule = {{.at = 3, .overlapped = false, .format = "ell"},
                                               {.at = 6,
                                                .to = {.params = {{"C", "8"}}, .order = "rcm"},
                                                .overlapped = false,
                                                .format = "sell-c-sigma"}}});
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].to, "ell");
  EXPECT_EQ(result.switches[1].to, "sell-c-sigma");
  EXPECT_EQ(result.switches[1].to_order, "rcm");
  EXPECT_EQ(result.switches[1].parameters.integer("C"), 8);

  const auto refusal = [&](SchedulePoint point) {
    return message_of<BadArgument>([&] { one({.format = "csr", .schedule = {std::move(point)}}); });
  };
  EXPECT_TRUE(has(refusal({.at = 3, .format = "elll"}), "Did you mean"))
      << refusal({.at = 3, .format = "elll"});
  EXPECT_TRUE(has(refusal({.at = 3, .to = {&find_format("csr")}, .format = "ell"}), "name one"));
  EXPECT_TRUE(has(refusal({.at = 3, .to = {.params = {{"nothing", "1"}}}, .format = "ell"}), "nothing"));
}

// A change that failed is named with the kernel that was asked for.
TEST(OneCall, AChangeThatFailedNamesItsKernel) {
  Solving one;
  const SolveResult result =
      one({.format = "csr",
           .schedule = {{.at = 3, .to = {&find_format("ell"), {}, "nobody"}, .overlapped = false}}});
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.format, "csr");
  ASSERT_FALSE(result.events.empty());
  EXPECT_EQ(result.events.back().action, ScheduleEvent::Action::failed);
  EXPECT_EQ(result.events.back().to, "ell/nobody");
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
  // One thread, and no build beside the solve: with more threads than a busy machine has processors, a measured product
  // is mostly waiting, and may take that for the time of a format.
  settings.context = Context::host(1), settings.overlapped = false;
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

// The observer of the caller sees each iteration and may end the solve, with a policy and without.
TEST(OneCall, AnObserverIsCalledInAnyCase) {
  Solving one;
  struct Watch final : SolveObserver {
    std::int64_t calls = 0, last = -1, end_at = -1;
    bool on_iteration(const IterationInfo& info) override {
      ++calls, last = info.iteration;
      return info.iteration != end_at;
    }
  };
  for (const bool policy : {false, true}) {
    SCOPED_TRACE(policy);
    Watch watch;
    SolveResult result = one({.policy = policy, .observer = &watch});
    EXPECT_TRUE(result.converged());
    EXPECT_EQ(watch.calls, result.report.iterations + 1);
    EXPECT_EQ(watch.last, result.report.iterations);
    watch.end_at = 7;
    result = one({.policy = policy, .observer = &watch});
    EXPECT_EQ(result.report.reason, StopReason::interrupted);
    EXPECT_EQ(result.report.iterations, 7);
  }
}

// The numbers of the policy are checked before any work, by solve() and by AutoSwitcher itself.
TEST(OneCall, APolicyOutOfRangeIsRefused) {
  Solving one;
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)one({.format = "scr", .policy = true, .policy_options = {.worst_factor = -1}});
                  }),
                  "worst_factor is -1"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)one({.policy_options = {.worst_factor = 2}}); }),
                  "worst_factor is for a policy, and the solve has none: leave it at 1.05"));
  Matrix<double> A(one.csr, make_matrix("csr", one.csr, test_context()));
  const CostModel model(Space::host);
  AutoSwitchOptions options;
  options.policy.payback = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    const AutoSwitcher<double> switcher(
                        A, model, [&] { return survey_formats(A, model); }, options);
                  }),
                  "payback is nan"));
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

// A system in a random numbering, so that each order changes it. The values remain with the handle.
CsrMatrix<double> shuffled(std::string_view kind, double n) {
  const auto a = generate(test_context(), kind, {{"n", n}});
  std::vector<std::int32_t> order(static_cast<std::size_t>(a.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  return PermutedMatrix<double>(test_context(), a, Permutation(test_context(), std::move(order))).matrix();
}
Solving in_random_order(std::string_view kind, double n) { return {.csr = shuffled(kind, n)}; }

TEST(OneCallOrder, WordsAreThoseOfTheLibrary) {
  std::vector<std::string_view> words{"none", "auto"};
  for (const OrderingEntry& entry : orderings()) words.push_back(entry.id);
  EXPECT_EQ(order_words(), words);
  words.erase(words.begin() + 1);
  EXPECT_EQ(order_words(false), words);
  for (const OrderingEntry& entry : orderings())
    if (entry.unavailable.empty()) { EXPECT_NO_THROW(require_order(entry.id, false)); }
  EXPECT_NO_THROW(require_order("auto"));
  const auto unknown = message_of<BadArgument>([] { require_order("rcn"); });
  for (const std::string_view word : order_words()) EXPECT_TRUE(has(unknown, word)) << unknown;
  EXPECT_TRUE(has(unknown, "Did you mean 'rcm'?")) << unknown;
  EXPECT_TRUE(has(message_of<BadArgument>([] { require_order("auto", false); }), "there are none, rcm"));
}

// All orders and all preconditioners: the solution is that without an order, within what the residuals allow.
TEST(OneCallOrder, SolvesToTheSameSolution) {
  for (const auto& [method, kind, n] : {std::tuple{"cg", "poisson-2d", 24.0},
                                        {"minres", "poisson-2d", 24.0},
                                        {"gmres", "convection-diffusion-3d", 8.0},
                                        {"bicgstab", "convection-diffusion-3d", 8.0}}) {
    Solving one = in_random_order(kind, n);
    for (const PreconditionerEntry& entry : preconditioners()) {
      const bool symmetric = std::string_view(kind) == "poisson-2d";
      if ((symmetric && !entry.symmetric) || !entry.unavailable.empty()) continue;
      if (!symmetric && (entry.id.starts_with("ic") || entry.id == "isai" || entry.id == "subdomain-ic0"))
        continue;  // of symmetric matrices
      SCOPED_TRACE(std::string(method) + " " + std::string(entry.id));
      SolveSettings settings{.method = method,
                             .solver = {.stopping = {.relative_tolerance = 1e-11}},
                             .preconditioner = std::string(entry.id),
                             .format = "csr"};
      // auto changes by measured times otherwise.
      if (entry.id == "auto") settings.context = Context::host(1, {.deterministic = true});
      const SolveResult plain = one(settings);
      ASSERT_TRUE(plain.converged());
      EXPECT_EQ(plain.order, "none");
      EXPECT_EQ(plain.order_seconds, 0);
      const std::vector<double> expected = one.x;
      double largest = 0;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      for (const OrderingEntry& order : orderings()) {
        if (!order.unavailable.empty()) continue;
        settings.order = order.id;
        const SolveResult result = one(settings);
        ASSERT_TRUE(result.converged()) << order.id;
        EXPECT_EQ(result.order, order.id);
        EXPECT_EQ(result.order_reason, "");
        EXPECT_GT(result.order_seconds, 0);
        EXPECT_LE(one.residual(), 1.01e-11) << order.id;
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(one.x[i], expected[i], 1e-8 * largest) << order.id << ", row " << i;
        // M is made in the caller's numbering, so the iterations are those without an order, but for rounding.
        EXPECT_LE(std::abs(result.report.iterations - plain.report.iterations),
                  2 + plain.report.iterations / (std::string_view(method) == "bicgstab" ? 2 : 10))
            << order.id;
      }
    }
  }
}

// CG on the matrix in an order is CG on the permuted system: to the bit.
TEST(OneCallOrder, IsTheSolveOfThePermutedSystem) {
  Solving one = in_random_order("poisson-2d", 40);
  const SolveSettings settings{.preconditioner = "jacobi", .format = "csr", .order = "rcm"};
  const SolveResult result = one(settings);
  const Permutation P(test_context(), make_order("rcm", *test_context(), one.csr.pattern));
  Solving permuted{.csr = PermutedMatrix<double>(test_context(), one.csr, P).matrix()};
  for (std::size_t k = 0; k < one.b.size(); ++k) permuted.b[k] = one.b[P.order()[k]];
  const SolveResult expected = permuted({.preconditioner = "jacobi", .format = "csr"});
  EXPECT_EQ(result.report.iterations, expected.report.iterations);
  EXPECT_EQ(result.report.true_residual, expected.report.true_residual);
  for (std::size_t k = 0; k < one.x.size(); ++k) ASSERT_EQ(one.x[P.order()[k]], permuted.x[k]) << k;
}

TEST(OneCallOrder, AutoSaysWhy) {
  Solving small = in_random_order("poisson-2d", 40);
  SolveResult result = small({.order = "auto"});
  EXPECT_EQ(result.order, "none");
  EXPECT_TRUE(has(result.order_reason, "caches")) << result.order_reason;
  Solving large = in_random_order("poisson-2d", 400);
  SolveSettings settings{.solver = {.stopping = {.max_iterations = 2}}, .format = "csr", .order = "auto"};
  result = large(settings);
  const OrderChoice choice = choose_order(large.csr.pattern);
  ASSERT_EQ(choice.id, "rcm") << choice.reason;
  EXPECT_EQ(result.order, choice.id);
  EXPECT_EQ(result.order_reason, choice.reason);
  // Two products an iteration save twice as much, and half the bytes of x may stay in the caches.
  settings.method = "bicgstab";
  EXPECT_EQ(large(settings).order_reason,
            choose_order(large.csr.pattern, {.products_per_iteration = 2}).reason);
  const auto single = convert_values<float>(test_context(), large.csr);
  Vector<float> b(test_context(), large.n), x(test_context(), large.n);
  for (std::int64_t i = 0; i < large.n; ++i) b[i] = 1, x[i] = 0;
  settings.method = "cg";
  EXPECT_EQ(solve(single, b, x, settings).order_reason, choose_order(large.csr.pattern, {}, 4).reason);
}

TEST(OneCallOrder, SeesTheCallersNumbering) {
  Solving one = in_random_order("poisson-2d", 30);
  const SolveSettings plain{.preconditioner = "none", .format = "csr"};
  std::vector<double> residuals[2];
  struct Watch final : SolveObserver {
    std::vector<double>* residuals = nullptr;
    bool on_iteration(const IterationInfo& info) override {
      residuals->push_back(info.residual);
      return info.iteration < 7;
    }
  } watch;
  SolveSettings settings = plain;
  settings.observer = &watch;
  std::vector<double> x[2];
  for (const int ordered : {0, 1}) {
    settings.order = ordered ? "rcm" : "none", watch.residuals = &residuals[ordered];
    EXPECT_EQ(one(settings).report.reason, StopReason::interrupted);
    x[ordered] = one.x;
  }
  ASSERT_EQ(residuals[1].size(), residuals[0].size());
  for (std::size_t i = 0; i < residuals[0].size(); ++i)
    EXPECT_NEAR(residuals[1][i], residuals[0][i], 1e-12 * residuals[0][0]) << i;
  for (std::size_t i = 0; i < x[0].size(); ++i) ASSERT_NEAR(x[1][i], x[0][i], 1e-11) << i;
  // The solution as the initial guess: nothing is left to do.
  ASSERT_TRUE(one(plain).converged());
  settings = plain, settings.order = "length", settings.solver.stopping.relative_tolerance = 1e-7;
  settings.context = test_context();
  const SolveResult again = solve(one.csr, {one.b.data(), one.n}, {one.x.data(), one.n}, settings);
  EXPECT_EQ(again.report.iterations, 0);
}

TEST(OneCallOrder, ChangesByASchedule) {
  Solving one = in_random_order("poisson-2d", 60);
  FormatSpec both{.entry = &find_format("ell")}, order;
  both.order = "rcm", order.order = "length";
  SolveSettings settings{
      .format = "csr",
      .schedule = {{.at = 5, .to = both, .overlapped = false}, {.at = 9, .to = order, .overlapped = false}}};
  SolveResult result = one(settings);
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_EQ(result.switches.size(), 2u);
  EXPECT_EQ(result.switches[0].to_order, "rcm");
  EXPECT_EQ(result.switches[1].to, "ell");
  EXPECT_EQ(result.switches[1].to_order, "length");
  EXPECT_EQ(result.order, "length");
  // From an order before the solve, back to it, and to that of the program.
  settings.order = "cluster";
  for (const std::string end : {"cluster", "none"}) {
    order.order = end, settings.schedule[1].to = order;
    result = one(settings);
    EXPECT_TRUE(result.converged());
    EXPECT_LE(one.residual(), 1.01e-8);
    ASSERT_EQ(result.switches.size(), 2u);
    EXPECT_EQ(result.switches[0].from_order, "cluster");
    EXPECT_EQ(result.switches[1].from_order, "rcm");
    EXPECT_EQ(result.switches[1].to_order, end);
    EXPECT_EQ(result.order, end);
    EXPECT_EQ(result.events[1].to, "order " + end);
  }
  // What is there already is no change.
  order.order = "cluster", settings.schedule = {{.at = 5, .to = order, .overlapped = false}};
  result = one(settings);
  EXPECT_TRUE(result.switches.empty());
  EXPECT_EQ(result.events.at(0).action, ScheduleEvent::Action::stayed);
  EXPECT_EQ(result.order, "cluster");
  // With the policy, too.
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     one.csr.rows(),
                     one.csr.nonzeros(),
                     {{"csr", one.csr.bytes(), 1e-3, 0}, {"ell", one.csr.bytes(), 1e-4, 1e-4}}}};
  one = in_random_order("poisson-2d", 200);
  const SolveResult policy = one({.preconditioner = "none",
                                  .order = "rcm",
                                  .policy = true,
                                  .machine = &table,
                                  .context = Context::host(available_threads())});
  EXPECT_TRUE(policy.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_EQ(policy.order, "rcm");
  ASSERT_FALSE(policy.switches.empty());
  EXPECT_EQ(policy.switches[0].to, "ell");
  EXPECT_EQ(policy.switches[0].from_order, "rcm");
  ASSERT_FALSE(policy.candidates.empty());
  for (const CandidateRecord& seen : policy.candidates) {
    EXPECT_EQ(seen.order, "rcm") << seen.format;
    EXPECT_TRUE(has(seen.format, " in order rcm")) << seen.format;
  }
}

TEST(OneCallOrder, RefusesWrongWordsBeforeAnyWork) {
  Solving one = in_random_order("poisson-2d", 10);
  one.x.assign(one.x.size(), 7.0);
  const auto tried = [&](SolveSettings settings) {
    if (!settings.context) settings.context = test_context();
    (void)solve(one.csr, {one.b.data(), one.n}, {one.x.data(), one.n}, settings);
  };
  EXPECT_TRUE(has(message_of<BadArgument>([&] { tried({.order = "clusters"}); }), "Did you mean 'cluster'?"));
  FormatSpec to;
  to.order = "rcmm";
  EXPECT_TRUE(has(message_of<BadArgument>([&] { tried({.schedule = {{.at = 3, .to = to}}}); }),
                  "Did you mean 'rcm'?"));
  to.order = "auto";
  EXPECT_TRUE(
      has(message_of<BadArgument>([&] { tried({.schedule = {{.at = 3, .to = to}}}); }), "must be named"));
  for (const OrderingEntry& entry : orderings())
    if (!entry.unavailable.empty()) {
      EXPECT_TRUE(
          has(message_of<NotAvailable>([&] { tried({.order = std::string(entry.id)}); }), entry.unavailable));
    }
  EXPECT_EQ(one.x, std::vector<double>(one.x.size(), 7.0));
  const std::vector<Triplet<double>> entries{{0, 0, 1.0}, {1, 2, 1.0}};
  const auto wide = csr_from_triplets<double>(test_context(), 2, 3, entries);
  for (const char* order : {"rcm", "auto"})
    EXPECT_TRUE(
        has(message_of<ShapeMismatch>([&] { (void)put_in_order(order, wide, test_context()); }), "2 x 3"));
  EXPECT_FALSE(put_in_order("none", wide, test_context()).ordered);
}

TEST(OneCallOrder, PutsAMatrixOfADeviceIntoIt) {
  Solving one = in_random_order("poisson-2d", 12);
  const ContextPtr device = fake_device_context();
  const CsrMatrix<double> csr = upload(device, one.csr);
  Vector<double> b(device, one.n), x(device, one.n);
  copy<double>(*device, {one.b.data(), one.n}, b);
  const auto solution = [&] {
    copy<double>(*device, x, {one.x.data(), one.n});
    return one.residual();
  };
  // No format has kernels for this device, so the matrix itself is what can be tested there.
  const OrderedMatrix<double> there = put_in_order("rcm", csr, device);
  ASSERT_TRUE(there.ordered);
  EXPECT_EQ(there.ordered->matrix().pattern.space, Space::device);
  const auto here = put_in_order("rcm", one.csr, test_context()).ordered->matrix();
  const auto fetched = download(test_context(), *device, there.ordered->matrix());
  EXPECT_TRUE(std::equal(fetched.values, fetched.values + fetched.nonzeros(), here.values));
  Matrix<double> A(there.ordered->permutation(), std::shared_ptr<LinearOperator<double>>(make_matrix(
                                                     fake_format("csr"), there.ordered->matrix(), device)));
  copy<double>(*device, {one.x.data(), one.n}, x);
  EXPECT_TRUE(make_solver<double>("cg")->solve(A, b, x).converged());
  EXPECT_LE(solution(), 1.01e-8);
}

// A schedule changes the order on a GPU, too.
TEST(OneCallOrder, ChangesInTheMiddleOnAGpu) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  Solving one = in_random_order("poisson-2d", 30);
  const CsrMatrix<double> csr = upload(device, one.csr);
  const Placed<double> b(device, one.b);
  FormatSpec to;
  to.order = "rcm";
  for (const std::string before : {"none", "cluster"}) {
    Placed<double> x(device, one.x);
    const SolveResult result = solve<double>(
        csr, b.read(), x.view(),
        {.order = before, .schedule = {{.at = 3, .to = to, .overlapped = false}}, .context = device});
    EXPECT_TRUE(result.converged());
    ASSERT_EQ(result.events.size(), 1u);
    EXPECT_EQ(result.events[0].action, ScheduleEvent::Action::switched) << result.events[0].reason;
    EXPECT_EQ(result.order, "rcm");
    one.x = x.fetch();
    EXPECT_LE(one.residual(), 1.01e-8);
    one.x.assign(one.x.size(), 0.0);
  }
}

// An order sorts the rows, so that formats and changes of format are possible that were not.
TEST(OneCallOrder, TakesRowsThatAreNotSorted) {
  Solving one = in_random_order("poisson-2d", 30);
  const CsrMatrix<double> sorted = one.csr;
  std::vector<std::int32_t> col(sorted.pattern.col, sorted.pattern.col + sorted.nonzeros());
  std::vector<double> values(sorted.values, sorted.values + sorted.nonzeros());
  for (std::int64_t r = 0; r < sorted.rows(); ++r) {
    const std::int64_t begin = sorted.pattern.row_ptr[r], end = sorted.pattern.row_ptr[r + 1];
    std::reverse(col.begin() + begin, col.begin() + end);
    std::reverse(values.begin() + begin, values.begin() + end);
  }
  one.csr = csr_view<double>(one.n, one.n, sorted.pattern.row_ptr.p32, col.data(), values.data());
  const SolveSettings settings{.preconditioner = "ic0", .format = "sell-c-sigma", .order = "rcm"};
  EXPECT_TRUE(one(settings).converged());
  EXPECT_LE(one.residual(), 1.01e-8);
}

TEST(OneCallOrder, SystemsOfNoAndOneRow) {
  for (const std::int64_t n : {0, 1}) {
    std::vector<Triplet<double>> entries;
    if (n == 1) entries.push_back({0, 0, 4.0});
    FormatSpec to;
    to.order = "length";
    for (const char* order : {"rcm", "length", "cluster", "auto", "none"}) {
      SCOPED_TRACE(fmt::format("{} rows, {}", n, order));
      const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
      double b = 2, x = 0;
      for (const auto& schedule :
           {std::vector<SchedulePoint>(), {{.at = 0, .to = to, .overlapped = false}}}) {
        x = 0;
        const SolveResult result = solve(
            csr, {&b, n}, {&x, n},
            {.preconditioner = "none", .order = order, .schedule = schedule, .context = test_context()});
        EXPECT_TRUE(result.converged());
        EXPECT_EQ(x, n == 1 ? 0.5 : 0);
      }
    }
  }
}

// multi_solve(): each column is that of solve(), in the format asked for, or in one that takes several vectors at once.
TEST(MultiSolve, ColumnsAreThoseOfOneCallEach) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 50}});
  const std::int64_t n = csr.rows(), k = 5;
  std::vector<double> B, X(static_cast<std::size_t>(n * k), 0.0);
  for (unsigned j = 0; j < k; ++j) {
    const auto column = sample_vector<double>(n, j + 1);
    B.insert(B.end(), column.begin(), column.end());
  }
  for (const char* format : {"auto", "csr", "sell-packed", "csr5"})
    for (const char* preconditioner : {"jacobi", "ic0"}) {
      SCOPED_TRACE(std::string(format) + ", " + preconditioner);
      const SolveSettings settings{.preconditioner = preconditioner, .format = format};
      std::fill(X.begin(), X.end(), 0.0);
      const MultiSolveResult all = multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n}, settings);
      EXPECT_TRUE(all.converged());
      EXPECT_EQ(all.report.product == "in one pass", all.format != "csr5") << all.report.product;
      EXPECT_EQ(all.report.preconditioner == "diagonal", std::string(preconditioner) == "jacobi");
      for (std::int64_t j = 0; j < k; ++j) {
        std::vector<double> x(static_cast<std::size_t>(n), 0.0);
        const SolveResult one = solve(csr, {B.data() + j * n, n}, {x.data(), n}, settings);
        EXPECT_LE(
            std::abs(one.report.iterations - all.report.columns[static_cast<std::size_t>(j)].iterations), 1);
        double difference = 0, size = 0;
        for (std::int64_t i = 0; i < n; ++i)
          difference = std::max(
              difference, std::abs(x[static_cast<std::size_t>(i)] - X[static_cast<std::size_t>(i + j * n)])),
          size = std::max(size, std::abs(x[static_cast<std::size_t>(i)]));
        EXPECT_LE(difference, 1e-6 * size);
      }
    }
}

// The rule of each column and the options of the preconditioner reach the solve.
TEST(MultiSolve, RulesAndPreconditioningTakeEffect) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 50}});
  const std::int64_t n = csr.rows(), k = 3;
  const auto column = sample_vector<double>(n, 1);
  std::vector<double> B, X(static_cast<std::size_t>(n * k), 0.0);
  for (int j = 0; j < k; ++j) B.insert(B.end(), column.begin(), column.end());
  std::vector<StoppingRule> rules(static_cast<std::size_t>(k));
  rules[1].relative_tolerance = 1e-2, rules[2].max_iterations = 3;
  const MultiSolveResult all =
      multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n}, {.context = test_context()}, rules);
  const auto& columns = all.report.columns;
  EXPECT_LE(columns[0].true_relative, 1e-8);
  EXPECT_GT(columns[0].iterations, 30);
  EXPECT_EQ(columns[1].reason, StopReason::relative_tolerance);
  EXPECT_GT(columns[1].true_relative, 1e-4);
  EXPECT_EQ(columns[2].reason, StopReason::max_iterations);
  EXPECT_EQ(columns[2].iterations, 3);
  const auto iterations_with = [&](double omega) {
    std::fill(X.begin(), X.end(), 0.0);
    const SolveSettings settings{
        .preconditioner = "ssor", .preconditioning = {.omega = omega}, .context = test_context()};
    return multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n}, settings).report.iterations;
  };
  EXPECT_GT(iterations_with(0.1), iterations_with(1) + 10);
}

TEST(MultiSolve, SettingsForOneRightHandSideAreRefused) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 5}});
  std::vector<double> B(50, 1.0), X(50, 0.0);
  const auto refused = [&](const SolveSettings& settings) {
    return message_of<BadArgument>([&] {
      (void)multi_solve(csr, {B.data(), 25, 2, 25}, {X.data(), 25, 2, 25}, settings);
    });
  };
  class Observer final : public SolveObserver {
    bool on_iteration(const IterationInfo&) override { return true; }
  } observer;
  EXPECT_TRUE(has(refused({.observer = &observer}), "observer of the settings is for one right-hand side"));
  EXPECT_TRUE(has(refused({.method = "cg", .preconditioner = "ilu0"}), "symmetric"));
  EXPECT_EQ(X, std::vector<double>(50, 0.0));
}

TEST(MultiSolve, ColumnsInAnOrderAreThoseOfSingleSolves) {
  Solving one = in_random_order("poisson-2d", 40);
  const std::int64_t n = one.n, k = 3;
  std::vector<double> B, X(static_cast<std::size_t>(n * k), 0.0), x(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < k; ++j) {
    const auto b = sample_vector<double>(n, 11 + static_cast<unsigned>(j));
    B.insert(B.end(), b.begin(), b.end());
  }
  for (const char* preconditioner : {"none", "jacobi", "ic0"}) {
    const SolveSettings settings{
        .preconditioner = preconditioner, .format = "csr", .order = "rcm", .context = test_context()};
    X.assign(X.size(), 0.0);
    const MultiSolveResult all = multi_solve(one.csr, {B.data(), n, k, n}, {X.data(), n, k, n}, settings);
    ASSERT_TRUE(all.converged());
    EXPECT_EQ(all.order, "rcm");
    for (std::int64_t j = 0; j < k; ++j) {
      x.assign(x.size(), 0.0);
      const SolveResult single = solve(one.csr, {B.data() + j * n, n}, {x.data(), n}, settings);
      EXPECT_NEAR(static_cast<double>(all.report.columns[static_cast<std::size_t>(j)].iterations),
                  static_cast<double>(single.report.iterations), 1.0);
      EXPECT_LE(all.report.columns[static_cast<std::size_t>(j)].true_relative, 1.01e-8);
    }
  }
}

}  // namespace
}  // namespace protean::test
