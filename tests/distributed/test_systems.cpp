// Systems over several simulated devices, as programs use them.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/generate/generate.hpp"
#include "core/simulated_device.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/engines.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/text.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

std::vector<ContextPtr> devices(int count, const FakeDeviceOptions& options = {}) {
  std::vector<ContextPtr> made;
  for (int d = 0; d < count; ++d) made.push_back(fake_device_context(options));
  return made;
}

CsrMatrix<double> symmetric() { return generate(test_context(), "poisson-2d", {{"n", 12}}); }
CsrMatrix<double> unsymmetric() { return generate(test_context(), "convection-diffusion-3d", {{"n", 5}}); }
const CsrMatrix<double>& system_of(std::string_view method) {
  static const CsrMatrix<double> of_spd = symmetric(), of_any = unsymmetric();
  return find_solver(method).symmetric ? of_spd : of_any;
}

SolveSettings settings_of(std::string_view method, std::string_view preconditioner,
                          std::vector<ContextPtr> contexts) {
  SolveSettings settings;
  settings.method = std::string(method), settings.preconditioner = std::string(preconditioner);
  settings.format = "csr";
  settings.solver.stopping.relative_tolerance = 1e-9;
  settings.distribution.contexts = std::move(contexts);
  return settings;
}

struct Solved {
  SolveResult result;
  std::vector<double> x;
};
Solved solved(const CsrMatrix<double>& csr, const SolveSettings& settings) {
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  Solved one{{}, std::vector<double>(b.size(), 0.0)};
  one.result = LinearSystem<double>(csr, settings).solve(b, one.x);
  return one;
}
void expect_solved(const CsrMatrix<double>& csr, const Solved& one, double tolerance = 1e-9) {
  EXPECT_TRUE(one.result.converged())
      << to_string(one.result.report.reason) << " " << one.result.report.detail;
  const double truth = relative_residual_of<double>(csr, sample_vector<double>(csr.rows(), 5), one.x);
  EXPECT_LE(truth, 1.01 * tolerance);
  EXPECT_NEAR(one.result.report.true_relative, truth, 1e-3 * tolerance);
}

class DistributedMethod : public testing::TestWithParam<std::string> {};

// On one simulated device and on several ones, with steps ahead and after the end: a solution, about as many
// iterations, and the same bits again.
TEST_P(DistributedMethod, SolvesAsOnOneDevice) {
  const CsrMatrix<double>& csr = system_of(GetParam());
  for (const char* preconditioner : {"none", "jacobi", "ilu0"}) {
    if (find_solver(GetParam()).symmetric && std::string(preconditioner) == "ilu0") preconditioner = "ic0";
    SolveSettings alone = settings_of(GetParam(), preconditioner, {});
    alone.policy = "none";
    const Solved one = solved(csr, alone);
    struct Case {
      int count;
      FakeDeviceOptions options;
    };
    for (const auto& [count, options] : {Case{2, {3, 2, true}}, Case{3, {}}, Case{8, {2, 3, false}}}) {
      SCOPED_TRACE(testing::Message()
                   << preconditioner << ", " << count << " devices, " << options.steps_ahead);
      const SolveSettings settings = settings_of(GetParam(), preconditioner, devices(count, options));
      const Solved several = solved(csr, settings);
      expect_solved(csr, several);
      if (std::string(preconditioner) == "none" || std::string(preconditioner) == "jacobi") {
        const auto most = std::max<std::int64_t>(4, one.result.report.iterations / 4);
        EXPECT_NEAR(static_cast<double>(several.result.report.iterations),
                    static_cast<double>(one.result.report.iterations), static_cast<double>(most));
      }
      const Solved again = solved(csr, settings_of(GetParam(), preconditioner, devices(count, options)));
      EXPECT_EQ(several.x, again.x);
      EXPECT_EQ(several.result.report.iterations, again.result.report.iterations);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DistributedMethod, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const SolverEntry& entry : solvers()) names.emplace_back(entry.id);
                           return names;
                         }()),
                         [](const auto& of) { return of.param; });

TEST(DistributedSystem, SolvesInEachEngineOfFormats) {
  const auto csr = symmetric();
  for (const FormatEntry* entry : one_of_each_engine(Space::host)) {
    if (entry->id == "split") continue;
    SCOPED_TRACE(std::string(entry->id));
    SolveSettings settings = settings_of("cg", "jacobi", devices(3));
    settings.format = std::string(entry->id), settings.parameters = most_tolerant(*entry);
    const Solved one = solved(csr, settings);
    expect_solved(csr, one);
    EXPECT_EQ(one.result.format, entry->id);
    for (const PartRecord& part : one.result.parts) {
      EXPECT_EQ(part.format, entry->id);
      EXPECT_EQ(part.boundary_format, "csr");
    }
  }
}

