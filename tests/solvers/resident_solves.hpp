// Solves by cg in one kernel that stays on the device, and in a graph.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "solvers/solver.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {

template <class T>
struct Outcome {
  SolveReport report;
  std::vector<T> x;
  std::vector<double> history;
};

class Watcher final : public SolveObserver {
 public:
  explicit Watcher(std::int64_t last = std::numeric_limits<std::int64_t>::max(), bool announced = false)
      : last_(last), announced_(announced) {}
  bool on_iteration(const IterationInfo& info) override {
    EXPECT_EQ(info.iteration, static_cast<std::int64_t>(residuals.size()));
    residuals.push_back(info.residual);
    return info.iteration < last_;
  }
  std::int64_t next_stop() const noexcept override {
    return announced_ ? last_ : std::numeric_limits<std::int64_t>::max();
  }
  std::vector<double> residuals;

 private:
  std::int64_t last_;
  bool announced_;
};

template <class T>
std::vector<T> wavy(std::int64_t n) {
  std::vector<T> b(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) b[i] = static_cast<T>(1 + 0.5 * static_cast<double>(i % 11));
  return b;
}

class Resident : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  }
  static ContextPtr context() { return test_context(Space::device); }

  struct Asked {
    std::string steps = "resident", format = "csr";
    bool jacobi = true;
    StoppingRule stopping = {};
    FormatParams params = {};
  };

  template <class T = double>
  static Outcome<T> solve(const CsrMatrix<T>& csr, const Asked& asked, const std::vector<T>* rhs = nullptr,
                          Watcher* given = nullptr) {
    const auto A = make_matrix(find_format(asked.format), placed(context(), csr), context(), asked.params);
    PreconditionerOptions options;
    if (asked.jacobi) options.zero_diagonal = ZeroDiagonal::one;
    const auto M = make_preconditioner<T>(asked.jacobi ? "jacobi" : "none", *A, options);
    if (M) M->ensure(*A);
    const Placed<T> b(context(), rhs ? *rhs : wavy<T>(csr.rows()));
    Placed<T> x(context(), std::vector<T>(static_cast<std::size_t>(csr.rows()), T(0)));
    Watcher watcher;
    SolverOptions solver_options;
    solver_options.stopping = asked.stopping, solver_options.device_steps = asked.steps;
    Outcome<T> outcome;
    outcome.report = make_solver<T>("cg", solver_options)
                         ->solve(*A, b.read(), x.view(), M.get(), given ? given : &watcher);
    EXPECT_EQ(outcome.report.steps, asked.steps) << outcome.report.steps_reason;
    outcome.x = x.fetch(), outcome.history = (given ? given : &watcher)->residuals;
    return outcome;
  }

  // Both ways, and the resident one twice.
  template <class T = double>
  static void expect_as_the_graph(const CsrMatrix<T>& csr, Asked asked, double x_tolerance,
                                  const std::string& what) {
    const Outcome<T> one = solve(csr, asked), again = solve(csr, asked);
    asked.steps = "graph";
    const Outcome<T> graph = solve(csr, asked);
    EXPECT_EQ(one.report.reason, StopReason::relative_tolerance) << what << ": " << one.report.detail;
    EXPECT_EQ(graph.report.reason, StopReason::relative_tolerance) << what << ": " << graph.report.detail;
    EXPECT_LE(one.report.true_relative, asked.stopping.relative_tolerance) << what;
    EXPECT_LE(std::abs(one.report.iterations - graph.report.iterations), 2 + graph.report.iterations / 100)
        << what;
    EXPECT_EQ(one.report.graphs_recorded, 0);
    EXPECT_EQ(one.history.size(), static_cast<std::size_t>(one.report.iterations) + 1) << what;
    const double eps = std::numeric_limits<T>::epsilon();
    for (std::size_t k = 0; k < std::min<std::size_t>({one.history.size(), graph.history.size(), 6}); ++k)
      EXPECT_NEAR(one.history[k], graph.history[k],
                  1e5 * eps * graph.history[k] + 1e4 * eps * graph.history[0])
          << what << " step " << k;
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < one.x.size(); ++i)
      difference = std::max<double>(difference, std::abs(one.x[i] - graph.x[i])),
      size = std::max<double>(size, std::abs(graph.x[i]));
    EXPECT_LE(difference, x_tolerance * size) << what;
    EXPECT_EQ(one.x, again.x) << what;
    EXPECT_EQ(one.history, again.history) << what;
  }

  static std::string refusal(const CsrMatrix<double>& csr, const Asked& asked) {
    return message_of<BadArgument>([&] { (void)solve(csr, asked); });
  }
};

}  // namespace protean::test
