// Steps of cg in one kernel that stays on the device: the results of the graph, equal bits in two runs, and named
// refusals.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/resident_solves.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Storage {
  const char* format;
  FormatParams params;
};
const Storage storages[] = {{"csr", {}},
                            {"ell", {}},
                            {"sell-c-sigma", {{"sigma", "1"}}},
                            {"sell-c-sigma", {{"C", "8"}, {"sigma", "64"}}},
                            {"sell-c-sigma", {{"sigma", "256"}}},
                            {"hdi", {}},
                            {"dia", {}}};

TEST_F(Resident, AsTheGraphInEveryFormat) {
  const struct {
    const char* kind;
    GeneratorParams params;
    bool diagonals;
  } problems[] = {{"poisson-2d", {{"n", 61}}, true},
                  {"poisson-3d", {{"n", 24}}, true},
                  {"elasticity-3d", {{"n", 7}}, true},
                  {"graph-laplacian", {{"n", 3000}}, false}};
  for (const auto& problem : problems) {
    const auto csr = generate(test_context(), problem.kind, problem.params);
    for (const Storage& storage : storages) {
      if (!problem.diagonals &&
          (storage.format == std::string("dia") || storage.format == std::string("hdi")))
        continue;
      for (const bool jacobi : {true, false}) {
        Asked asked{.format = storage.format, .jacobi = jacobi, .params = storage.params};
        asked.stopping.relative_tolerance = 1e-9;
        if (std::string_view(storage.format).find("ell") != std::string_view::npos)
          asked.params.set("max_fill", std::int64_t{1000});
        expect_as_the_graph(csr, asked, 1e-5,
                            std::string(problem.kind) + " " + storage.format + (jacobi ? " jacobi" : ""));
      }
    }
  }
}

TEST_F(Resident, InSinglePrecision) {
  const auto csr = convert_values<float>(test_context(), generate(test_context(), "poisson-3d", {{"n", 20}}));
  for (const Storage& storage : storages) {
    Asked asked{.format = storage.format, .params = storage.params};
    asked.stopping.relative_tolerance = 1e-4;
    expect_as_the_graph<float>(csr, asked, 1e-2, storage.format);
  }
}

// Sizes around the sizes of warps, blocks and the device, rows of one to three entries.
TEST_F(Resident, AnyNumberOfRows) {
  for (const std::int64_t n : {1,   2,   3,   31,  32,  33,   63,   64,    65,    127,   128,
                               129, 255, 257, 511, 513, 1000, 4111, 16895, 16896, 16897, 33791}) {
    std::vector<Triplet<double>> entries;
    for (std::int32_t i = 0; i < n; ++i) {
      entries.push_back({i, i, 3.0 + static_cast<double>(i % 3)});
      if (i % 5 == 0 && i + 1 < n) entries.push_back({i, i + 1, -1.0}), entries.push_back({i + 1, i, -1.0});
    }
    const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
    Asked asked;
    asked.stopping.relative_tolerance = 1e-12;
    const Outcome<double> outcome = solve(csr, asked);
    ASSERT_TRUE(outcome.report.converged()) << n << " " << outcome.report.detail;
    const std::vector<double> b = wavy<double>(n);
    std::vector<double> r = b;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        r[i] -= csr.values[k] * outcome.x[csr.pattern.col[k]];
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(r[i], 0, 1e-9) << n << " row " << i;
  }
}

TEST_F(Resident, RowsOfVeryDifferentLengths) {
  // An arrow: one full row and column. Two of 16 entries next to it.
  const std::int64_t n = 6000;
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, i == 0 ? 2.0 * static_cast<double>(n) : 4.0});
    if (i > 0) entries.push_back({0, i, 1.0}), entries.push_back({i, 0, 1.0});
  }
  const auto arrow = csr_from_triplets<double>(test_context(), n, n, entries);
  Asked asked;
  asked.stopping.relative_tolerance = 1e-10;
  expect_as_the_graph(arrow, asked, 1e-6, "arrow");
}