TEST(DistributedSystem, HasThePreconditionersThatItNames) {
  const auto csr = symmetric();
  for (const PreconditionerEntry& entry : preconditioners()) {
    SCOPED_TRACE(std::string(entry.id));
    if (!entry.unavailable.empty()) continue;
    const std::string method = entry.symmetric ? "cg" : "gmres";
    const SolveSettings settings = settings_of(method, entry.id, devices(3));
    if (entry.id == "fields" || entry.id == "spai0") {
      EXPECT_TRUE(has(message_of<BadArgument>([&] { LinearSystem<double>(csr, settings); }),
                      "is not served over several devices; take amg, chebyshev, jacobi or ic0"));
      continue;
    }
    expect_solved(csr, solved(csr, settings));
  }
}

TEST(DistributedSystem, ReportsItsParts) {
  const auto csr = symmetric();
  SolveSettings settings = settings_of("auto", "auto", devices(4));
  settings.format = "auto";
  settings.solver.restart = 40;  // of gmres, which auto could take
  const Solved one = solved(csr, settings);
  expect_solved(csr, one);
  EXPECT_EQ(one.result.method, "cg");
  EXPECT_FALSE(one.result.method_reason.empty());
  EXPECT_EQ(one.result.preconditioner, "jacobi");
  EXPECT_EQ(one.result.format, "csr");
  EXPECT_FALSE(one.result.format_reason.empty());
  EXPECT_EQ(one.result.partition, "rows");
  ASSERT_EQ(one.result.parts.size(), 4U);
  std::int64_t rows = 0, entries = 0;
  for (std::size_t p = 0; p < 4; ++p) {
    const PartRecord& part = one.result.parts[p];
    rows += part.rows, entries += part.nonzeros;
    EXPECT_EQ(part.device, static_cast<std::int64_t>(p));
    // Slabs of a 12 x 12 grid: a line of 12 points for each neighbour.
    const std::int64_t neighbours = p == 0 || p == 3 ? 1 : 2;
    EXPECT_EQ(part.neighbours, neighbours);
    EXPECT_EQ(part.ghosts, 12 * neighbours);
    EXPECT_EQ(part.sent, 12 * neighbours);
    EXPECT_GT(part.bytes, 0U);
    EXPECT_GT(part.products, one.result.report.iterations);
  }
  EXPECT_EQ(rows, csr.rows());
  EXPECT_EQ(entries, csr.nonzeros());
}

TEST(DistributedSystem, WorksWithMoreDevicesThanRowsAndWithoutRows) {
  const auto small = generate(test_context(), "poisson-2d", {{"n", 2}});
  const Solved tiny = solved(small, settings_of("cg", "jacobi", devices(8)));
  expect_solved(small, tiny);
  EXPECT_EQ(tiny.result.parts.size(), 4U);
  const auto csr = symmetric();
  SolveSettings settings = settings_of("bicgstab", "ilu0", devices(4));
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    settings.distribution.part_of_row.push_back(r % 3 == 0 ? 3 : 1);
  const Solved given = solved(csr, settings);
  expect_solved(csr, given);
  ASSERT_EQ(given.result.parts.size(), 2U);
  EXPECT_EQ(given.result.parts[0].device, 1);
  EXPECT_EQ(given.result.parts[1].device, 3);
  EXPECT_EQ(given.result.partition, "given");
  const auto nothing = csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{});
  EXPECT_TRUE(solved(nothing, settings_of("cg", "none", devices(2))).result.converged());
}

TEST(DistributedSystem, SolvesDisconnectedPartsAndDenseRows) {
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t n = 90;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, 3.0 + i % 5});
    if (i > 0 && i < 30) entries.push_back({0, i, -0.1}), entries.push_back({i, 0, -0.1});
  }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  for (const char* method : {"cg", "gmres"})
    expect_solved(csr, solved(csr, settings_of(method, "none", devices(3))));
}

