// When a kept system sets its preconditioner up again, and which one it takes for type auto. The clock counts work, so
// that no result depends on the machine.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "protean.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "systems/grown.hpp"
#include "systems/refresh.hpp"
#include "systems/seconds.hpp"

namespace protean::test {
namespace {

using detail::RefreshRule;

TEST(RefreshRule, EveryNeverAndWhenSlower) {
  RefreshRule rule;
  rule.note_setup(1.0);
  rule.note_solve(100, 1.0, true);
  for (const Refresh how : {Refresh::every, Refresh::when_slower, Refresh::never})
    EXPECT_FALSE(rule.due(how)) << "nothing has changed";
  rule.note_new_values();
  EXPECT_TRUE(rule.due(Refresh::every));
  EXPECT_FALSE(rule.due(Refresh::when_slower));
  EXPECT_FALSE(rule.due(Refresh::never));
  // 20, then 40 iterations of 10 ms are lost, and as many again: 0.2 + 0.4 + 0.4 s.
  rule.note_solve(120, 1.2, true);
  rule.note_solve(140, 1.4, true);
  EXPECT_FALSE(rule.due(Refresh::when_slower));
  rule.note_solve(140, 1.4, true);
  EXPECT_TRUE(rule.due(Refresh::when_slower));
  EXPECT_FALSE(rule.due(Refresh::never));
  rule.note_setup(1.0);
  EXPECT_FALSE(rule.due(Refresh::when_slower));
}

TEST(RefreshRule, TooOldAndFailedIsDueInAnyCase) {
  RefreshRule rule;
  rule.note_setup(100);
  rule.note_solve(50, 1, true), rule.note_new_values(), rule.note_solve(100, 2, true);
  EXPECT_FALSE(rule.due(Refresh::never));
  rule.note_solve(101, 2, true);
  EXPECT_TRUE(rule.due(Refresh::never)) << "more than twice the iterations";
  rule.note_setup(100);
  rule.note_solve(50, 1, false);
  EXPECT_FALSE(rule.due(Refresh::never)) << "a new one that fails is made no better by another setup";
  rule.note_new_values(), rule.note_solve(50, 1, false);
  EXPECT_TRUE(rule.due(Refresh::never));
}

// Seconds, counted: 1 for each application of the preconditioner below, 30 for a setup.
double work = 0;
double counted() { return work; }

class CountedWork : public testing::Test {
 protected:
  void SetUp() override { work = 0, Stopwatch::other_clock = counted; }
  void TearDown() override { Stopwatch::other_clock = nullptr; }
};

struct Values {
  explicit Values(double points)
      : csr(generate(test_context(), "poisson-2d", {{"n", points}})),
        values(csr.values, csr.values + csr.nonzeros()),
        b(static_cast<std::size_t>(csr.rows()), 1.0),
        x(b.size()) {}
  // D A D; D differs from I a little more in each step: old factors serve worse and worse.
  void change(double strength) {
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
        values[static_cast<std::size_t>(k)] =
            csr.values[k] * scale(r, strength) * scale(csr.pattern.col[k], strength);
  }
  static double scale(std::int64_t i, double strength) { return 1 + strength * static_cast<double>(i % 3); }
  SolveResult solve(LinearSystem<double>& system) {
    x.assign(x.size(), 0.0);
    return system.solve({b.data(), csr.rows()}, {x.data(), csr.rows()});
  }
  CsrMatrix<double> csr;
  std::vector<double> values, b, x;
};

TEST_F(CountedWork, WhenSlowerSetsUpSeldomAndLosesLittle) {
  // Solves and setups of each way, for values that change slowly.
  struct Counted {
    int setups = 0;
    double seconds = 0;
  };
  const auto run = [](Refresh refresh) {
    Counted counted;
    work = 0;
    Values one(40);
    LinearSystem<double> system(
        one.csr, {.preconditioning = {.refresh = refresh}, .format = "csr", .context = test_context()});
    std::unique_ptr<Preconditioner<double>> factors;
    system.solver().set_preconditioner(
        [&](const LinearOperator<double>& A) -> std::unique_ptr<Preconditioner<double>> {
          factors = make_preconditioner<double>("ic0", A);
          return std::make_unique<CallbackPreconditioner<double>>(
              A.context(), A.shape(),
              [&, n = A.rows()](const double* r, double* z, CUstream_st*) {
                work += 1;
                factors->apply(VectorView<const double>{r, n}, VectorView<double>{z, n});
              },
              [&](const LinearOperator<double>& B, bool) {
                ++counted.setups, work += 30;
                factors->ensure(B);
              },
              CallbackOptions{"counted", true});
        });
    for (int step = 0; step < 40; ++step) {
      EXPECT_TRUE(one.solve(system).converged()) << step;
      one.change(0.01 * step);
      system.update_values(one.values.data());
    }
    counted.seconds = work;
    return counted;
  };
  const Counted every = run(Refresh::every), seldom = run(Refresh::when_slower), never = run(Refresh::never);
  EXPECT_EQ(every.setups, 40);
  EXPECT_GT(seldom.setups, 1);
  EXPECT_LT(seldom.setups, 20);
  EXPECT_LT(seldom.seconds, every.seconds);
  EXPECT_LT(never.setups, seldom.setups);
}

// Smoothers with old diagonals make no positive definite M of entries that have grown: the solve goes on with a new
// one.
TEST(Refreshed, ASolveThatBreaksDownWithOldValuesGoesOnWithNewOnes) {
  Values one(40);
  LinearSystem<double> system(one.csr, {.preconditioner = "amg",
                                        .preconditioning = {.refresh = Refresh::never},
                                        .format = "csr",
                                        .context = test_context()});
  const SolveResult fresh = one.solve(system);
  ASSERT_TRUE(fresh.converged());
  for (double& value : one.values) value *= 10;
  system.update_values(one.values.data());
  const SolveResult grown = one.solve(system);
  EXPECT_TRUE(grown.converged()) << grown.report.detail;
  EXPECT_GE(grown.report.restarts, 1) << "the old one served, so this shows nothing";
  EXPECT_GT(grown.setup_seconds, 0);
  const SolveResult again = one.solve(system);
  EXPECT_EQ(again.report.iterations, fresh.report.iterations);
  EXPECT_EQ(again.report.restarts, 0);
}

TEST(AutoPreconditioner, TakesAnotherOneWhereThatPays) {
  Stopwatch::other_clock = products;  // a setup takes nothing, so that the candidates pay for it soon
  Values one(70);
  LinearSystem<double> system(
      one.csr, {.preconditioner = "auto", .format = "csr", .order = "none", .context = test_context()});
  system.set_up();
  counted_matrix = &system.A();
  std::vector<std::string> used;
  for (int step = 0; step < 60; ++step) {
    const SolveResult result = one.solve(system);
    ASSERT_TRUE(result.converged()) << step;
    EXPECT_FALSE(result.preconditioner_reason.empty());
    used.push_back(result.preconditioner);
    one.change(0.0001 * step);
    system.update_values(one.values.data());
  }
  Stopwatch::other_clock = nullptr, counted_matrix = nullptr;
  EXPECT_EQ(used.front(), "jacobi");
  // By this clock an application of ic0 costs nothing.
  EXPECT_EQ(used.back(), "ic0");
  EXPECT_EQ(system.solver().preconditioner()->name(), "auto");
}

TEST(AutoPreconditioner, IsJacobiWithoutAHistoryAndOnOneSolve) {
  Values one(30);
  SolveSettings settings{.preconditioner = "auto", .format = "csr", .context = test_context()};
  Stopwatch::other_clock = products;
  LinearSystem<double> system(one.csr, settings);
  system.set_up();
  counted_matrix = &system.A();
  const SolveResult alone = one.solve(system);
  Stopwatch::other_clock = nullptr, counted_matrix = nullptr;
  ASSERT_TRUE(alone.converged());
  EXPECT_EQ(alone.preconditioner, "jacobi");
  EXPECT_EQ(
      alone.preconditioner_reason,
      "jacobi, whose setup costs next to nothing; others are tried in long solves, and if the system is solved "
      "again");
  settings.preconditioner = "jacobi";
  std::vector<double> x(one.x.size(), 0.0);
  const SolveResult jacobi =
      solve<double>(one.csr, {one.b.data(), one.csr.rows()}, {x.data(), one.csr.rows()}, settings);
  EXPECT_EQ(jacobi.report.iterations, alone.report.iterations);
  // Of a constant diagonal jacobi is left out, so that x differs by rounding.
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], one.x[i], 1e-6 * std::abs(x[i]));
  EXPECT_EQ(jacobi.preconditioner, "jacobi");
  EXPECT_EQ(jacobi.preconditioner_reason, "");
}