TEST_F(Resident, WhatDoesNotFitIsRefusedByName) {
  const auto large = generate(test_context(), "poisson-3d", {{"n", 90}});
  EXPECT_NE(refusal(large, {}).find("shared memory"), std::string::npos) << refusal(large, {});
  const auto automatic = [](const LinearOperator<double>& A, std::string_view method,
                            const Preconditioner<double>* M) {
    SolverOptions options;
    options.stopping.max_iterations = 40;
    const Placed<double> b(context(), wavy<double>(A.rows()));
    Placed<double> x(context(), std::vector<double>(static_cast<std::size_t>(A.rows()), 0.0));
    return make_solver<double>(method, options)->solve(A, b.read(), x.view(), M);
  };
  const auto A = make_matrix(find_format("csr"), placed(context(), large), context());
  SolveReport report = automatic(*A, "cg", nullptr);
  EXPECT_NE(report.steps, "resident");
  EXPECT_NE(report.steps_reason.find("shared memory"), std::string::npos) << report.steps_reason;

  const auto csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  const auto small = make_matrix(find_format("csr"), placed(context(), csr), context());
  report = automatic(*small, "cg", nullptr);
  EXPECT_EQ(report.steps, "resident");
  EXPECT_EQ(report.steps_reason, "");
  report = automatic(*small, "bicgstab", nullptr);
  EXPECT_NE(report.steps, "resident");
  EXPECT_NE(report.steps_reason.find("only cg"), std::string::npos) << report.steps_reason;
  report = automatic(*make_matrix(find_format("coo"), placed(context(), csr), context()), "cg", nullptr);
  EXPECT_NE(report.steps, "resident");
  EXPECT_NE(report.steps_reason.find("coo does not show its rows"), std::string::npos) << report.steps_reason;
  const auto handle = placed(context(), csr);
  const Matrix<double> adaptive(handle, make_matrix(find_format("csr"), handle, context()));
  EXPECT_NE(automatic(adaptive, "cg", nullptr).steps, "resident");
  const CallbackPreconditioner<double> half(
      context(), small->shape(), [](const double* r, double* z, CUstream_st*) {
        copy<double>(*context(), VectorView<const double>{r, 900, Space::device}, {z, 900, Space::device});
      });
  report = automatic(*small, "cg", &half);
  EXPECT_NE(report.steps, "resident");
  EXPECT_NE(report.steps_reason.find("not a diagonal"), std::string::npos) << report.steps_reason;
}

std::atomic<int> allocations{0};

// One solver: again, with another b, new values, another pattern of the same size, another size; every time
// the bits of a new solver.
TEST_F(Resident, WorkspaceIsKept) {
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-9, options.device_steps = "resident";
  const auto kept = make_solver<double>("cg", options);
  const auto check = [&](const AssembledMatrix<double>& A, double factor, bool jacobi = true) {
    const auto M = make_preconditioner<double>(jacobi ? "jacobi" : "none", A);
    if (M) M->ensure(A);
    std::vector<double> b = wavy<double>(A.rows());
    for (double& value : b) value *= factor;
    const Placed<double> b_there(context(), b);
    const std::vector<double> zeros(b.size(), 0.0);
    Placed<double> x(context(), zeros), fresh(context(), zeros);
    allocations = 0;
    detail::allocation_hook = [](Space, std::size_t) { ++allocations; };
    const SolveReport report = kept->solve(A, b_there.read(), x.view(), M.get());
    detail::allocation_hook = nullptr;
    const int taken = allocations;
    const SolveReport other =
        make_solver<double>("cg", options)->solve(A, b_there.read(), fresh.view(), M.get());
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_EQ(report.iterations, other.iterations);
    EXPECT_EQ(x.fetch(), fresh.fetch());
    return taken;
  };
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 48}});
  const auto graph = generate(test_context(), "graph-laplacian", {{"n", 2304}});
  const auto small = generate(test_context(), "poisson-3d", {{"n", 6}});
  for (const char* format : {"csr", "sell-c-sigma", "dia"}) {
    const auto A = make_matrix(find_format(format), placed(context(), csr), context());
    EXPECT_GT(check(*A, 1), 0);
    EXPECT_EQ(check(*A, 1), 0) << format << ": everything is there";
    EXPECT_EQ(check(*A, -3), 0) << format << ": another right-hand side";
    auto changed = generate(test_context(), "poisson-2d", {{"n", 48}});
    std::vector<double> values(changed.values, changed.values + changed.nonzeros());
    for (double& value : values) value *= value > 0 ? 1.5 : 1.0;
    changed.values = values.data(), changed.values_owner = nullptr;
    const auto changed_there = placed(context(), changed);
    A->update_values(changed_there);
    EXPECT_EQ(check(*A, 1), 0) << format << ": new values";
    check(*A, 1, false), check(*A, 1);
    check(*make_matrix(find_format("csr"), placed(context(), graph), context()), 1, false);
    check(*make_matrix(find_format(format), placed(context(), small), context()), 1);
  }
}