TEST(DistributedSystem, SolvesInSinglePrecision) {
  const auto csr = symmetric();
  std::vector<float> values(csr.values, csr.values + csr.nonzeros()),
      x(static_cast<std::size_t>(csr.rows()), 0.0F);
  CsrMatrix<float> narrow;
  narrow.pattern = csr.pattern, narrow.values = values.data();
  SolveSettings settings = settings_of("cg", "ic0", devices(3));
  settings.solver.stopping.relative_tolerance = 1e-4;
  const std::vector<float> b = sample_vector<float>(csr.rows(), 5);
  EXPECT_TRUE(LinearSystem<float>(narrow, settings).solve(b, x).converged());
  EXPECT_LE(relative_residual_of<float>(narrow, b, x), 1.1e-4);
}

TEST(DistributedSystem, TakesNewValuesAndSettings) {
  const auto csr = unsymmetric();
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0), values(csr.values, csr.values + csr.nonzeros());
  SolveSettings settings = settings_of("gmres", "ilu0", devices(3));
  LinearSystem<double> system(csr, settings);
  EXPECT_TRUE(system.solve(b, x).converged());
  for (std::size_t k = 0; k < values.size(); ++k) values[k] *= 1 + 0.2 * std::sin(static_cast<double>(k));
  system.update_values(values);
  std::fill(x.begin(), x.end(), 0.0);
  const SolveResult second = system.solve(b, x);
  CsrMatrix<double> other = csr;
  other.values = values.data();
  EXPECT_TRUE(second.converged());
  EXPECT_LE(relative_residual_of<double>(other, b, x), 1.01e-9);
  // As a system that was made with these values.
  std::vector<double> fresh(b.size(), 0.0);
  (void)LinearSystem<double>(other, settings_of("gmres", "ilu0", devices(3))).solve(b, fresh);
  EXPECT_EQ(x, fresh);
  settings.method = "bicgstab", settings.preconditioner = "jacobi", settings.format = "ell";
  system.set(settings);
  std::fill(x.begin(), x.end(), 0.0);
  const SolveResult third = system.solve(b, x);
  EXPECT_TRUE(third.converged());
  EXPECT_EQ(third.method, "bicgstab");
  EXPECT_EQ(third.format, "ell");
  EXPECT_LE(relative_residual_of<double>(other, b, x), 1.01e-9);
  EXPECT_THROW(
      system.update_values(csr_from_triplets<double>(test_context(), 3, 3, std::vector<Triplet<double>>{})),
      ShapeMismatch);
  values[7] = std::nan("");
  EXPECT_THROW(system.update_values(values), BadMatrix);
  values[7] = 1;
  EXPECT_THROW(system.update_values(std::vector<double>(3)), ShapeMismatch);
  std::fill(x.begin(), x.end(), 0.0);
  EXPECT_TRUE(has(system.describe(), "on 3 devices (partition rows)")) << system.describe();
}

TEST(DistributedSystem, HasItsOtherEnds) {
  const auto csr = symmetric();
  const std::vector<double> zero(static_cast<std::size_t>(csr.rows()), 0.0),
      b = sample_vector<double>(csr.rows(), 5);
  SolveSettings settings = settings_of("cg", "jacobi", devices(3));
  LinearSystem<double> system(csr, settings);
  std::vector<double> x(b.size(), 1.0);
  EXPECT_TRUE(system.solve(zero, x).converged());
  EXPECT_EQ(x, zero);
  settings.solver.stopping.max_iterations = 4;
  system.set(settings);
  const SolveResult few = system.solve(b, x);
  EXPECT_EQ(few.report.reason, StopReason::max_iterations);
  EXPECT_EQ(few.report.iterations, 4);
  settings.solver.stopping.max_iterations = 1000, settings.solver.stopping.max_seconds = 0;
  system.set(settings);
  EXPECT_EQ(system.solve(b, x).report.reason, StopReason::time_limit);
  // Negative definite: the diagonals of all parts say so.
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (double& value : values) value = -value;
  LinearSystem<double> negative(csr, settings_of("cg", "none", devices(3)));
  negative.update_values(values);
  std::fill(x.begin(), x.end(), 0.0);
  const SolveResult end = negative.solve(b, x);
  EXPECT_EQ(end.report.reason, StopReason::negative_definite) << end.report.detail;
  EXPECT_TRUE(has(end.report.detail, "all 144 diagonal entries are negative")) << end.report.detail;
}

