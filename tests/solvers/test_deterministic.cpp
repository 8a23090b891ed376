// Deterministic mode: a solve gives the same bits in every format and with any number of threads. Without
// that mode BiCGStab on these matrices gives different ones.
#include <algorithm>
#include <cstdio>
#include <string>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"
#include "support/engines.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Outcome {
  StopReason reason;
  std::int64_t iterations;
  double recurrence, true_residual;
  std::vector<double> x;
};

Outcome solve(const ContextPtr& context, const AssembledMatrix<double>& A, const char* method,
              double tolerance, const std::vector<double>& rhs, std::int64_t most_iterations = 3000) {
  const auto M = make_preconditioner<double>("jacobi", A);
  M->ensure(A);
  SolverOptions options;
  options.stopping.relative_tolerance = tolerance;
  options.stopping.max_iterations = most_iterations;
  options.restart = 40;
  const Placed<double> b(context, rhs);
  Placed<double> x(context, std::vector<double>(rhs.size(), 0.0));
  const SolveReport report =
      make_solver<double>(method, options_read_by(method, options))->solve(A, b.read(), x.view(), M.get());
  return {report.reason, report.iterations, report.recurrence_residual, report.true_residual, x.fetch()};
}

struct Case {
  const char *matrix, *method;
  double tolerance;
};

class DeterministicSolve : public testing::TestWithParam<Case> {};

CsrMatrix<double> shipped(const std::string& name) {
  return read_matrix(test_context(),
                     std::string(PROTEAN_SOURCE_DIR "/problems/matrices/") + name + ".mtx.xz");
}

std::string label(const testing::TestParamInfo<Case>& instance) {
  return std::string(instance.param.matrix) + "_" + instance.param.method;
}
const auto cases = testing::Values(Case{"sherman4", "bicgstab", 1e-10}, Case{"add20", "bicgstab", 1e-10},
                                   Case{"add20", "gmres", 1e-8}, Case{"sherman4", "gmres", 1e-6},
                                   Case{"bcsstk16", "cg", 1e-10});

TEST_P(DeterministicSolve, SameStepsInEveryFormatAndWithAnyNumberOfThreads) {
  const auto csr = shipped(GetParam().matrix);
  const std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0);
  int solves = 0;
  Outcome first{}, first_short{};
  const std::vector<const FormatEntry*> of_engines = one_of_each_engine(Space::host);
  for (const FormatEntry* format : layouts())
    for (const Kernel& kernel : format->kernels) {
      if (!kernel.unavailable.empty() || !kernel.ordered) continue;
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(std::string(format->id) + ", threads " + std::to_string(threads));
        const ContextPtr context = Context::host(threads, {.deterministic = true});
        std::unique_ptr<AssembledMatrix<double>> A;
        try {
          A = make_matrix(*format, csr, context, {}, kernel.name);
        } catch (const FormatRefused&) { continue; }
        const auto expect_same = [&solves](const Outcome& outcome, Outcome& as) {
          if (solves == 0) as = outcome;
          EXPECT_EQ(outcome.iterations, as.iterations);
          EXPECT_EQ(outcome.recurrence, as.recurrence);
          EXPECT_EQ(outcome.true_residual, as.true_residual);
          EXPECT_EQ(outcome.x, as.x);
        };
        expect_same(solve(context, *A, GetParam().method, GetParam().tolerance, b, 40), first_short);
        // One bit of one product is seen in x from that iteration on, so 40 iterations distinguish formats. One format
        // of each engine goes on to the tolerance.
        if (std::find(of_engines.begin(), of_engines.end(), format) != of_engines.end()) {
          const Outcome outcome = solve(context, *A, GetParam().method, GetParam().tolerance, b);
          EXPECT_TRUE(converged(outcome.reason)) << to_string(outcome.reason);
          expect_same(outcome, first);
        }
        ++solves;
      }
    }
  EXPECT_GE(solves, 14);
}

// On a device the formats differ by rounding, but each gives the same bits in two runs.
TEST_P(DeterministicSolve, SameBitsInTwoRunsOnADevice) {
  if (Context::device_count() == 0) GTEST_SKIP() << no_device;
  const auto csr = shipped(GetParam().matrix);
  const std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0);
  int solves = 0;
  for (const FormatEntry* format : layouts())
    for (const Kernel& kernel : kernels_in(*format, Space::device)) {
      if (!kernel.unavailable.empty()) continue;
      SCOPED_TRACE(std::string(format->id) + " " + std::string(kernel.name));
      Outcome outcomes[2];
      bool refused = false;
      for (Outcome& outcome : outcomes) {
        // A new matrix each time, since the conversion must be deterministic, too.
        const ContextPtr context = Context::device(0, {.deterministic = true});
        std::unique_ptr<AssembledMatrix<double>> A;
        try {
          A = make_matrix(*format, upload(context, csr), context, {}, kernel.name);
        } catch (const FormatRefused& refusal) {
          refused = true;
          continue;
        }
        outcome = solve(context, *A, GetParam().method, GetParam().tolerance, b);
      }
      if (refused) continue;
      ++solves;
      std::printf("%s %s: %s %s, %lld iterations\n", GetParam().matrix, GetParam().method,
                  std::string(format->id).c_str(), std::string(kernel.name).c_str(),
                  static_cast<long long>(outcomes[0].iterations));
      EXPECT_TRUE(converged(outcomes[0].reason)) << to_string(outcomes[0].reason);
      EXPECT_EQ(outcomes[0].iterations, outcomes[1].iterations);
      EXPECT_EQ(outcomes[0].true_residual, outcomes[1].true_residual);
      EXPECT_EQ(outcomes[0].x, outcomes[1].x);
    }
  EXPECT_GE(solves, 6);
}

INSTANTIATE_TEST_SUITE_P(All, DeterministicSolve, cases, label);

}  // namespace
}  // namespace protean::test