// What an exception left behind is forgotten.
TEST_F(Resident, AfterAnExceptionOfTheObserver) {
  struct Thrower final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) throw std::runtime_error("enough");
      return true;
    }
  } thrower;
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 100}});
  const auto A = make_matrix(find_format("csr"), placed(context(), csr), context());
  SolverOptions options;
  options.device_steps = "resident";
  const auto solver = make_solver<double>("cg", options);
  const Placed<double> b(context(), wavy<double>(A->rows()));
  const std::vector<double> zeros(static_cast<std::size_t>(A->rows()), 0.0);
  std::vector<double> first;
  for (int round = 0; round < 3; ++round) {
    Placed<double> x(context(), zeros);
    EXPECT_THROW(solver->solve(*A, b.read(), x.view(), nullptr, &thrower), std::runtime_error);
    Placed<double> y(context(), zeros);
    EXPECT_TRUE(solver->solve(*A, b.read(), y.view()).converged());
    if (round == 0) first = y.fetch();
    EXPECT_EQ(y.fetch(), first);
  }
}

TEST_F(Resident, NoStepsAreRecorded) {
  struct Seen final : SolveObserver {
    std::int64_t calls = 0, recorded = 0;
    bool on_iteration(const IterationInfo& info) override {
      ++calls, recorded += info.record_seconds != 0;
      return true;
    }
  } seen;
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  const auto A = make_matrix(find_format("csr"), placed(context(), csr), context());
  SolverOptions options;
  options.device_steps = "resident";
  const Placed<double> b(context(), wavy<double>(A->rows()));
  Placed<double> x(context(), std::vector<double>(static_cast<std::size_t>(A->rows()), 0.0));
  EXPECT_TRUE(make_solver<double>("cg", options)->solve(*A, b.read(), x.view(), nullptr, &seen).converged());
  EXPECT_GT(seen.calls, 2);
  EXPECT_EQ(seen.recorded, 0);
}

// Values that change in a running solve: it begins again from b - A x.
TEST_F(Resident, NewValuesBetweenTwoSteps) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60}});
  auto changed = generate(test_context(), "poisson-2d", {{"n", 60}});
  std::vector<double> values(changed.values, changed.values + changed.nonzeros());
  for (double& value : values) value *= value > 0 ? 1.25 : 1.0;
  changed.values = values.data(), changed.values_owner = nullptr;
  const auto changed_there = placed(context(), changed);
  for (const char* format : {"csr", "ell", "dia"}) {
    const auto A = make_matrix(find_format(format), placed(context(), csr), context());
    struct Changer final : SolveObserver {
      AssembledMatrix<double>& A;
      const CsrMatrix<double>& to;
      Changer(AssembledMatrix<double>& a, const CsrMatrix<double>& b) : A(a), to(b) {}
      bool on_iteration(const IterationInfo& info) override {
        if (info.iteration == 20) A.update_values(to);
        return true;
      }
      std::int64_t next_stop() const noexcept override { return 20; }
    } changer(*A, changed_there);
    SolverOptions options;
    options.device_steps = "resident";
    const Placed<double> b(context(), wavy<double>(A->rows()));
    Placed<double> x(context(), std::vector<double>(static_cast<std::size_t>(A->rows()), 0.0));
    const SolveReport report =
        make_solver<double>("cg", options)->solve(*A, b.read(), x.view(), nullptr, &changer);
    EXPECT_TRUE(report.converged()) << format << report.detail;
    EXPECT_GE(report.restarts, 1);
    const std::vector<double> answer = x.fetch(), rhs = wavy<double>(A->rows());
    double worst = 0;
    for (std::int64_t i = 0; i < csr.rows(); ++i) {
      double r = rhs[i];
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        r -= values[k] * answer[csr.pattern.col[k]];
      worst = std::max(worst, std::abs(r));
    }
    EXPECT_LE(worst, 1e-5) << format;
  }
}

