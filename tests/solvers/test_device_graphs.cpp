// Graphs that a solver keeps for the next solve. It uses them again while nothing has changed, and records
// new ones after a change. The results must always equal the results of a new solver.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "solvers/device_kernels.hpp"
#endif

namespace protean::test {
namespace {

class DeviceGraphs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = test_context(Space::device);
    options_.stopping.relative_tolerance = 1e-9;
    options_.device_steps = "graph";
    solver_ = make_solver<double>(GetParam(), options_);
  }

  CsrMatrix<double> matrix(int n) const {
    return placed(context_, generate(test_context(), "poisson-2d", {{"n", double(n)}}));
  }

  // Solves from x = 0 with the kept solver and with a new one. Both must give the same bits. Returns the
  // report of the kept solver.
  SolveReport solve(const AssembledMatrix<double>& A, Placed<double>& b, Placed<double>& x,
                    bool jacobi = true) {
    const auto M = make_preconditioner<double>(jacobi ? "jacobi" : "none", A);
    if (M) M->ensure(A);
    fill<double>(*context_, 0.0, x.view());
    const SolveReport report = solver_->solve(A, b.read(), x.view(), M.get());
    Placed<double> again(context_, std::vector<double>(static_cast<std::size_t>(A.rows()), 0.0));
    const SolveReport fresh =
        make_solver<double>(GetParam(), options_)->solve(A, b.read(), again.view(), M.get());
    EXPECT_EQ(report.reason, fresh.reason);
    EXPECT_EQ(report.iterations, fresh.iterations);
    EXPECT_EQ(x.fetch(), again.fetch());
    return report;
  }

  static std::vector<double> ramp(std::int64_t n, double first) {
    std::vector<double> v(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) v[i] = first + 0.5 * static_cast<double>(i % 11);
    return v;
  }

  ContextPtr context_;
  SolverOptions options_;
  std::unique_ptr<Solver<double>> solver_;
};

TEST_P(DeviceGraphs, SecondSolveRecordsNothing) {
  const auto csr = matrix(40);
  for (const char* format : {"csr", "sell-c-sigma", "coo"}) {
    const auto A = make_matrix(find_format(format), csr, context_);
    const auto M = make_preconditioner<double>("jacobi", *A);
    M->ensure(*A);
    Placed<double> b(context_, ramp(1600, 1)), other_b(context_, ramp(1600, -2)), x(context_, ramp(1600, 0));
    for (int round = 0; round < 4; ++round) {
      fill<double>(*context_, 0.0, x.view());
      const SolveReport report = solver_->solve(*A, (round < 2 ? b : other_b).read(), x.view(), M.get());
      EXPECT_TRUE(report.converged()) << format << report.detail;
      EXPECT_EQ(report.graphs_recorded, round == 0) << format << " round " << round;
      EXPECT_LE(report.graphs_made, report.graphs_recorded) << format;
    }
  }
}

// By default a solve of a few steps records nothing, and a long one does. All have the bits of steps in graphs.
TEST_P(DeviceGraphs, OnlyALongSolveRecordsByDefault) {
  const auto csr = matrix(60);
  const auto A = make_matrix(find_format("csr"), csr, context_);
  const Placed<double> b(context_, ramp(3600, 1));
  options_.device_steps = "auto", options_.stopping.relative_tolerance = 1e-13;
  // Steps of all kinds of vectors, and cg is not to run in one kernel.
  const auto M = make_preconditioner<double>("ssor", *A);
  M->ensure(*A);
  const auto solve_in = [&](Solver<double>& solver) {
    Placed<double> x(context_, ramp(3600, 0));
    const SolveReport report = solver.solve(*A, b.read(), x.view(), M.get());
    return std::pair(report, x.fetch());
  };
  for (const std::int64_t most : {1, 2, 3, 8, 15, 31, 33, 300}) {
    options_.stopping.max_iterations = most;
    const auto kept = make_solver<double>(GetParam(), options_);
    auto graphs = options_;
    graphs.device_steps = "graph";
    const auto [by_graphs, expected] = solve_in(*make_solver<double>(GetParam(), graphs));
    EXPECT_EQ(by_graphs.steps, "graph");
    for (int round = 0; round < 3; ++round) {
      const std::int64_t before = A->products();
      const auto [report, x] = solve_in(*kept);
      SCOPED_TRACE(std::to_string(most) + " iterations, round " + std::to_string(round));
      EXPECT_EQ(report.iterations, by_graphs.iterations);
      EXPECT_EQ(report.reason, by_graphs.reason);
      EXPECT_EQ(x, expected);
      EXPECT_GE(A->products() - before, report.iterations);
      if (most < 64) {
        EXPECT_EQ(report.graphs_recorded, 0);
        EXPECT_EQ(report.steps, "queued");
      }
    }
  }
  // Without M it is long enough.
  options_.stopping.max_iterations = 1000;
  const auto solver = make_solver<double>(GetParam(), options_);
  const auto B = make_matrix(find_format("coo"), csr, context_);
  Placed<double> x(context_, ramp(3600, 0));
  const SolveReport first = solver->solve(*B, b.read(), x.view());
  EXPECT_GE(first.iterations, std::string_view(GetParam()) == "gmres" ? 120 : 64);
  EXPECT_EQ(first.graphs_recorded, 1);
  EXPECT_EQ(first.steps, "graph");
  fill<double>(*context_, 0.0, x.view());
  EXPECT_EQ(solver->solve(*B, b.read(), x.view()).graphs_recorded, 0);
}

