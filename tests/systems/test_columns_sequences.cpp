// Random sequences of a kept system with method and preconditioner auto: solves with one right-hand side and with
// several, new values that are definite, indefinite or not symmetric, other settings, observers that stop or throw, and
// allocations that fail. Whatever happens, each report is true of its x.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/choice/change_rule.hpp"
#include "protean.hpp"
#include "systems/changing_columns.hpp"

namespace protean::test {
namespace {

std::int64_t seen_allocations = 0, failing_allocation = 0;

// The grid with its diagonal moved, or with its upper entries scaled.
std::vector<double> values_of(const CsrMatrix<double>& csr, int kind) {
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k) {
      const std::int32_t c = csr.pattern.col[k];
      double& value = values[static_cast<std::size_t>(k)];
      if (kind == 1 && c == r) value -= 0.3;
      if (kind == 2 && c > r) value *= 0.5;
      if (kind == 3 && c == r) value += 0.2;
    }
  return values;
}

class Sequence {
 public:
  Sequence(unsigned seed, ContextPtr context) : random_(seed), one_(std::move(context), uneven_grid(22), 4) {
    base_ = one_.csr;
    draw_settings();
    system_ = one_.system(settings_);
  }

  void step(int number) {
    trace += "; ";
    const unsigned kind = random_() % 8;
    if (kind == 0) {
      draw_settings();
      settings_.format = one_.context->space() == Space::host ? "csr" : "auto";
      system_->set(settings_);
    } else if (kind == 1 && one_.context->space() == Space::host) {
      new_values();
    } else {
      solve(number);
    }
  }
  std::string trace;
  std::map<std::string, int> counts;

 private:
  void draw_settings() {
    constexpr const char* methods[] = {"auto", "auto", "auto", "cg", "gmres"};
    constexpr const char* preconditioners[] = {"auto", "auto", "jacobi", "none"};
    settings_ = one_.settings(methods[random_() % 5], preconditioners[random_() % 4]);
    constexpr std::int64_t limits[] = {400, 400, 400, 15, 60};
    settings_.solver.stopping.max_iterations = limits[random_() % 5];
    if (random_() % 3 == 0) settings_.solver.stopping.baseline = Baseline::initial_residual;
    if (one_.context->space() == Space::host && random_() % 3 == 0)
      settings_.schedule = {{.at = 4, .to = {.order = "rcm"}, .overlapped = false, .format = "ell"},
                            {.at = 30, .to = {.order = "none"}, .overlapped = false, .format = "csr"}};
    trace += settings_.method.name() + ", " + settings_.preconditioner.name() + ", at most " +
             std::to_string(settings_.solver.stopping.max_iterations) +
             (settings_.schedule.empty() ? "" : ", a schedule");
  }

  void new_values() {
    const int kind = static_cast<int>(random_() % 4);
    trace += "values " + std::to_string(kind);
    values_ = values_of(base_, kind);
    system_->update_values(values_.data());
    one_.csr = with_values(base_, values_.data());
  }

  void solve(int number) {
    const bool several = random_() % 4 != 0;
    ColumnsSeen seen;
    SeenIterations of_one;
    const std::int64_t at = static_cast<std::int64_t>(random_() % 70);
    const unsigned event = random_() % 6;
    if (event == 0) seen.stop_at = of_one.stop_at = at;
    const auto throws = [&](std::int64_t iteration) {
      if (event == 1 && iteration == at) throw std::runtime_error("of the observer");
    };
    seen.on_each = [&](const MultiIterationInfo& info) { throws(info.iteration); };
    of_one.on_each = [&](const IterationInfo& info) { throws(info.iteration); };
    seen_allocations = 0, failing_allocation = event == 2 ? 1 + static_cast<std::int64_t>(random_() % 40) : 0;
    trace +=
        (several ? "columns" : "one") + (event < 3 ? " with event " + std::to_string(event) : std::string());
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (failing_allocation > 0 && ++seen_allocations == failing_allocation)
        throw OutOfMemory("refused by the test", bytes);
    };
    SCOPED_TRACE("step " + std::to_string(number) + ": " + trace);
    std::optional<MultiSolveResult> all;
    std::optional<SolveResult> single;
    try {
      if (several)
        all = one_.solve_columns(*system_, &seen);
      else
        single = one_.solve(*system_, &of_one);
    } catch (const OutOfMemory&) {
      EXPECT_GT(failing_allocation, 0);
      ++counts["no memory"];
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(event, 1u) << error.what();
      ++counts["thrown"];
    }
    detail::allocation_hook = nullptr;
    const std::int64_t most = settings_.solver.stopping.max_iterations;
    if (single) {
      EXPECT_NEAR(one_.residual(), single->report.true_residual, 1e-9 * single->report.rhs_norm);
      EXPECT_LE(single->report.iterations, most);
      count(*single, single->converged());
    }
    if (all) {
      one_.expect_true(*all);
      expect_one_numbering(seen, *all);
      for (const SolveReport& column : all->report.columns) {
        EXPECT_LE(column.iterations, most);
        EXPECT_TRUE(column.reason != StopReason::interrupted || event == 0);
        if (column.converged()) {
          const double baseline =
              settings_.solver.stopping.baseline == Baseline::rhs ? column.rhs_norm : column.initial_residual;
          EXPECT_LE(column.true_residual, 1.0001e-8 * baseline);
        }
      }
      count(*all, all->converged());
    }
  }
  void count(const SolveOutcome& result, bool converged) {
    counts[converged ? "converged" : "not converged"] += 1;
    counts["changes of method"] += static_cast<int>(result.method_changes.size());
    counts["changes of preconditioner"] += static_cast<int>(result.preconditioner_changes.size());
    // auto finds a way for each of these matrices.
    if (settings_.method == "auto" && !converged) ++counts["auto has not converged"];
  }

  std::mt19937 random_;
  ChangingColumns one_;
  CsrMatrix<double> base_;
  SolveSettings settings_;
  std::vector<double> values_;
  std::unique_ptr<LinearSystem<double>> system_;
};

TEST(ColumnsSequences, EachReportIsTrue) {
  const std::vector<detail::ChangeCandidate> cheap{
      {"ic0", Space::host, true, true, false, 32, 0.01, 0.01, 0.01, 1},
      {"ilu0", Space::host, false, false, false, 32, 0.01, 0.01, 0.01, 1},
      {"ssor", Space::device, false, true, false, 32, 0.01, 0.01, 0.01, 1}};
  detail::other_change_candidates = cheap;
  Stopwatch::other_clock = clock_of_products;
  std::map<std::string, int> counts;
  for (unsigned seed = 0; seed < 24; ++seed) {
    slowness = 1, passed = 0, count_products_of(nullptr);
    Sequence sequence(seed, seed % 3 == 2 ? fake_device_context() : test_context());
    for (int k = 0; k < 14 && !testing::Test::HasFailure(); ++k) sequence.step(k);
    for (const auto& [what, number] : sequence.counts) counts[what] += number;
    counted_matrix = nullptr;
  }
  detail::other_change_candidates = {};
  Stopwatch::other_clock = nullptr;
  for (const char* what : {"converged", "not converged", "changes of method", "changes of preconditioner",
                           "no memory", "thrown"})
    EXPECT_GT(counts[what], 4) << what;
}

}  // namespace
}  // namespace protean::test