// A singular system, its null space, and a right-hand side that none of its vectors has.
TEST(DistributedSystem, HasAConstantNullSpace) {
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t n = 60;
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int32_t next = (i + 1) % n;
    entries.push_back({i, i, 2.0}), entries.push_back({i, next, -1.0}), entries.push_back({next, i, -1.0});
  }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  std::vector<double> b(n, 0.0), x(n, 0.0);
  b[3] = 1, b[40] = -1;
  SolveSettings settings = settings_of("cg", "jacobi", devices(4));
  settings.solver.null_space = "constant";
  LinearSystem<double> system(csr, settings);
  EXPECT_TRUE(system.solve(b, x).converged());
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 0, 1e-9);
  b[3] = 2;
  EXPECT_EQ(system.solve(b, x).report.reason, StopReason::inconsistent);
  settings.solver.null_space = "none";
  system.set(settings);
  EXPECT_EQ(system.solve(b, x).report.reason, StopReason::inconsistent);
}

struct Stops final : SolveObserver {
  explicit Stops(std::int64_t at) : at_(at) {}
  bool on_iteration(const IterationInfo& info) override {
    seen.push_back(info.iteration);
    if (info.iteration == at_ && throws) throw std::runtime_error("the observer's own");
    return info.iteration < at_;
  }
  std::int64_t next_stop() const noexcept override { return at_; }
  std::vector<std::int64_t> seen;
  bool throws = false;

 private:
  const std::int64_t at_;
};

TEST(DistributedSystem, CallsTheObserverOfTheCaller) {
  const auto csr = symmetric();
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0);
  LinearSystem<double> system(csr, settings_of("cg", "jacobi", devices(3, {3, 2, true})));
  Stops stops(5);
  const SolveResult interrupted = system.solve(b, x, &stops);
  EXPECT_EQ(interrupted.report.reason, StopReason::interrupted);
  EXPECT_EQ(interrupted.report.iterations, 5);
  EXPECT_EQ(stops.seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  const std::vector<double> before = x;
  Stops fails(2);
  fails.throws = true;
  EXPECT_THROW((void)system.solve(b, x, &fails), std::runtime_error);
  EXPECT_EQ(x, before);
  EXPECT_TRUE(system.solve(b, x).converged()) << "it can be used again";
  EXPECT_LE(relative_residual_of<double>(csr, b, x), 1.01e-9);
}

TEST(DistributedSystem, RefusesUseWhileItSolves) {
  const auto csr = symmetric();
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0), other(b.size(), 0.0);
  LinearSystem<double> system(csr, settings_of("cg", "jacobi", devices(2)));
  struct Uses final : SolveObserver {
    std::function<void()> use;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 1) use();
      return true;
    }
  } uses;
  uses.use = [&] {
    EXPECT_THROW((void)system.solve(b, other), BadArgument);
    EXPECT_THROW(system.update_values(csr.values), BadArgument);
    EXPECT_THROW(system.set(system.settings()), BadArgument);
    // Another system on another device solves meanwhile.
    EXPECT_TRUE(solved(csr, settings_of("cg", "jacobi", devices(2))).result.converged());
  };
  EXPECT_TRUE(system.solve(b, x, &uses).converged());
}

TEST(DistributedSystem, NamesThePartThatFails) {
  const auto csr = symmetric();
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0);
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  const std::int64_t row = 100;
  for (std::int64_t k = csr.pattern.row_ptr[row]; k < csr.pattern.row_ptr[row + 1]; ++k)
    if (csr.pattern.col[k] == row) values[static_cast<std::size_t>(k)] = 0;
  LinearSystem<double> system(csr, settings_of("gmres", "ilu0", devices(2)));
  system.update_values(values);
  const std::string message = message_of<BadMatrix>([&] { (void)system.solve(b, x); });
  EXPECT_TRUE(has(
      message,
      "part 1 of 2 (rows are counted within the part; its row 0 is row 72 of the matrix): ilu0 divides by the"))
      << message;
  EXPECT_TRUE(has(message, "row 28 (0)")) << message;
  system.update_values(csr.values);
  EXPECT_TRUE(system.solve(b, x).converged()) << "it can be used again";
  // What all parts see has no part, and rows of the caller.
  x[110] = std::numeric_limits<double>::infinity();
  const std::string guess = message_of<BadArgument>([&] { (void)system.solve(b, x); });
  EXPECT_TRUE(guess.starts_with("the initial guess is inf in row 110 (from 0)")) << guess;
  x[110] = 0;
  EXPECT_TRUE(system.solve(b, x).converged());
}

