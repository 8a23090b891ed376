// solve() and multi_solve() in an order of the rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/parallel.hpp"
#include "formats/selectors/selector.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/changing_values.hpp"
#include "systems/one_call.hpp"

namespace protean::test {
namespace {

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
  // From an order before the solve, back to it, and to the order of the program.
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
                                  .policy = "auto",
                                  .machine = &table,
                                  .policy_options = {.worst_factor = 10},
                                  .context = Context::host(1),
                                  .overlapped = false});
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
  const RowsReversed reversed(sorted);
  one.csr = reversed.csr;
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
