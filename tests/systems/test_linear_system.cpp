// A kept system: what it remembers, what it makes anew, and that it solves as a fresh one does.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/policy_clock.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/changing_values.hpp"

namespace protean::test {
namespace {

TEST(LinearSystem, KeepsFormatAndOrderOverNewValues) {
  Sequence one;
  LinearSystem<double> system(one.csr, {.preconditioner = "ic0",
                                        .format = "sell-c-sigma",
                                        .parameters = {{"C", "4"}},
                                        .order = "rcm",
                                        .context = test_context()});
  const LinearOperator<double>* before = nullptr;
  for (int step = 0; step < 5; ++step) {
    const SolveResult result = one.solve(system);
    ASSERT_TRUE(result.converged()) << result.report.detail;
    EXPECT_LE(one.residual(), 1.01e-8) << step;
    EXPECT_EQ(result.format, "sell-c-sigma");
    EXPECT_EQ(result.order, "rcm");
    if (before) {
      EXPECT_EQ(before, &system.A()) << "the matrix was made again";
      EXPECT_EQ(result.order_seconds, 0);
      EXPECT_EQ(result.convert_seconds, 0);
    } else {
      EXPECT_GT(result.order_seconds, 0);
    }
    before = &system.A();
    // What a fresh system does with these values.
    Sequence other = one;
    LinearSystem<double> fresh(other.current(), system.settings());
    EXPECT_EQ(other.solve(fresh).report.iterations, result.report.iterations) << step;
    EXPECT_EQ(other.x, one.x) << step;
    one.change(1.1);
    system.update_values(one.values.data());
  }
}

// Any sequence of calls ends as a fresh system of these settings and values does.
class AnySequence : public testing::TestWithParam<Space> {};
TEST_P(AnySequence, OfCallsIsAsAFreshSystem) {
  const char* const formats[] = {"csr", "ell", "sell-c-sigma", "bcsr", "dia", "auto"};
  const char* const orders[] = {"none", "rcm", "length", "auto"};
  const char* const methods[] = {"cg", "bicgstab", "gmres", "minres", "idr"};
  const char* const preconditioners[] = {"none", "jacobi", "ic0", "ssor"};
  const ContextPtr context = test_context(GetParam());
  if (!context) GTEST_SKIP() << "no device: this machine has no GPU";
  for (const unsigned seed : {3u, 5u, 7u}) {
    std::mt19937 random(seed);
    const auto pick = [&](const auto& from) { return from[random() % std::size(from)]; };
    Sequence one(24);
    SolveSettings settings{.preconditioner = "jacobi", .format = "csr", .context = context};
    LinearSystem<double> system(one.csr, settings);
    // b and x in the memory of the solve.
    const auto run = [&](LinearSystem<double>& with, std::vector<double>& x) {
      const Placed<double> b(context, one.b);
      Placed<double> there(context, x);
      const SolveResult result = with.solve(b.read(), there.view());
      x = there.fetch();
      return result;
    };
    int solves = 0;
    for (int step = 0; step < 120; ++step) {
      const bool plain = settings.schedule.empty() && settings.policy != "auto";
      switch (random() % 8) {
        case 0:
          settings.format = pick(formats);
          break;
        case 1:
          settings.order = pick(orders);
          break;
        case 2:
          settings.method = pick(methods);
          break;
        case 3:
          settings.preconditioner = pick(preconditioners);
          break;
        case 4:
          one.values.assign(one.csr.values, one.csr.values + one.csr.nonzeros());
          one.change(1 + 0.01 * static_cast<double>(random() % 30));
          system.update_values(one.values.data());
          break;
        case 5: {
          settings.schedule.clear(), settings.policy = "by-format";
          if (random() % 3 == 0) settings.policy = "auto";
          if (random() % 3 == 0 && settings.policy != "auto") {
            FormatSpec spec{.entry = &find_format("ell")};
            spec.order = pick(orders);
            if (spec.order == "auto") spec.order.clear();
            settings.schedule = {{.at = 3, .to = spec, .overlapped = false}};
          }
          break;
        }
        default: {
          system.set(settings);
          one.x.assign(one.x.size(), 0.0);
          Sequence other = one;
          LinearSystem<double> fresh(other.current(), settings);
          other.x.assign(other.x.size(), 0.0);
          // What the matrix does not allow, both refuse.
          const auto refused = [&](LinearSystem<double>& by, std::vector<double>& x) {
            try {
              (void)run(by, x);
            } catch (const FormatRefused&) { return true; }
            return false;
          };
          if (refused(fresh, other.x)) {
            ASSERT_TRUE(refused(system, one.x)) << step;
            settings.format = "csr";
            break;
          }
          const SolveResult kept = run(system, one.x);
          ASSERT_TRUE(kept.converged()) << step << ": " << kept.report.detail;
          ASSERT_LE(one.residual(), 1.02e-8) << step;
          other.x.assign(other.x.size(), 0.0);
          const SolveResult anew = run(fresh, other.x);
          // A format or an order that the policy or a schedule has left, or that "auto" chose before, rounds
          // differently.
          EXPECT_NEAR(static_cast<double>(kept.report.iterations),
                      static_cast<double>(anew.report.iterations),
                      plain ? 1 + 0.1 * static_cast<double>(anew.report.iterations) : 30)
              << step;
          ++solves;
        }
      }
    }
    EXPECT_GT(solves, 15);
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, AnySequence, testing::Values(Space::host, Space::device),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST(LinearSystem, RemembersWhatThePolicyHasLearnt) {
  Sequence one(200);
  const MachineTable table = promise(one, "ell");
  LinearSystem<double> system(one.csr, {.preconditioner = "jacobi",
                                        .policy = "auto",
                                        .machine = &table,
                                        .context = Context::host(1),
                                        .overlapped = false});
  system.set_up();
  const PolicyClock clock(*system.matrix().adaptive(), table);
  const SolveResult first = one.solve(system);
  ASSERT_TRUE(first.converged());
  ASSERT_EQ(first.switches.size(), 1u) << (first.decisions.empty() ? "" : first.decisions.back().reason);
  EXPECT_EQ(first.format, "ell");
  for (int step = 0; step < 14; ++step) {
    one.change(1.001);
    system.update_values(one.values.data());
    const SolveResult next = one.solve(system);
    ASSERT_TRUE(next.converged());
    EXPECT_LE(one.residual(), 1.01e-8);
    EXPECT_EQ(next.convert_seconds, 0);
    // It begins in the format of the last solve, and stays in it.
    EXPECT_EQ(next.format, "ell");
    EXPECT_TRUE(next.switches.empty());
  }
}

// A solve alone is too short for a change; a sequence is not. The account grows over the solves, and so does what is
// expected: as many solves as there were.
TEST(LinearSystem, ASequenceOfShortSolvesPaysForAChange) {
  Sequence one(120);
  MachineTable table = promise(one, "ell");
  // A conversion as long as 40 products, in solves of about 25 iterations.
  table.matrices[0].formats[1].convert_seconds = 40e-3;
  const SolveSettings settings{.solver = {.stopping = {.relative_tolerance = 1e-2}},
                               .preconditioner = "jacobi",
                               .policy = "auto",
                               .machine = &table,
                               .context = Context::host(1),
                               .overlapped = false};
  one.change(1.02);
  LinearSystem<double> system(one.current(), settings);
  system.set_up();
  const PolicyClock clock(*system.matrix().adaptive(), table);
  const SolveResult first = one.solve(system);
  ASSERT_TRUE(first.converged());
  EXPECT_TRUE(first.switches.empty());
  EXPECT_LE(first.report.iterations, 40);
  int changed_at = -1;
  std::string last;
  for (int step = 1; step < 60 && changed_at < 0; ++step) {
    system.update_values(one.values.data());
    const SolveResult next = one.solve(system);
    ASSERT_TRUE(next.converged());
    if (!next.switches.empty()) changed_at = step;
    for (const DecisionRecord& one_of : next.decisions)
      last = fmt::format("{}: iteration {}, {}", step, one_of.iteration, one_of.reason);
  }
  EXPECT_GT(changed_at, 0) << "sixty solves with one matrix never paid for a conversion of 40 products; "
                           << last;
}

TEST(LinearSystem, LagsThePreconditioner) {
  Sequence one(20);
  for (const Refresh refresh : {Refresh::automatic, Refresh::every, Refresh::never}) {
    int setups = 0;
    SolveSettings settings{.preconditioning = {.refresh = refresh}, .context = test_context()};
    LinearSystem<double> system(one.current(), settings);
    system.solver().set_preconditioner(
        [&](const LinearOperator<double>& A) -> std::unique_ptr<Preconditioner<double>> {
          return std::make_unique<CallbackPreconditioner<double>>(
              A.context(), A.shape(),
              [n = one.n](const double* r, double* z, CUstream_st*) { std::copy(r, r + n, z); },
              [&](const LinearOperator<double>&, bool) { ++setups; }, CallbackOptions{"counted", false});
        });
    for (int step = 0; step < 9; ++step) {
      ASSERT_TRUE(one.solve(system).converged());
      ASSERT_TRUE(one.solve(system).converged()) << "with another right-hand side nothing is set up";
      one.change(1.0001);
      system.update_values(one.values.data());
    }
    EXPECT_EQ(setups, refresh == Refresh::never ? 1 : 9) << to_string(refresh);
  }
}

// An old preconditioner that has become bad is made anew, whatever the lag is.
TEST(LinearSystem, APreconditionerThatIsTooOldIsSetUpAgain) {
  Sequence one(60);
  LinearSystem<double> system(
      one.csr,
      {.preconditioner = "ic0", .preconditioning = {.refresh = Refresh::never}, .context = test_context()});
  const std::int64_t good = one.solve(system).report.iterations;
  // Every second unknown is scaled by 1e4: the old factors do not fit at all.
  for (std::int64_t r = 0; r < one.n; ++r)
    for (std::int64_t k = one.csr.pattern.row_ptr[r]; k < one.csr.pattern.row_ptr[r + 1]; ++k)
      one.values[static_cast<std::size_t>(k)] *= (r % 2 ? 100 : 1) * (one.csr.pattern.col[k] % 2 ? 100 : 1);
  system.update_values(one.values.data());
  const std::int64_t bad = one.solve(system).report.iterations;
  EXPECT_GT(bad, 2 * good) << "the test shows nothing";
  EXPECT_LE(one.solve(system).report.iterations, good + good / 2) << "set up again for the solve after it";
}

// New element matrices take the solve back to these; the change that paid in the last solve is made at once in the
// next.
TEST(LinearSystem, ElementMatricesAreSolvedAgainAndAgain) {
  constexpr int side = 100, nodes = (side + 1) * (side + 1), count = side * side;
  std::vector<std::int32_t> connectivity;
  for (int j = 0; j < side; ++j)
    for (int i = 0; i < side; ++i) {
      const int at = j * (side + 1) + i;
      for (const int node : {at, at + 1, at + side + 2, at + side + 1}) connectivity.push_back(node);
    }
  // Bilinear quadrilaterals of the Laplacian, and a little of the identity.
  const double laplace[4] = {4.0 / 6, -1.0 / 6, -2.0 / 6, -1.0 / 6};
  std::vector<double> matrices;
  const auto fill = [&](double factor) {
    matrices.clear();
    for (int e = 0; e < count; ++e)
      for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
          matrices.push_back(factor * laplace[(b - a + 4) % 4] + (a == b ? 1e-6 : 0));
  };
  fill(1);
  const auto context = Context::host(1);
  const auto group = [&] { return ElementGroup<double>{count, 4, connectivity, matrices}; };
  const ElementGroup<double> groups[] = {group()};
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     nodes,
                     9L * nodes,
                     {{"lma-atomic", 16L * 8 * count, 1e-3, 0},
                      {"csr", 9L * 12 * nodes, 6e-4, 0},
                      {"ell", 9L * 12 * nodes, 1e-4, 1e-4},
                      {"assembly", 9L * 12 * nodes, 6e-4, 1e-3}}}};
  LinearSystem<double> system(
      make_element_operator<double>(context, nodes, groups, {}),
      {.preconditioner = "jacobi", .policy = "auto", .machine = &table, .overlapped = false});
  system.set_up();
  const PolicyClock clock(*system.matrix().adaptive(), table);
  const std::vector<double> b = sample_vector<double>(nodes, 3);
  std::vector<double> x(b.size());
  int changes = 0;
  for (int step = 0; step < 15; ++step) {
    x.assign(x.size(), 0.0);
    const SolveResult result = system.solve({b.data(), nodes}, {x.data(), nodes});
    ASSERT_TRUE(result.converged()) << step;
    changes += !result.switches.empty();
    if (step == 0) {
      ASSERT_FALSE(result.switches.empty())
          << (result.decisions.empty() ? "" : result.decisions.back().reason);
    }
    fill(1 + 0.01 * (step + 1));
    const ElementGroup<double> next[] = {{count, 4, {}, matrices}};
    system.update_values(next);
    EXPECT_EQ(system.A().name(), "lma-atomic");
  }
  EXPECT_EQ(changes, 15);
}

TEST(LinearSystem, OperatorsOfTheCallerAreSolvedToo) {
  const std::int64_t n = 50;
  auto A = std::make_shared<CallbackOperator<double>>(
      test_context(), Shape{n, n},
      [n](const double* x, double* y, CUstream_st*) {
        for (std::int64_t i = 0; i < n; ++i)
          y[i] = 2.5 * x[i] - (i > 0 ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0);
      },
      CallbackOptions{"tridiagonal", false});
  LinearSystem<double> system(A);
  std::vector<double> b(static_cast<std::size_t>(n), 1.0), x(b.size(), 0.0);
  const SolveResult result = system.solve({b.data(), n}, {x.data(), n});
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.format, "tridiagonal");
  EXPECT_TRUE(has(message_of<BadArgument>([&] { LinearSystem<double> other(A, {.format = "ell"}); }),
                  "operator tridiagonal is functions of the caller"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    LinearSystem<double> other(A, {.policy = "auto"});
                    (void)other.solve({b.data(), n}, {x.data(), n});
                  }),
                  "solve without policy and schedule"));
}

// A solve has changed the format of "auto": another order of the rows is taken in that format.
TEST(LinearSystem, AnotherOrderKeepsTheFormatThatASolveChangedTo) {
  Sequence one(30);
  SolveSettings settings{.context = test_context()};
  settings.schedule = {{.at = 3, .to = {&find_format("ell")}, .overlapped = false}};
  LinearSystem<double> system(one.csr, settings);
  ASSERT_EQ(one.solve(system).format, "ell");
  settings.schedule = {}, settings.order = "rcm";
  system.set(settings);
  const SolveResult result = one.solve(system);
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.order, "rcm");
  EXPECT_EQ(result.format, "ell");
}

}  // namespace
}  // namespace protean::test
