// A solve with changes of format gives the result of the solve without: all methods, blocking and next to the solve.
//
// A new matrix is built from the CSR source, never from the running matrix. So a pair of formats does nothing that its
// two formats do not do in pairs with others: one is left in the middle of a solve, the other is built and adopted
// there. The pairs are therefore csr with every format, in both directions, and any two engines, which have one layout
// each.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "solving.hpp"
#include "support/engines.hpp"

namespace protean::test {
namespace {

struct Case {
  const SwitchedSystem* system;
  const FormatEntry* from;
  Space space;
};

// Of the systems, the one for CG is symmetric.
bool holds(const FormatEntry& format, const SwitchedSystem& system) {
  return holds_any_matrix(format) || std::string_view(system.label) == "cg";
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const Space space : {Space::host, Space::device})
    for (const SwitchedSystem& system : switched_systems)
      for (const FormatEntry* from : catalogue())
        if (holds(*from, system) &&
            (space == Space::host ? !from->kernels.empty() : from->device || Context::device_count() == 0))
          list.push_back({&system, from, space});
  return list;
}

class Switching : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam().space);
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = matrix_of(test_context(), *GetParam().system);
    source_ = placed(context_, csr_);
  }
  bool from_is_deterministic() const {
    const FormatEntry& from = *GetParam().from;
    return from.traits.deterministic && kernels_in(from, GetParam().space).front().deterministic;
  }
  Matrix<double> make() const {
    return {source_, make_matrix(*GetParam().from, source_, context_, spec_of(*GetParam().from).params)};
  }
  Solved solve(Matrix<double>& A, SolveObserver* observer) const {
    return solve_with(A, csr_, *GetParam().system, observer);
  }

  ContextPtr context_;
  CsrMatrix<double> csr_, source_;
};