TEST_P(DeviceGraphs, WhatHasChangedIsRecordedAnew) {
  const auto csr = matrix(30);
  const auto A = make_matrix(find_format("csr"), csr, context_);
  const auto B = make_matrix(find_format("ell"), csr, context_);
  Placed<double> b(context_, ramp(900, 1)), other_b(context_, ramp(900, -2));
  Placed<double> x(context_, ramp(900, 0)), other_x(context_, ramp(900, 0));
  EXPECT_EQ(solve(*A, b, x).graphs_made, 1);
  EXPECT_TRUE(solve(*A, b, other_x).converged());
  EXPECT_TRUE(solve(*A, other_b, other_x).converged());
  EXPECT_EQ(solve(*B, b, x).graphs_recorded, 1);  // another format
  EXPECT_EQ(solve(*A, b, x).graphs_recorded, 1);  // and back
  EXPECT_EQ(solve(*A, b, x, false).graphs_recorded, 1) << "without a preconditioner";
  EXPECT_TRUE(solve(*A, b, x, true).converged());

  // With new values csr uses other arrays, whose addresses are part of a graph.
  auto changed = generate(test_context(), "poisson-2d", {{"n", 30}});
  std::vector<double> values(changed.values, changed.values + changed.nonzeros());
  for (double& value : values) value *= value > 0 ? 1.5 : 1.0;
  changed.values = values.data(), changed.values_owner = nullptr;
  A->update_values(placed(context_, changed));
  EXPECT_EQ(solve(*A, b, x).graphs_recorded, 1);
  B->update_values(placed(context_, changed));
  EXPECT_TRUE(solve(*B, b, x).converged());
}

// The observer sees what the last recording took, also while a later solve replays its graph.
TEST_P(DeviceGraphs, ARecordingIsMeasured) {
  struct Seen final : SolveObserver {
    std::vector<double> all;
    bool on_iteration(const IterationInfo& info) override {
      all.push_back(info.record_seconds);
      return true;
    }
  };
  const auto csr = matrix(40);
  const auto A = make_matrix(find_format("csr"), csr, context_);
  const auto B = make_matrix(find_format("ell"), csr, context_);
  Placed<double> b(context_, ramp(1600, 1)), x(context_, ramp(1600, 0));
  double last = 0;
  const auto run = [&](const LinearOperator<double>& of, Solver<double>& solver, std::int64_t recordings) {
    fill<double>(*context_, 0.0, x.view());
    Seen seen;
    const SolveReport report = solver.solve(of, b.read(), x.view(), nullptr, &seen);
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_EQ(report.graphs_recorded, recordings);
    ASSERT_GT(seen.all.size(), 2U);
    EXPECT_EQ(seen.all[0], last) << "of the last solve";
    for (std::size_t k = 2; k < seen.all.size(); ++k) EXPECT_EQ(seen.all[k], seen.all[1]) << k;
    EXPECT_EQ(seen.all.back() != last, recordings > 0);
    last = seen.all.back();
    if (recordings > 0) { EXPECT_LT(last, report.seconds); }
  };
  run(*A, *solver_, 1);
  EXPECT_GT(last, 0);
  run(*A, *solver_, 0);
  run(*B, *solver_, 1);
  EXPECT_GT(last, 0);
  // A product that cannot be recorded: the steps run by launches.
  const CallbackOperator<double> launched(
      context_, {1600, 1600}, ProductFunction<double>([&](const double* from, double* to, CUstream_st*) {
        A->apply({from, 1600, Space::device}, {to, 1600, Space::device});
      }));
  const auto another = make_solver<double>(GetParam(), options_);
  last = 0, run(launched, *another, 0);
  EXPECT_EQ(last, 0);
}