// Information about the solves decides before the first one.
TEST(AutoPreconditioner, TakesWhatItIsTold) {
  Values one(20);
  LinearSystem<double> system(one.csr, {.preconditioner = "auto",
                                        .preconditioning = {.solves = 1000000},
                                        .format = "csr",
                                        .context = test_context(),
                                        .expected_iterations = 500});
  const SolveResult result = one.solve(system);
  EXPECT_TRUE(result.converged()) << result.report.detail;
  EXPECT_EQ(result.preconditioner, "amg");
  EXPECT_NE(result.preconditioner_reason.find("amg is tried: jacobi takes 500 iterations"), std::string::npos)
      << result.preconditioner_reason;
}

// An elastic body is no diffusion problem. Its rigid body modes, or others near the null space, make amg a candidate.
TEST(AutoPreconditioner, TakesMultigridWithVectorsNearTheNullSpace) {
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 6}});
  MultiVector<double> translations(test_context(), csr.rows(), 3);
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t k = 0; k < 3; ++k) translations.view()(i, k) = i % 3 == k ? 1 : 0;
  const std::vector<double> b = sample_vector<double>(csr.rows(), 3);
  for (const bool given : {false, true}) {
    SolveSettings settings;
    settings.preconditioner = "auto", settings.preconditioning.solves = 1000000;
    settings.preconditioning.unknowns = 3;
    if (given) settings.preconditioning.near_null_space = &translations;
    settings.format = "csr", settings.context = test_context(), settings.expected_iterations = 500;
    LinearSystem<double> system(csr, settings);
    std::vector<double> x(b.size(), 0.0);
    const SolveResult result = system.solve({b.data(), csr.rows()}, {x.data(), csr.rows()});
    EXPECT_TRUE(result.converged()) << result.report.detail;
    EXPECT_EQ(result.preconditioner == "amg", given) << result.preconditioner_reason;
  }
}

