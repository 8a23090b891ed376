// Memory that cannot be had, at each step of each public call: scenarios.hpp has the calls, trials.hpp what must hold.
#include <new>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "faults/scenarios.hpp"
#include "formats/count_new.hpp"
#include "gtest/gtest.h"
#include "solvers/multi_solver.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Case {
  const char* what;
  Where where;
  bool news;
  std::vector<Scenario> (*scenarios)(Where where);
};

std::vector<Scenario> files(Where where) {
  return where == Where::host ? file_scenarios() : std::vector<Scenario>();
}

constexpr struct {
  const char* name;
  std::vector<Scenario> (*scenarios)(Where where);
} groups[] = {{"matrices", matrix_scenarios}, {"solves", solve_scenarios}, {"changes", change_scenarios},
              {"systems", system_scenarios},  {"c", c_scenarios},          {"io", files}};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [name, scenarios] : groups)
    for (const Where where : {Where::host, Where::fake, Where::device})
      for (const bool news : {false, true}) {
        // The fake device takes memory of operator new itself, which no real one does.
        if (where == Where::fake && news) continue;
        const bool on_host_only = scenarios == c_scenarios || scenarios == files;
        if (where != Where::host && on_host_only) continue;
        if (where == Where::fake && scenarios == system_scenarios) continue;
        all.push_back({name, where, news, scenarios});
      }
  return all;
}

class AllocationsOfCalls : public testing::TestWithParam<Case> {};

TEST_P(AllocationsOfCalls, FailOneByOne) {
  const Case& one = GetParam();
  if (!context_at(one.where)) GTEST_SKIP() << no_device;
  std::int64_t failed = 0;
  const std::vector<Scenario> scenarios = one.scenarios(one.where);
  ASSERT_FALSE(scenarios.empty());
  for (const Scenario& scenario : scenarios) {
    const std::int64_t of_this = fail_each(scenario, one.news ? failing_news() : failing_buffers());
    if (!scenario.may_be_empty && one.news) {
      EXPECT_GT(of_this, 0) << scenario.name << " allocates nothing, so it shows nothing";
    }
    failed += of_this;
  }
  RecordProperty("failed_allocations", std::to_string(failed));
  std::printf("%zu calls, %lld allocations failed\n", scenarios.size(), static_cast<long long>(failed));
}

INSTANTIATE_TEST_SUITE_P(All, AllocationsOfCalls, testing::ValuesIn(cases()), [](const auto& instance) {
  const Case& one = instance.param;
  return std::string(one.what) + "_" + to_string(one.where) + "_" + (one.news ? "news" : "buffers");
});

// Batches of steps that a device computes ahead, and memory of the host that cannot be had while their residuals are
// taken. A batch that is taken twice would leave the object unusable.
TEST(BatchesAhead, OutliveMemoryThatCannotBeHad) {
  const ContextPtr context = fake_device_context({.steps_ahead = 5});
  const std::unique_ptr<AssembledMatrix<double>> A =
      make_matrix(fake_format("csr"), placed(context, small_matrix()), context, {});
  const std::int64_t n = A->rows(), columns = 3;
  Placed<double> B(context, sample_vector<double>(n * columns, 5));
  Placed<double> X(context, std::vector<double>(static_cast<std::size_t>(n * columns), 0.0));
  MultiSolver<double> solver("cg");
  const auto solve = [&] {
    fill<double>(*context, 0.0, X.view());
    return solver.solve(*A, {B.data(), n, columns, n, VectorLayout::columns, Space::device},
                        {X.data(), n, columns, n, VectorLayout::columns, Space::device}, nullptr);
  };
  ASSERT_TRUE(solve().converged());
  const std::vector<double> answer = X.fetch();
  std::int64_t failed = 0;
  for (std::int64_t i = 1;; ++i) {
    SCOPED_TRACE(i);
    fail_new(i);
    try {
      (void)solve();
    } catch (const std::bad_alloc&) { ++failed; } catch (const OutOfMemory&) {
      ++failed;
    }
    const bool fired = new_has_failed();
    fail_new(0);
    if (!fired) break;
    ASSERT_TRUE(solve().converged());
    ASSERT_EQ(X.fetch(), answer);
  }
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace protean::test