TEST_P(Switching, ToEveryFormatAnywhereInTheSolve) {
  Matrix<double> unchanged = make();
  const Solved plain = solve(unchanged, nullptr);
  ASSERT_TRUE(plain.report.converged());
  ASSERT_GT(plain.report.iterations, 20);
  std::vector<std::pair<std::int64_t, bool>> everywhere;  // iteration, overlapped
  for (const std::int64_t k : std::vector<std::int64_t>{0, 1, 2, 7, plain.report.iterations - 1})
    for (const bool overlapped : {false, true}) everywhere.emplace_back(k, overlapped);
  const FormatEntry& from = *GetParam().from;
  const std::vector<const FormatEntry*> of_engines = one_of_each_engine(GetParam().space);
  const auto is_of_engines = [&](const FormatEntry& entry) {
    return std::find(of_engines.begin(), of_engines.end(), &entry) != of_engines.end();
  };
  ASSERT_TRUE(is_of_engines(find_format("csr")));
  for (const FormatEntry* to : catalogue()) {
    if (to == &from || kernels_in(*to, GetParam().space).empty() || !holds(*to, *GetParam().system)) continue;
    const bool two_engines = is_of_engines(from) && is_of_engines(*to);
    if (!two_engines && from.id != "csr" && to->id != "csr") continue;
    std::vector<std::pair<std::int64_t, bool>> changes{{2, false}, {7, true}};
    if (two_engines) changes = everywhere;
    for (const auto& change : changes) {
      const std::int64_t k = change.first;
      const bool overlapped = change.second;
      SCOPED_TRACE(testing::Message() << to->id << " at " << k << (overlapped ? " overlapped" : ""));
      Matrix<double> A = make();
      Between observer([&](const IterationInfo& info) {
        if (info.iteration == k && !overlapped) { EXPECT_TRUE(A.switch_to(spec_of(*to), k)); }
        if (info.iteration == std::max<std::int64_t>(k - 1, 0) && overlapped && A.form() == 0)
          A.prepare(spec_of(*to), "", info.iteration);
        if (info.iteration == k && overlapped) {
          (void)A.wait_prepared();
          EXPECT_TRUE(A.adopt_prepared(k));
        }
      });
      observer.stop = k;
      const Solved solved = solve(A, &observer);
      expect_same_course(solved, plain);
      // A format without a fixed order of additions may take one iteration less in this run.
      if (solved.report.iterations < k && !from_is_deterministic()) continue;
      ASSERT_EQ(A.history().size(), 1u) << (A.failures().empty() ? "" : A.failures().back().why);
      EXPECT_EQ(A.history()[0].from, from.id);
      EXPECT_EQ(A.history()[0].to, to->id);
      EXPECT_EQ(A.history()[0].iteration, k);
      EXPECT_EQ(A.history()[0].overlapped, overlapped);
      EXPECT_EQ(A.revision(), Revision{});
      EXPECT_EQ(A.current().entry().id, to->id);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Switching, testing::ValuesIn(cases()), [](const auto& one) {
  return std::string(one.param.system->label) + "_" + identifier(one.param.from->id) + "_" +
         std::string(to_string(one.param.space));
});

class SwitchingFar : public Switching {};
TEST_P(SwitchingFar, ThroughAllFormatsInAFewSolves) {
  Matrix<double> unchanged = make();
  const Solved plain = solve(unchanged, nullptr);
  std::vector<const FormatEntry*> formats = layouts_of_any_matrix();
  std::erase_if(formats, [](const FormatEntry* to) { return kernels_in(*to, GetParam().space).empty(); });
  for (std::size_t next = 0; next < formats.size();) {
    Matrix<double> A = make();
    const std::size_t first = next;
    Between observer([&](const IterationInfo& info) {
      if (info.iteration % 2 == 0 && next < formats.size()) {
        EXPECT_TRUE(A.switch_to(spec_of(*formats[next++]), info.iteration));
      }
    });
    expect_same_course(solve(A, &observer), plain);
    ASSERT_GE(next, std::min(first + 10, formats.size())) << "too few changes in one solve";
  }
}

// The matrix is adopted when it is ready, at any iteration.
TEST_P(SwitchingFar, OverlappedWithoutWaiting) {
  Matrix<double> unchanged = make();
  const Solved plain = solve(unchanged, nullptr);
  for (const FormatEntry* to : layouts_of_any_matrix()) {
    if (kernels_in(*to, GetParam().space).empty()) continue;
    Matrix<double> A = make();
    Between observer([&](const IterationInfo& info) {
      if (info.iteration == 2) A.prepare(spec_of(*to), "", 2);
      if (A.preparation() == Preparation::ready) { EXPECT_TRUE(A.adopt_prepared(info.iteration)); }
    });
    expect_same_course(solve(A, &observer), plain);
  }
}

// Several solves with the same operator and solver; the format changes in and between them.
TEST_P(SwitchingFar, FromSolveToSolve) {
  Matrix<double> A = make();
  const Solved plain = solve(A, nullptr);
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-9, options.restart = GetParam().system->restart;
  const auto solver = make_solver<double>(GetParam().system->method, options);
  const Placed<double> b(context_, rhs_of(csr_));
  Placed<double> x(context_, std::vector<double>(csr_.rows(), 0.0));
  for (const char* id : {"sell-c-sigma", "csr", "ell", "coo"}) {
    fill<double>(*context_, 0.0, x.view());
    Between observer([&](const IterationInfo& info) {
      if (info.iteration == 5) { EXPECT_TRUE(A.switch_to(spec_of(find_format(id)), 5)); }
    });
    const SolveReport report = solver->solve(A, b.read(), x.view(), nullptr, &observer);
    EXPECT_TRUE(report.converged());
    EXPECT_LE(std::abs(report.iterations - plain.report.iterations), 1);
    ASSERT_TRUE(A.switch_to(spec_of(find_format("csc")), 0));
  }
}

std::vector<Case> from_csr() {
  std::vector<Case> list;
  for (const Space space : {Space::host, Space::device})
    for (const SwitchedSystem& system : switched_systems)
      list.push_back({&system, &find_format("csr"), space});
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, SwitchingFar, testing::ValuesIn(from_csr()), [](const auto& one) {
  return std::string(one.param.system->label) + "_" + std::string(to_string(one.param.space));
});

// All formats compute the same bits in deterministic mode, so a solve that uses all of these does, too: a change of
// format affects only the speed.
TEST(SwitchingDeterministic, ChangesNoBit) {
  const ContextPtr context = Context::host(2, {.deterministic = true});
  for (const SwitchedSystem& system : switched_systems) {
    SCOPED_TRACE(system.label);
    const auto csr = matrix_of(context, system);
    const auto start = [&] { return make_matrix(find_format("csr"), csr, context); };
    const Solved unchanged = solve_with(*start(), csr, system, nullptr);
    ASSERT_GT(unchanged.residuals.size(), 20u);
    std::vector<const FormatEntry*> formats = layouts_of_any_matrix();
    std::erase_if(formats, [](const FormatEntry* entry) {
      return entry->kernels.empty() || !entry->kernels.front().ordered;
    });
    for (std::size_t next = 0; next < formats.size();) {
      Matrix<double> A(csr, start());
      const std::size_t first = next;
      Between observer([&](const IterationInfo& info) {
        if (next >= formats.size()) return;
        const FormatSpec spec = spec_of(*formats[next++]);
        if (info.iteration % 2 == 0) {
          EXPECT_TRUE(A.switch_to(spec, info.iteration)) << A.failures().back().why;
        } else {
          A.prepare(spec);
          (void)A.wait_prepared();
          EXPECT_TRUE(A.adopt_prepared(info.iteration)) << A.failures().back().why;
        }
      });
      const Solved solved = solve_with(A, csr, system, &observer);
      ASSERT_GT(next, first);
      EXPECT_EQ(A.history().size(), next - first);
      EXPECT_EQ(solved.residuals, unchanged.residuals);
      EXPECT_EQ(solved.x, unchanged.x);
    }
  }
}

// Rounded values are another system: the solver notices the change and restarts from b - A x.
TEST(SwitchingInexact, RestartsFromTheTrueResidual) {
  for (const SwitchedSystem& system : switched_systems) {
    SCOPED_TRACE(system.label);
    auto csr = deep_copy(test_context(), matrix_of(test_context(), system));
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(csr.values)[k] *= 1.1;
    Matrix<double> A(csr, make_matrix(find_format("csr"), csr, test_context()), {.allow_inexact = true});
    Between observer([&](const IterationInfo& info) {
      if (info.iteration == 6 && info.restarts == 0) {
        EXPECT_TRUE(A.switch_to(spec_of(rounded_format()), 6)) << A.failures().back().why;
      }
      if (info.iteration == 12 && A.form() == 1) {
        EXPECT_TRUE(A.switch_to(spec_of(find_format("csr")), 12));
      }
    });
    const Solved solved = solve_with(A, csr, system, &observer);
    EXPECT_TRUE(solved.report.converged());
    EXPECT_EQ(A.form(), 2u);
    EXPECT_GE(solved.report.restarts, 2);
    EXPECT_LE(solved.residual, 1e-9 * 1.001) << "with the given matrix, to which it changed back";
  }
}

// Nothing is computed beyond a stop of the observer before the observer has been called.
TEST_P(SwitchingFar, NothingRunsPastTheNextStop) {
  Matrix<double> A = make();
  std::int64_t seen = -1;
  std::vector<std::int64_t> products;
  Between observer([&](const IterationInfo& info) {
    EXPECT_EQ(info.iteration, ++seen);
    if (info.iteration == 3) { EXPECT_TRUE(A.switch_to(spec_of(find_format("sell-c-sigma")), 3)); }
    if (info.iteration == 5) { EXPECT_TRUE(A.switch_to(spec_of(find_format("coo")), 5)); }
  });
  struct Stops final : SolveObserver {
    Between& inner;
    std::int64_t at = 0;
    explicit Stops(Between& b) : inner(b) {}
    bool on_iteration(const IterationInfo& info) override {
      at = info.iteration;
      return inner.on_iteration(info);
    }
    std::int64_t next_stop() const noexcept override { return at < 3 ? 3 : at < 5 ? 5 : at + 1; }
  } stops(observer);
  const Solved solved = solve(A, &stops);
  EXPECT_TRUE(solved.report.converged());
  EXPECT_EQ(seen, solved.report.iterations);
  EXPECT_EQ(A.form(), 2u);
}

}  // namespace
}  // namespace protean::test
