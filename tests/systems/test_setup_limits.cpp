// The setup of a preconditioner ends at max_seconds and when it is asked to. The clock and the request belong to the
// test, so that no result depends on the machine.
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/background.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/options.hpp"
#include "protean.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "systems/seconds.hpp"

namespace protean::test {
namespace {

// A clock that stands still until it has been read so often, and jumps far ahead then.
std::int64_t reads = 0, jump_at = 0;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
double jumping() { return ++reads > jump_at ? 2e6 : 0; }

class SetupLimits : public testing::Test {
 protected:
  void SetUp() override { jump_at = never, reads = 0, Stopwatch::other_clock = jumping; }
  void TearDown() override { Stopwatch::other_clock = nullptr; }
};

struct Problem {
  explicit Problem(const ContextPtr& where, double points = 12)
      : context(where),
        csr(generate(test_context(), "poisson-2d", {{"n", points}})),
        b(where, std::vector<double>(static_cast<std::size_t>(csr.rows()), 1.0)),
        guess(static_cast<std::size_t>(csr.rows()), 0.25) {}
  SolveSettings settings(std::string_view id, std::string_view method = "cg") const {
    SolveSettings made{.method = std::string(method),
                       .preconditioner = std::string(id),
                       .format = "csr",
                       .context = context};
    made.solver.stopping.max_seconds = 1e6;
    return made;
  }
  // In the memory of a simulated device the matrix has the format of the tests.
  std::unique_ptr<LinearSystem<double>> system(SolveSettings made) const {
    if (context->space() == Space::host) return std::make_unique<LinearSystem<double>>(csr, std::move(made));
    made.format = "auto";
    std::shared_ptr<LinearOperator<double>> A =
        make_matrix(fake_format("csr"), upload(context, csr), context);
    return std::make_unique<LinearSystem<double>>(std::move(A), std::move(made));
  }
  SolveResult solve(LinearSystem<double>& system) {
    Placed<double> of(context, guess);
    const SolveResult result = system.solve(b.read(), of.view());
    x = of.fetch();
    return result;
  }
  ContextPtr context;
  CsrMatrix<double> csr;
  Placed<double> b;
  std::vector<double> guess, x;
};

// The setup is ended at each moment at which it can be, one after another. The solve says so, x is the guess, and the
// next solve equals the solve of a new system, bit for bit.
TEST_F(SetupLimits, EndAtEachMomentAndTheNextSolveIsANewOne) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    Problem one(context);
    for (const PreconditionerEntry& entry : preconditioners()) {
      if (!entry.unavailable.empty() || entry.id == "none" || entry.id == "auto") continue;
      SCOPED_TRACE(std::string(entry.id) + (context->space() == Space::host ? "" : " on a device"));
      const SolveSettings settings = one.settings(entry.id, "gmres");
      jump_at = never;
      ASSERT_TRUE(one.solve(*one.system(settings)).report.converged());
      const std::vector<double> expected = one.x;
      int ended = 0;
      for (std::int64_t at = 0;; ++at) {
        const auto made = one.system(settings);
        LinearSystem<double>& system = *made;
        reads = 0, jump_at = at;
        const SolveResult result = one.solve(system);
        const bool all = reads <= at;
        const SolveReport& report = result.report;
        if (!report.converged()) {
          ++ended;
          EXPECT_EQ(report.reason, StopReason::time_limit);
          EXPECT_EQ(report.iterations, 0);
          EXPECT_EQ(one.x, one.guess);
          EXPECT_GT(report.true_residual, 0);
          EXPECT_GE(result.setup_seconds, 1e6);
          EXPECT_NE(report.detail.find("setup of preconditioner"), std::string::npos) << report.detail;
          EXPECT_NE(report.advice.find("max_seconds"), std::string::npos) << report.advice;
          jump_at = never, reads = 0;
          EXPECT_TRUE(one.solve(system).report.converged());
        }
        EXPECT_EQ(one.x, expected) << "after an end at " << at;
        if (all) break;
      }
      EXPECT_GT(ended, 0);
    }
  }
}