// Kernels whose blocks wait for each other, of two contexts at once.
// The policy leaves the format alone, since it does not matter there; a schedule is carried out with a graph.
TEST_F(Resident, ByThePolicyButNotByASchedule) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 24}});
  const CsrMatrix<double> source = placed(context(), csr);
  const Placed<double> b(context(), wavy<double>(csr.rows()));
  Placed<double> x(context(), std::vector<double>(static_cast<std::size_t>(csr.rows()), 0));
  Matrix<double> A(source, make_matrix(find_format("csr"), source, context()));
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-10;
  const auto solver = make_solver<double>("cg", options);
  {
    AutoSwitcher<double> switcher(A, CostModel(Space::device),
                                  [&] { return survey_formats(csr.pattern, Space::device); }, {});
    const SolveReport report = solver->solve(A, b.read(), x.view(), nullptr, &switcher);
    switcher.finish();
    EXPECT_TRUE(report.converged());
    EXPECT_EQ(report.steps, "resident") << report.steps_reason;
    EXPECT_TRUE(A.history().empty());
    ASSERT_EQ(switcher.decisions().size(), 1u);
    EXPECT_NE(switcher.decisions()[0].reason.find("resident"), std::string::npos);
  }
  EXPECT_FALSE(A.rows_kept());
  x = Placed<double>(context(), std::vector<double>(static_cast<std::size_t>(csr.rows()), 0));
  FormatSchedule<double> schedule(A, {{.trigger = ScheduleTrigger::iteration,
                                       .at = 5,
                                       .to = {.entry = &find_format("dia")},
                                       .overlapped = false}});
  const SolveReport report = solver->solve(A, b.read(), x.view(), nullptr, &schedule);
  schedule.finish();
  EXPECT_TRUE(report.converged());
  EXPECT_NE(report.steps, "resident");
  EXPECT_EQ(A.history().size(), 1u);
  // Then the policy again: what is running now are diagonals.
  x = Placed<double>(context(), std::vector<double>(static_cast<std::size_t>(csr.rows()), 0));
  AutoSwitcher<double> switcher(A, CostModel(Space::device),
                                [&] { return survey_formats(csr.pattern, Space::device); }, {});
  const SolveReport last = solver->solve(A, b.read(), x.view(), nullptr, &switcher);
  EXPECT_TRUE(last.converged());
  EXPECT_EQ(last.steps, "resident") << last.steps_reason;
  EXPECT_NEAR(static_cast<double>(last.iterations), static_cast<double>(report.iterations), 3);
}

TEST_F(Resident, TwoContextsAtOnce) {
  const auto csr = generate(test_context(), "poisson-3d", {{"n", 30}});
  Asked asked;
  asked.stopping.relative_tolerance = 1e-10;
  const std::vector<double> expected = solve(csr, asked).x;
  std::vector<std::thread> threads;
  std::vector<double> answers[2];
  for (std::vector<double>& answer : answers)
    threads.emplace_back([&csr, &answer] {
      const ContextPtr own = Context::device();
      const auto A = make_matrix(find_format("csr"), upload(own, csr), own);
      const auto M = make_preconditioner<double>("jacobi", *A);
      M->ensure(*A);
      SolverOptions options;
      options.stopping.relative_tolerance = 1e-10, options.device_steps = "resident";
      const auto solver = make_solver<double>("cg", options);
      const Placed<double> b(own, wavy<double>(A->rows()));
      for (int round = 0; round < 20; ++round) {
        Placed<double> x(own, std::vector<double>(static_cast<std::size_t>(A->rows()), 0.0));
        EXPECT_TRUE(solver->solve(*A, b.read(), x.view(), M.get()).converged());
        answer = x.fetch();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers[0], expected);
  EXPECT_EQ(answers[1], expected);
}

// In a deterministic context, too: sums have a fixed order.
TEST_F(Resident, InADeterministicContext) {
  const ContextPtr own = Context::device(0, {.deterministic = true});
  const auto csr = generate(test_context(), "poisson-3d", {{"n", 20}});
  const auto A = make_matrix(find_format("csr"), upload(own, csr), own);
  const Placed<double> b(own, wavy<double>(A->rows()));
  Placed<double> x(own, std::vector<double>(static_cast<std::size_t>(A->rows()), 0.0));
  EXPECT_EQ(make_solver<double>("cg")->solve(*A, b.read(), x.view()).steps, "resident");
}

}  // namespace
}  // namespace protean::test