// Gives its entries once, to the rule, and refuses them to a setup.
class GivesEntriesOnce final : public LinearOperator<double>,
                               public HasDiagonal<double>,
                               public HasRows<double> {
 public:
  explicit GivesEntriesOnce(const CsrMatrix<double>& csr)
      : LinearOperator<double>(test_context(), {csr.rows(), csr.cols()}),
        csr_(csr),
        matrix_(make_matrix("csr", csr, test_context())) {}
  std::string_view name() const noexcept override { return "once"; }
  void diagonal(VectorView<double> d) const override { matrix_->abilities().diagonal->diagonal(d); }
  CsrMatrix<double> rows_as_csr() const override {
    if (asked_++ > 0) throw NotAvailable("the entries were given already");
    return csr_;
  }

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    matrix_->apply(alpha, x, beta, y);
  }

 private:
  CsrMatrix<double> csr_;
  std::unique_ptr<AssembledMatrix<double>> matrix_;
  mutable int asked_ = 0;
};

TEST(AutoPreconditioner, WhatACandidateRefusesIsSolvedWithJacobi) {
  Values one(20);
  LinearSystem<double> system(std::make_shared<GivesEntriesOnce>(one.csr),
                              {.preconditioner = "auto",
                               .preconditioning = {.solves = 1000000},
                               .context = test_context(),
                               .expected_iterations = 500});
  const SolveResult result = one.solve(system);
  EXPECT_TRUE(result.converged()) << result.report.detail;
  EXPECT_EQ(result.preconditioner, "jacobi");
  EXPECT_EQ(result.preconditioner_reason, "jacobi: amg was refused: the entries were given already");
}

}  // namespace
}  // namespace protean::test