TEST_P(DeviceGraphs, OtherSizesBetween) {
  const auto small = matrix(12), large = matrix(33);
  const auto A = make_matrix(find_format("csr"), small, context_);
  const auto B = make_matrix(find_format("csr"), large, context_);
  Placed<double> b(context_, ramp(144, 1)), x(context_, ramp(144, 0));
  Placed<double> B_b(context_, ramp(1089, 1)), zero(context_, std::vector<double>(1089, 0.0)),
      B_x(context_, ramp(1089, 0));
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(solve(*A, b, x).converged());
    // This solve ends before its first step, but the vectors of the solver have moved.
    EXPECT_EQ(solve(*B, zero, B_x).reason, StopReason::zero_right_hand_side);
    EXPECT_TRUE(solve(*A, b, x).converged());
    EXPECT_TRUE(solve(*B, B_b, B_x).converged());
  }
}

// A solve that ends with an exception leaves queued work. The next solve must not be affected.
TEST_P(DeviceGraphs, AfterAnExceptionOfTheObserver) {
  struct Thrower final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) throw std::runtime_error("enough");
      return true;
    }
  } thrower;
  const auto csr = matrix(40);
  const auto A = make_matrix(find_format("csr"), csr, context_);
  Placed<double> b(context_, ramp(1600, 1)), x(context_, ramp(1600, 0));
  for (int round = 0; round < 3; ++round) {
    fill<double>(*context_, 0.0, x.view());
    EXPECT_THROW(solver_->solve(*A, b.read(), x.view(), nullptr, &thrower), std::runtime_error);
    EXPECT_TRUE(solve(*A, b, x).converged());
  }
}

#if defined(PROTEAN_HAVE_CUDA)
// Other threads of a program wait for the whole device when they like, which invalidates a recording, and they
// make and destroy contexts. Driver 580.159.04 may end the process then, by an access to address 0x298 in
// cuCtxSynchronize(): a program of 40 lines without this library, which waits in one thread and records kernels in
// another, shows it (docs/results/campaigns.md).
TEST_P(DeviceGraphs, BesideThreadsThatWaitForTheDevice) {
  const auto csr = matrix(12), other = matrix(13);
  const auto A = make_matrix(find_format("csr"), csr, context_);
  const auto B = make_matrix(find_format("csr"), other, context_);
  Placed<double> b(context_, ramp(144, 1)), x(context_, ramp(144, 0));
  Placed<double> B_b(context_, ramp(169, 1)), B_x(context_, ramp(169, 0));
  std::atomic<bool> end{false};
  std::atomic<int> refused{0};
  std::thread waiting([&] {
    while (!end) {
      refused += !wait_for_device();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::thread making([&] {
    while (!end) (void)Context::device();
  });
  const auto guard = std::unique_ptr<void, std::function<void(void*)>>(&end, [&](void*) {
    end = true;
    waiting.join(), making.join();
  });
  // Each solve records again; until a recording was disturbed.
  for (int round = 0; round < 20 || (refused == 0 && round < 400); ++round) {
    EXPECT_TRUE(solve(*A, b, x).converged());
    EXPECT_TRUE(solve(*B, B_b, B_x).converged());
  }
  EXPECT_GT(refused.load(), 0) << "no recording was disturbed";
}
#endif

// A solver that goes on to another context releases its memory of the first one, while another thread records a
// graph there.
TEST_P(DeviceGraphs, WhileASolverLeavesItsContext) {
  const auto other_context = Context::device();
  const auto csr = matrix(12), here = matrix(13);
  const auto A = make_matrix(find_format("csr"), csr, context_);
  const auto B = make_matrix(find_format("csr"), here, context_);
  const auto C =
      make_matrix(find_format("csr"),
                  upload(other_context, generate(test_context(), "poisson-2d", {{"n", 9.0}})), other_context);
  Placed<double> b(context_, ramp(144, 1)), x(context_, ramp(144, 0));
  Placed<double> B_b(context_, ramp(169, 1)), B_x(context_, ramp(169, 0));
  Placed<double> C_b(other_context, ramp(81, 1)), C_x(other_context, ramp(81, 0));
  for (int round = 0; round < 50; ++round) {
    const auto leaving = make_solver<double>(GetParam(), options_);
    fill<double>(*context_, 0.0, x.view());
    EXPECT_TRUE(leaving->solve(*A, b.read(), x.view()).converged());
    std::thread beside([&] {
      fill<double>(*other_context, 0.0, C_x.view());
      EXPECT_TRUE(leaving->solve(*C, C_b.read(), C_x.view()).converged());
    });
    fill<double>(*context_, 0.0, B_x.view());
    EXPECT_TRUE(make_solver<double>(GetParam(), options_)->solve(*B, B_b.read(), B_x.view()).converged());
    beside.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, DeviceGraphs, testing::Values("cg", "bicgstab", "gmres"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace protean::test