// As Ctrl-C does; also with several columns, and if the program calls set_up() itself.
TEST_F(SetupLimits, ARequestEndsASetup) {
  Stopwatch::other_clock = nullptr;
  Problem one(test_context());
  SolveSettings settings = one.settings("ic0");
  settings.solver.stopping.max_seconds = std::numeric_limits<double>::infinity();
  LinearSystem<double> fresh(one.csr, settings);
  ASSERT_TRUE(one.solve(fresh).report.converged());
  const std::vector<double> expected = one.x;
  int asked = 0, stop_at = 3;
  const detail::StopQuestion question([&] { return ++asked >= stop_at; });
  for (const bool before : {false, true}) {
    asked = 0, stop_at = 3;
    LinearSystem<double> system(one.csr, settings);
    if (before) system.set_up();
    const SolveResult result = one.solve(system);
    EXPECT_EQ(result.report.reason, StopReason::interrupted);
    EXPECT_EQ(result.report.iterations, 0);
    EXPECT_EQ(one.x, one.guess);
    EXPECT_NE(result.report.advice.find("before its first iteration"), std::string::npos)
        << result.report.advice;
    EXPECT_EQ(asked, stop_at) << "once it has been asked to end, nothing more is done";
    stop_at = std::numeric_limits<int>::max();
    EXPECT_TRUE(one.solve(system).report.converged());
    EXPECT_EQ(one.x, expected);
    // New values, with the old preconditioner in place.
    system.update_values(one.csr.values);
    asked = 0, stop_at = 1;
    EXPECT_EQ(one.solve(system).report.reason, StopReason::interrupted);
    stop_at = std::numeric_limits<int>::max();
    EXPECT_TRUE(one.solve(system).report.converged());
    EXPECT_EQ(one.x, expected);
  }
  const std::int64_t n = one.csr.rows();
  std::vector<double> B(static_cast<std::size_t>(3 * n), 1.0), X(B.size(), 0.25);
  LinearSystem<double> system(one.csr, settings);
  const auto columns = [&] {
    return system
        .multi_solve({B.data(), n, 3, n, VectorLayout::columns, Space::host},
                     {X.data(), n, 3, n, VectorLayout::columns, Space::host})
        .report;
  };
  asked = 0, stop_at = 2;
  for (const SolveReport& column : columns().columns) {
    EXPECT_EQ(column.reason, StopReason::interrupted);
    EXPECT_EQ(column.iterations, 0);
  }
  EXPECT_EQ(X, std::vector<double>(B.size(), 0.25));
  stop_at = std::numeric_limits<int>::max();
  for (const SolveReport& column : columns().columns) EXPECT_TRUE(column.converged());
}

TEST_F(SetupLimits, SeveralColumnsEndInTheSetup) {
  Problem one(test_context());
  const std::int64_t n = one.csr.rows();
  std::vector<double> B(static_cast<std::size_t>(2 * n), 1.0), X(B.size(), 0.25);
  LinearSystem<double> system(one.csr, one.settings("ic0"));
  const auto columns = [&] {
    return system
        .multi_solve({B.data(), n, 2, n, VectorLayout::columns, Space::host},
                     {X.data(), n, 2, n, VectorLayout::columns, Space::host})
        .report;
  };
  int ended = 0;
  for (std::int64_t at = 0; at < 40; ++at) {
    system.update_values(one.csr.values);
    X.assign(X.size(), 0.25);
    reads = 0, jump_at = at;
    const MultiSolveReport report = columns();
    if (report.columns[0].converged()) continue;
    ++ended;
    for (const SolveReport& column : report.columns) {
      EXPECT_EQ(column.reason, StopReason::time_limit);
      EXPECT_EQ(column.iterations, 0);
      EXPECT_NE(column.detail.find("setup of preconditioner ic0"), std::string::npos) << column.detail;
    }
    EXPECT_EQ(X, std::vector<double>(X.size(), 0.25));
  }
  EXPECT_GT(ended, 0);
  reads = 0, jump_at = never;
  for (const SolveReport& column : columns().columns) EXPECT_TRUE(column.converged());
}

// A candidate of type auto whose setup takes all the time is not tried again.
TEST_F(SetupLimits, AutoDoesNotTryAgainWhatTakesAllTheTime) {
  Problem one(test_context(), 30);
  SolveSettings settings = one.settings("auto");
  settings.solver.stopping.max_iterations = 3;  // jacobi does not solve it, so the others are tried
  LinearSystem<double> system(one.csr, settings);
  EXPECT_EQ(one.solve(system).preconditioner, "jacobi");
  std::vector<std::string> refused;
  // At the first moment that belongs to a setup, and later: before that the jump has no effect.
  std::int64_t at = 0, first = 0;
  for (int turn = 0; refused.size() < 2 && turn < 1000; ++turn) {
    system.update_values(one.csr.values);
    reads = 0, jump_at = ++at;
    const SolveResult result = one.solve(system);
    if (result.report.reason != StopReason::time_limit) continue;
    if (first == 0) first = at;
    // "jacobi: ic0 was refused: its setup took all of max_seconds"
    const std::string& why = result.preconditioner_reason;
    const std::size_t end = why.find(" was refused");
    if (end == std::string::npos) continue;
    const std::string name = why.substr(why.find(": ") + 2, end - why.find(": ") - 2);
    if (!refused.empty() && refused.back() == name) continue;
    refused.push_back(name), at = first - 1;
  }
  EXPECT_EQ((std::set<std::string>(refused.begin(), refused.end())), (std::set<std::string>{"amg", "ic0"}));
  system.update_values(one.csr.values);
  jump_at = never;
  const SolveResult last = one.solve(system);
  EXPECT_EQ(last.report.reason, StopReason::max_iterations);
  EXPECT_EQ(last.preconditioner, "jacobi");
  EXPECT_NE(last.preconditioner_reason.find("its setup took all of max_seconds"), std::string::npos)
      << last.preconditioner_reason;
}

// A limit that is not reached changes nothing, and a setup that is asked about costs no result.
TEST_F(SetupLimits, AreNothingWhereTheyAreNotReached) {
  Problem one(test_context());
  SolveSettings with = one.settings("amg"), without = with;
  without.solver.stopping.max_seconds = std::numeric_limits<double>::infinity();
  LinearSystem<double> limited(one.csr, with), plain(one.csr, without);
  const SolveResult a = one.solve(limited);
  const std::vector<double> x = one.x;
  const SolveResult b = one.solve(plain);
  EXPECT_EQ(x, one.x);
  EXPECT_EQ(a.report.iterations, b.report.iterations);
}

}  // namespace
}  // namespace protean::test