TEST(DistributedSystem, RefusesWhatItDoesNotServe) {
  const auto csr = symmetric();
  const auto message = [&](auto&& change) {
    SolveSettings settings = settings_of("cg", "jacobi", devices(2));
    change(settings);
    return message_of<Error>([&] { LinearSystem<double>(csr, settings); });
  };
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.policy = "auto"; }),
                  "a policy is not served over several devices"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.order = "rcm"; }), "an order of the rows is not served"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.schedule.emplace_back().format = "ell"; }),
                  "a schedule is not served"));
  EXPECT_TRUE(
      has(message([](SolveSettings& s) { s.context = fake_device_context(); }), "a context is not served"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.expected_iterations = 9, s.format = "auto"; }),
                  "expected_iterations is not served"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.parts.resize(1, {.id = "jacobi"}); }),
                  "a composition of preconditioners is not served"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.preconditioning.refresh = Refresh::never; }),
                  "refresh never is not served"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.distribution.contexts[1] = nullptr; }),
                  "a context of the distribution is empty"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.distribution.contexts[1] = test_context(); }),
                  "is one of the host"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.distribution.contexts[1] = s.distribution.contexts[0]; }),
                  "given twice"));
  EXPECT_TRUE(has(message([](SolveSettings& s) {
                    s.distribution.contexts.resize(1), s.distribution.partition = "graph";
                  }),
                  "the distribution has 1 contexts"));
  EXPECT_TRUE(
      has(message([](SolveSettings& s) { s.distribution.partition = "graphs"; }), "Did you mean 'graph'?"));
  EXPECT_TRUE(has(message([](SolveSettings& s) {
                    s.distribution.part_of_row = {1, 0};
                  }),
                  "part_of_row has 2 entries; the matrix has 144 rows"));
  EXPECT_TRUE(has(message([](SolveSettings& s) { s.distribution.part_of_row.assign(144, 2); }),
                  "part 2 for row 0 (from 0); parts are 0 to 1"));
  LinearSystem<double> system(csr, settings_of("cg", "jacobi", devices(2)));
  std::vector<double> B(288, 1.0), X(288, 0.0);
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)system.multi_solve({B.data(), 144, 2, 144}, {X.data(), 144, 2, 144});
                  }),
                  "multi_solve() is not for a system over several devices"));
  EXPECT_THROW((void)system.matrix(), BadArgument);
  EXPECT_THROW((void)system.solver(), BadArgument);
  EXPECT_THROW((void)system.A(), BadArgument);
  EXPECT_THROW((void)system.solve(VectorView<const double>{B.data(), 144, Space::device},
                                  VectorView<double>{X.data(), 144}),
               WrongSpace);
  EXPECT_THROW(
      (void)system.solve(VectorView<const double>{X.data(), 144}, VectorView<double>{X.data() + 8, 144}),
      BadArgument);
  SolveSettings other = system.settings();
  other.distribution.contexts = devices(2);
  EXPECT_THROW(system.set(other), BadArgument);
}

// The n-th allocation of all threads fails.
std::atomic<int> until_failure{0};
struct FailingAllocation {
  explicit FailingAllocation(int n) {
    until_failure = n;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (--until_failure == 0) throw OutOfMemory("the test's", bytes);
    };
  }
  ~FailingAllocation() { detail::allocation_hook = nullptr; }
  bool failed() const { return until_failure <= 0; }
};

// Each allocation of the solve fails once: an exception, no part waits for ever, and the next solve is right.
TEST(DistributedSystem, SurvivesEachAllocationThatFails) {
  const auto csr = symmetric();
  const std::vector<double> b = sample_vector<double>(csr.rows(), 5);
  std::vector<double> x(b.size(), 0.0);
  LinearSystem<double> system(csr, settings_of("gmres", "ic0", devices(3)));
  int failed = 0;
  for (int n = 1; n < 400; ++n) {
    std::fill(x.begin(), x.end(), 0.0);
    try {
      const FailingAllocation failing(n);
      (void)system.solve(b, x);
      if (!failing.failed()) break;
    } catch (const OutOfMemory&) { ++failed; }
    if (n % 20 != 0) continue;
    std::fill(x.begin(), x.end(), 0.0);
    ASSERT_TRUE(system.solve(b, x).converged());
    ASSERT_LE(relative_residual_of<double>(csr, b, x), 1.01e-9);
    system.set(system.settings());
  }
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace protean::test
