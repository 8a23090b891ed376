// Solves that begin with element matrices and continue with the assembled matrix: every method, every
// scatter, every format, at any iteration; with faults; and with the policy.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solving.hpp"
#include "support/elements.hpp"
#include "support/engines.hpp"

namespace protean::test {
namespace {

// Bilinear quadrilaterals on n x n squares, -div grad u + wind du/dx, boundary nodes constrained. Row and
// column k of an element belong to its corner k: (0,0), (1,0), (1,1), (0,1).
struct Squares {
  std::int64_t nodes;
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  std::vector<std::int64_t> boundary;
  Squares(int n, double wind) : nodes((n + 1) * (n + 1)) {
    constexpr double diffusion[4][4] = {{4, -1, -2, -1}, {-1, 4, -1, -2}, {-2, -1, 4, -1}, {-1, -2, -1, 4}};
    constexpr double drift[4][4] = {{-2, 2, 1, -1}, {-2, 2, 1, -1}, {-1, 1, 2, -2}, {-1, 1, 2, -2}};
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) {
        const int at = y * (n + 1) + x;
        for (const int k : {at, at + 1, at + n + 2, at + n + 1}) connectivity.push_back(k);
        const double stiffness = 1 + 0.5 * ((x + y) % 3);  // so that no two neighbours are alike
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j)
            matrices.push_back(stiffness * diffusion[i][j] / 6 + wind * drift[i][j] / 12);
      }
    for (int y = 0; y <= n; ++y)
      for (int x = 0; x <= n; ++x)
        if (x == 0 || y == 0 || x == n || y == n) boundary.push_back(y * (n + 1) + x);
  }
  ElementGroup<double> group() const {
    return {static_cast<std::int64_t>(connectivity.size()) / 4, 4, connectivity, matrices};
  }
  std::unique_ptr<ElementOperator<double>> on(const ContextPtr& context, ElementScatter scatter,
                                              bool symmetric = false) const {
    ElementOptions options;
    options.scatter = scatter, options.symmetric = symmetric;
    options.constrained = boundary, options.constrained_rows = ConstrainedRows::eliminate;
    const ElementGroup<double> groups[] = {group()};
    return make_element_operator<double>(context, nodes, groups, options);
  }
};

struct Method {
  const char* name;
  double wind;
};
constexpr Method methods[] = {{"cg", 0}, {"bicgstab", 0.5}, {"gmres", 0.5}};
constexpr ElementScatter scatters[] = {ElementScatter::atomic, ElementScatter::coloured,
                                       ElementScatter::gather};

struct Start {
  Method method;
  ElementScatter scatter;
  Space space;
};

class ElementStart : public testing::TestWithParam<Start> {
 protected:
  void SetUp() override {
    // One thread: then all variants are deterministic, and other load on the machine does not matter.
    context_ = GetParam().space == Space::host ? Context::host(1) : test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = squares_.on(test_context(), ElementScatter::gather)->assemble();
  }
  std::unique_ptr<Matrix<double>> make(MatrixOptions options = {}) const {
    return std::make_unique<Matrix<double>>(squares_.on(context_, GetParam().scatter), options);
  }
  Solved solve(const LinearOperator<double>& A, SolveObserver* observer) const {
    return solve_with(A, csr_, {"", GetParam().method.name, "", 0, 12}, observer);
  }
  std::vector<const FormatEntry*> formats() const {
    std::vector<const FormatEntry*> list;
    for (const FormatEntry* entry : layouts_of_any_matrix())
      if (!kernels_in(*entry, GetParam().space).empty()) list.push_back(entry);
    return list;
  }
  void expect_as_unswitched(const Solved& solved, const Solved& plain) const {
    EXPECT_TRUE(solved.report.converged()) << solved.report.detail;
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
    EXPECT_LE(std::abs(solved.report.iterations - plain.report.iterations),
              0.02 * static_cast<double>(plain.report.iterations) + 3);
  }
  std::string name() const { return "lma-" + std::string(to_string(GetParam().scatter)); }

  Squares squares_{20, GetParam().method.wind};
  ContextPtr context_;
  CsrMatrix<double> csr_;
};
std::vector<Start> starts() {
  std::vector<Start> list;
  for (const Space space : {Space::host, Space::device})
    for (const Method& method : methods)
      for (const ElementScatter scatter : scatters) list.push_back({method, scatter, space});
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, ElementStart, testing::ValuesIn(starts()), [](const auto& one) {
  return std::string(one.param.method.name) + "_" + std::string(to_string(one.param.scatter)) + "_" +
         std::string(to_string(one.param.space));
});

TEST_P(ElementStart, ToEveryFormatAnywhereInTheSolve) {
  const Solved plain = solve(*make(), nullptr);
  ASSERT_TRUE(plain.report.converged());
  ASSERT_GT(plain.report.iterations, 12);
  const std::int64_t last = plain.report.iterations - 1;
  for (const FormatEntry* to : formats())
    for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, last})
      for (const bool overlapped : {false, true}) {
        SCOPED_TRACE(testing::Message() << to->id << " at " << k << (overlapped ? " overlapped" : ""));
        const auto A = make();
        EXPECT_EQ(A->name(), name());
        Between observer([&](const IterationInfo& info) {
          if (info.iteration == k && !overlapped) { EXPECT_TRUE(A->switch_to(spec_of(*to), k)); }
          if (info.iteration == std::max<std::int64_t>(k - 1, 0) && overlapped && A->form() == 0)
            A->prepare(spec_of(*to), "", info.iteration);
          if (info.iteration == k && overlapped) {
            (void)A->wait_prepared();
            EXPECT_TRUE(A->adopt_prepared(k));
          }
        });
        observer.stop = k;
        const Solved solved = solve(*A, &observer);
        expect_as_unswitched(solved, plain);
        if (solved.report.iterations < k) continue;  // on a device sums may be added in another order
        ASSERT_EQ(A->history().size(), 1u) << (A->failures().empty() ? "" : A->failures().back().why);
        const SwitchRecord& record = A->history()[0];
        EXPECT_EQ(record.from, name());
        EXPECT_EQ(record.from_kernel, "native");
        EXPECT_EQ(record.to, to->id);
        EXPECT_EQ(record.iteration, k);
        EXPECT_EQ(record.overlapped, overlapped);
        EXPECT_GT(record.assemble_seconds, 0);
        EXPECT_GE(record.convert_seconds, record.assemble_seconds);
        EXPECT_GE(record.bytes_peak, A->elements()->bytes() + csr_.bytes());
        EXPECT_EQ(record.bytes_before, A->elements()->bytes());
        EXPECT_EQ(A->revision(), Revision{}) << "a preconditioner stays valid";
        EXPECT_EQ(A->current().entry().id, to->id);
        EXPECT_FALSE(A->on_elements());
        if (k == 0) { EXPECT_TRUE(identical(csr_, fetched(context_, A->current().to_csr()))); }
      }
}

// The same decisions give the same bits, if sums have a fixed order.
TEST_P(ElementStart, TwiceTheSameBits) {
  if (GetParam().space == Space::device && GetParam().scatter == ElementScatter::atomic)
    GTEST_SKIP() << "the order of atomic additions differs between runs";
  std::vector<double> residuals[2], x[2];
  for (int run = 0; run < 2; ++run) {
    const auto A = make();
    Between observer([&](const IterationInfo& info) {
      residuals[run].push_back(info.residual);
      if (info.iteration == 3) A->prepare(spec_of(find_format("sell-packed")), "", 3);
      if (info.iteration != 9) return;
      (void)A->wait_prepared();
      EXPECT_TRUE(A->adopt_prepared(9));
    });
    observer.stop = 3;
    x[run] = solve(*A, &observer).x;
  }
  EXPECT_EQ(residuals[0], residuals[1]);
  EXPECT_EQ(x[0], x[1]);
}

TEST_P(ElementStart, BackToTheElementsAndOnWithoutAssemblingAgain) {
  const Solved plain = solve(*make(), nullptr);
  const auto A = make();
  const FormatSpec elements{.elements = true};
  EXPECT_TRUE(A->runs(elements));
  EXPECT_THROW((void)A->current(), BadArgument);
  EXPECT_FALSE(A->source_assembled());
  Between observer([&](const IterationInfo& info) {
    if (info.iteration == 2) { EXPECT_TRUE(A->switch_to(spec_of(find_format("sell-c-sigma")), 2)); }
    if (info.iteration == 4) { EXPECT_TRUE(A->switch_to(elements, 4, "to see")); }
    if (info.iteration == 6) { EXPECT_TRUE(A->switch_to(spec_of(find_format("csr")), 6)); }
    if (info.iteration == 7) A->prepare(elements, "", 7);
    if (info.iteration == 8) {
      (void)A->wait_prepared();
      EXPECT_TRUE(A->adopt_prepared(8));
    }
  });
  observer.stop = 2;
  expect_as_unswitched(solve(*A, &observer), plain);
  ASSERT_EQ(A->history().size(), 4u);
  EXPECT_EQ(A->history()[1].to, name());
  EXPECT_EQ(A->history()[2].from, name());
  EXPECT_EQ(A->history()[2].assemble_seconds, 0);
  EXPECT_TRUE(A->on_elements());
  EXPECT_EQ(A->revision(), Revision{});
}

TEST_P(ElementStart, FaultsLeaveTheRunningOneUntouched) {
  const Solved plain = solve(*make(), nullptr);
  struct Fault {
    FormatSpec spec;
    SwitchFailure why;
  };
  FormatSpec bad_parameter = spec_of(find_format("sell-c-sigma")), bad_kernel = spec_of(find_format("csr"));
  bad_parameter.params.set("C", 7777777);
  bad_kernel.kernel = "abacus";
  const Fault faults[] = {{spec_of(refusing_format()), SwitchFailure::refused},
                          {bad_parameter, SwitchFailure::refused},
                          {bad_kernel, SwitchFailure::refused},
                          {{}, SwitchFailure::refused},
                          {spec_of(rounded_format()), SwitchFailure::refused},
                          {spec_of(throwing_format()), SwitchFailure::failed},
                          {spec_of(throwing_a_number_format()), SwitchFailure::failed},
                          {spec_of(null_format()), SwitchFailure::failed},
                          {spec_of(wrong_format()), SwitchFailure::wrong_product}};
  for (const Fault& fault : faults)
    for (const bool overlapped : {false, true}) {
      SCOPED_TRACE(fault.spec.name());
      const auto A = make();
      Between observer([&](const IterationInfo& info) {
        if (info.iteration != 3) return;
        if (!overlapped) {
          EXPECT_FALSE(A->switch_to(fault.spec, 3));
          return;
        }
        A->prepare(fault.spec, "", 3);
        (void)A->wait_prepared();
        EXPECT_FALSE(A->adopt_prepared(3));
      });
      observer.stop = 3;
      const Solved solved = solve(*A, &observer);
      EXPECT_TRUE(A->on_elements());
      EXPECT_TRUE(A->history().empty());
      ASSERT_EQ(A->failures().size(), 1u);
      EXPECT_EQ(A->failures()[0].failure, fault.why) << A->failures()[0].why;
      expect_as_unswitched(solved, plain);
      if (GetParam().space == Space::host) { EXPECT_EQ(solved.x, plain.x) << "bit for bit"; }
      // The next attempt succeeds.
      EXPECT_TRUE(A->switch_to(spec_of(find_format("sell-packed")), 0)) << A->failures().back().why;
    }
}

TEST_P(ElementStart, WhatDoesNotFitIsNotAssembled) {
  const std::size_t elements = make()->elements()->bytes();
  const auto tried = [&](std::size_t limit, const char* format) {
    const auto A = make({.memory_limit = limit});
    const std::size_t bytes = allocated_bytes();
    const bool done = A->switch_to(spec_of(find_format(format)), 0);
    if (!done) {
      EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory) << A->failures()[0].why;
      EXPECT_EQ(allocated_bytes(), bytes);
      EXPECT_FALSE(A->source_assembled());
    }
    A->prepare(spec_of(find_format(format)));
    (void)A->wait_prepared();
    EXPECT_EQ(A->adopt_prepared(0), done);
    return done;
  };
  EXPECT_FALSE(tried(1, "csr"));
  EXPECT_FALSE(tried(elements + csr_.bytes() / 2, "csr"));
  EXPECT_FALSE(tried(elements + csr_.bytes(), "csr")) << "the workspace of the assembly is counted";
  EXPECT_TRUE(tried(100 * elements, "csr"));
  const auto message = [&] {
    const auto A = make({.memory_limit = elements + 10});
    (void)A->switch_to(spec_of(find_format("csr")), 0);
    return A->failures()[0].why;
  }();
  EXPECT_NE(message.find("assembling"), std::string::npos) << message;
}

// Each allocation of a build fails once; the solve beside it is not affected.
std::atomic<int> countdown{-1};
void fail_when_due(Space, std::size_t bytes) {
  if (detail::background() && countdown.fetch_sub(1) == 0)
    throw OutOfMemory("a test let this allocation fail", bytes);
}

TEST_P(ElementStart, EveryAllocationOfThePreparationMayFail) {
  const Solved plain = solve(*make(), nullptr);
  int failed = 0;
  for (int nth = 0; nth < 200; ++nth) {
    const auto A = make();
    const std::size_t bytes = allocated_bytes();
    detail::allocation_hook = fail_when_due;
    countdown = nth;
    Between observer([&](const IterationInfo& info) {
      if (info.iteration == 1) A->prepare(spec_of(find_format("sell-packed")), "", 1);
      if (info.iteration != 3) return;
      (void)A->wait_prepared();
      (void)A->adopt_prepared(3);
    });
    observer.stop = 1;
    const Solved solved = solve(*A, &observer);
    detail::allocation_hook = nullptr;
    expect_as_unswitched(solved, plain);
    if (!A->history().empty()) break;
    ++failed;
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory);
    EXPECT_FALSE(A->source_assembled());
    if (GetParam().space == Space::host) { EXPECT_EQ(allocated_bytes(), bytes); }
  }
  EXPECT_GT(failed, 4);
  EXPECT_LT(failed, 200);
}

// Waits in an allocation of the build until the build is cancelled.
std::atomic<bool> held{false};
void hold(Space, std::size_t) {
  if (!detail::background()) return;
  held = true;
  while (true) {
    detail::checkpoint();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

TEST_P(ElementStart, AnAssemblyEndsWhenItIsCancelled) {
  const Solved plain = solve(*make(), nullptr);
  for (const bool by_the_end : {false, true}) {
    const std::size_t bytes = allocated_bytes();
    {
      const auto A = make();
      held = false;
      detail::allocation_hook = hold;
      Between observer([&](const IterationInfo& info) {
        if (info.iteration == 1) {
          A->prepare(spec_of(find_format("csr")), "", 1);
          while (!held) std::this_thread::yield();
        }
        if (info.iteration == 5 && !by_the_end) {
          EXPECT_EQ(A->preparation(), Preparation::running);
          EXPECT_FALSE(A->adopt_prepared(5)) << "the build is not ready";
          A->cancel(5, "the weather");
        }
      });
      observer.stop = 1;
      expect_as_unswitched(solve(*A, &observer), plain);
      if (!by_the_end) {
        ASSERT_EQ(A->failures().size(), 1u);
        EXPECT_EQ(A->failures()[0].failure, SwitchFailure::cancelled);
        EXPECT_EQ(A->failures()[0].why, "the weather");
        EXPECT_TRUE(A->on_elements());
      }
    }
    detail::allocation_hook = nullptr;
    if (GetParam().space == Space::host) { EXPECT_EQ(allocated_bytes(), bytes); }
  }
}

TEST_P(ElementStart, NewElementMatricesAreSolvedWithAtOnce) {
  const auto A = make();
  ASSERT_TRUE(A->switch_to(spec_of(find_format("sell-c-sigma")), 0));
  const Revision before = A->revision();
  for (double& value : squares_.matrices) value *= 3;
  ElementGroup<double> groups[] = {squares_.group()};
  A->update_values(groups);
  EXPECT_TRUE(A->on_elements());
  EXPECT_FALSE(A->source_assembled());
  EXPECT_NE(A->revision().values, before.values);
  EXPECT_EQ(A->revision().pattern, before.pattern);
  csr_ = squares_.on(test_context(), ElementScatter::gather)->assemble();
  EXPECT_LE(solve(*A, nullptr).residual, 1e-9 * 1.001);
  ASSERT_TRUE(A->switch_to(spec_of(find_format("sell-c-sigma")), 0)) << A->failures().back().why;
  EXPECT_LE(solve(*A, nullptr).residual, 1e-9 * 1.001);
  // Values that do not fit change nothing.
  const Revision good = A->revision();
  groups[0].matrices = groups[0].matrices.first(5);
  EXPECT_THROW(A->update_values(groups), ShapeMismatch);
  EXPECT_EQ(A->revision(), good);
  EXPECT_FALSE(A->on_elements());
  EXPECT_LE(solve(*A, nullptr).residual, 1e-9 * 1.001);
  EXPECT_THROW(A->update_values(csr_), BadArgument);
}

TEST_P(ElementStart, AScheduleChangesIt) {
  const Solved plain = solve(*make(), nullptr);
  const auto A = make();
  FormatSchedule<double> schedule(
      *A, {{ScheduleTrigger::iteration, 2, spec_of(find_format("sell-packed")), false},
           {ScheduleTrigger::iteration, 5, {.elements = true}, false},
           {ScheduleTrigger::iteration, 6, {.elements = true}, false}});
  expect_as_unswitched(solve(*A, &schedule), plain);
  schedule.finish();
  ASSERT_EQ(schedule.events().size(), 3u);
  EXPECT_EQ(schedule.events()[0].action, ScheduleEvent::Action::switched);
  EXPECT_EQ(schedule.events()[0].to, "sell-packed");
  EXPECT_EQ(schedule.events()[1].to, "element");
  EXPECT_EQ(schedule.events()[2].action, ScheduleEvent::Action::stayed);
}

// Several threads compute products while another assembles.
TEST(ElementStartThreads, AdoptedWhenReady) {
  const ContextPtr context = Context::host(3);
  const Squares squares(60, 0);
  const CsrMatrix<double> csr = squares.on(context, ElementScatter::gather)->assemble();
  for (const bool symmetric : {false, true})
    for (const ElementScatter scatter : scatters) {
      const SwitchedSystem system{"", "cg", "", 0};
      const Solved plain = solve_with(*squares.on(context, scatter, symmetric), csr, system, nullptr);
      Matrix<double> A(squares.on(context, scatter, symmetric));
      const auto M = make_preconditioner<double>("jacobi", A);
      M->ensure(A);
      Between observer([&](const IterationInfo& info) {
        if (info.iteration == 2) A.prepare(spec_of(find_format("sell-packed")), "", 2);
        if (info.iteration == 20) (void)A.wait_prepared();
        if (A.preparation() == Preparation::ready) { EXPECT_TRUE(A.adopt_prepared(info.iteration)); }
      });
      const Solved solved = solve_with(A, csr, system, &observer);
      EXPECT_TRUE(solved.report.converged());
      EXPECT_LE(solved.residual, 1e-9 * 1.001);
      EXPECT_LE(std::abs(solved.report.iterations - plain.report.iterations),
                0.02 * static_cast<double>(plain.report.iterations) + 3);
      EXPECT_EQ(A.history().size(), 1u);
      const double* d = M->inverse_diagonal().data;
      M->ensure(A);
      EXPECT_EQ(M->inverse_diagonal().data, d);
    }
}

TEST(ElementStartThreads, AssemblingInTheBackgroundAsksWhetherItIsWanted) {
  const Squares squares(20, 0);
  const auto A = squares.on(Context::host(2), ElementScatter::atomic);
  const std::atomic<bool> cancel{true};
  std::thread([&] {
    const BackgroundWork behind(A->context(), cancel);
    EXPECT_THROW((void)A->assemble(), Cancelled);
  }).join();
}

TEST(ElementStartArguments, BrokenOnesAreErrors) {
  const Squares squares(3, 0);
  EXPECT_THROW(Matrix<double>(std::unique_ptr<ElementOperator<double>>()), BadArgument);
  EXPECT_THROW(
      Matrix<double>(squares.on(Context::host(1), ElementScatter::atomic), {.background_workers = 0}),
      BadArgument);
  auto kept = squares.on(Context::host(1), ElementScatter::atomic);
  EXPECT_THROW(Matrix<double>(std::move(kept), {.memory_fraction = 0}), BadArgument);
  EXPECT_NE(kept, nullptr) << "the caller keeps the element matrices";
  const CsrMatrix<double> csr = squares.on(Context::host(1), ElementScatter::atomic)->assemble();
  Matrix<double> made_of_csr(csr, make_matrix(find_format("csr"), csr, Context::host(1)));
  EXPECT_FALSE(made_of_csr.switch_to({.elements = true}, 0));
  EXPECT_EQ(made_of_csr.failures()[0].failure, SwitchFailure::refused);
  const ElementGroup<double> groups[] = {squares.group()};
  EXPECT_THROW(made_of_csr.update_values(groups), BadArgument);
}

// The bounds for the comparison of products, against their definition.
TEST(ElementBounds, AreTheSumOfMagnitudes) {
  for (const Space space : {Space::host, Space::device}) {
    const ContextPtr context = test_context(space);
    if (!context) continue;
    for (const ElementMesh& mesh : element_meshes())
      for (const bool symmetric : {false, true}) {
        SCOPED_TRACE(mesh.name);
        const auto numbers = element_numbers<double>(mesh, symmetric);
        const auto constrained = some_unknowns(mesh);
        ElementOptions options;
        options.symmetric = symmetric, options.components = mesh.components;
        options.allow_unused_nodes = mesh.unused, options.constrained = constrained;
        const auto A = make_element_operator<double>(context, mesh.nodes, numbers.groups, options);
        if (A->rows() == 0) continue;
        Placed<double> bounds(context, std::vector<double>(static_cast<std::size_t>(A->rows()), 1.0));
        A->add_rounding_bounds(0.5, bounds.view());
        const auto found = bounds.fetch();
        const auto reference = element_reference<double>(mesh, numbers, constrained, symmetric);
        std::vector<bool> given(found.size(), false);
        for (const std::int64_t u : constrained) given[u] = true;
        for (std::size_t r = 0; r < found.size(); ++r) {
          double sum = 0;
          for (const auto& term : reference.rows[r]) sum += std::fabs(term.value);
          const double terms = static_cast<double>(reference.rows[r].size());
          EXPECT_DOUBLE_EQ(found[r], given[r] ? 1 : 1 + 0.5 * (terms + 2) * sum) << r;
        }
      }
  }
}

TEST(ElementSample, RowsAreThoseOfTheAssembledMatrix) {
  for (const ElementMesh& mesh : element_meshes()) {
    SCOPED_TRACE(mesh.name);
    const auto numbers = element_numbers<double>(mesh, false);
    const auto constrained = some_unknowns(mesh);
    ElementOptions options;
    options.components = mesh.components, options.allow_unused_nodes = mesh.unused;
    options.constrained = constrained;
    const auto A = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, options);
    const CsrMatrix<double> csr = A->assemble();
    const std::int64_t n = A->rows();
    const std::pair<std::int64_t, std::int64_t> blocks[] = {{n / 5, n / 3}, {n / 2, n}};
    const SparsityPattern rows = A->pattern_of_rows(blocks);
    std::int64_t at = 0;
    for (const auto& [first, end] : blocks)
      for (std::int64_t r = first; r < end; ++r, ++at) {
        const auto expected = csr.pattern.row(r), found = rows.row(at);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end())) << r;
      }
    EXPECT_EQ(rows.rows, at);
    EXPECT_EQ(rows.cols, n);
    const std::pair<std::int64_t, std::int64_t> beyond[] = {{0, n + 1}}, crossed[] = {{1, 1}, {0, 0}};
    EXPECT_THROW((void)A->pattern_of_rows(beyond), BadArgument);
    if (n > 0) { EXPECT_THROW((void)A->pattern_of_rows(crossed), BadArgument); }
  }
}

TEST(ElementSample, ASurveyIsLikeThatOfTheAssembledMatrix) {
  const Squares squares(90, 0);
  const auto A = squares.on(test_context(), ElementScatter::gather);
  const auto sampled = survey_formats(*A), whole = survey_formats(A->assemble().pattern, Space::host);
  ASSERT_EQ(sampled.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(whole[i].spec.name());
    EXPECT_EQ(sampled[i].spec.name(), whole[i].spec.name());
    EXPECT_EQ(sampled[i].admitted, whole[i].admitted);
    if (whole[i].admitted && whole[i].spec.entry->id == "csr") {
      EXPECT_NEAR(static_cast<double>(sampled[i].bytes) / static_cast<double>(whole[i].bytes), 1, 0.1);
    }
  }
}

// The policy, with tables that predict a large gain or none. Speed is not tested.
struct PolicyWorld {
  const char* name;
  double product, assembly;  // of sell-packed, and to CSR, in seconds; a product on elements takes 1 ms
  bool knows_elements;
  bool changes;
};
class ElementPolicy : public testing::TestWithParam<PolicyWorld> {};
TEST_P(ElementPolicy, ChangesWhenThatPays) {
  const Squares squares(100, 0);
  const ContextPtr context = Context::host(1);
  const CsrMatrix<double> csr = squares.on(context, ElementScatter::atomic)->assemble();
  for (const bool overlapped : {false, true}) {
    Matrix<double> A(squares.on(context, ElementScatter::atomic));
    MachineTable table;
    table.matrices.push_back({"made up",
                              Space::host,
                              csr.rows(),
                              csr.nonzeros(),
                              {{"csr", csr.bytes(), GetParam().product * 2, 0},
                               {"sell-packed", csr.bytes(), GetParam().product, 1e-9}}});
    if (GetParam().knows_elements) {
      table.matrices[0].formats.push_back({"lma-atomic", A.elements()->bytes(), 1e-3, 0});
      table.matrices[0].formats.push_back(
          {"assembly", csr.bytes(), GetParam().product * 2, GetParam().assembly});
    }
    AutoSwitchOptions options;
    options.goal = 1e-9, options.policy.overlapped = overlapped, options.survey_seconds = 0;
    // An allowance so large that other load cannot use it up, but smaller than an assembly of 1000 s.
    options.policy.worst_factor = options.policy.forecast_factor = 1000;
    // Waits for a build beside the solve. It is called first, so that the wait is not counted.
    struct Patient final : SolveObserver {
      Matrix<double>& A;
      explicit Patient(Matrix<double>& a) : A(a) {}
      bool on_iteration(const IterationInfo&) override {
        (void)A.wait_prepared();
        return true;
      }
    } patient(A);
    AutoSwitcher<double> switcher(
        A, CostModel(table, Space::host),
        [&] {
          auto targets = survey_formats(*A.elements());
          std::erase_if(targets, [](const SwitchTarget& target) {
            return target.spec.name() != "csr" && target.spec.name() != "sell-packed";
          });
          for (SwitchTarget& target : targets) target.plan_seconds = 0;  // what the table says, nothing else
          return targets;
        },
        options, &patient);
    const Solved solved = solve_with(A, csr, {"", "cg", "", 0}, &switcher);
    switcher.finish();
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
    const auto records = switcher.candidates();
    ASSERT_FALSE(records.empty());
    const auto seen = [&](std::string_view format) -> const CandidateRecord& {
      for (const CandidateRecord& record : records)
        if (record.format == format) return record;
      throw std::runtime_error("there is no such candidate");
    };
    EXPECT_TRUE(seen("lma-atomic").ran);
    EXPECT_GT(seen("lma-atomic").measured_product, 0);
    EXPECT_GE(seen("sell-packed").predicted_convert, 0);
    if (!GetParam().changes) {
      EXPECT_TRUE(A.on_elements());
      EXPECT_TRUE(A.history().empty());
      EXPECT_FALSE(A.source_assembled()) << "there is no assembly without a gain";
      ASSERT_FALSE(switcher.decisions().empty());
      EXPECT_EQ(switcher.decisions().back().action, SwitchAction::stay);
      continue;
    }
    ASSERT_FALSE(A.history().empty());
    EXPECT_EQ(A.history()[0].from, "lma-atomic");
    const std::string to = A.history()[0].to;
    if (GetParam().knows_elements) { EXPECT_EQ(to, "sell-packed"); }
    EXPECT_EQ(A.history()[0].overlapped, overlapped);
    EXPECT_GT(A.history()[0].assemble_seconds, 0);
    EXPECT_GT(seen(to).measured_convert, 0);
    for (const DecisionRecord& decision : switcher.decisions())
      if (decision.action == SwitchAction::begin) {
        EXPECT_LE(decision.excess_seconds + decision.worst_seconds, decision.allowed_seconds);
      }
    // Slower than the element matrices, so the policy changed back to them.
    if (A.history().size() > 1) { EXPECT_EQ(A.history()[1].to, "lma-atomic"); }
  }
}
INSTANTIATE_TEST_SUITE_P(All, ElementPolicy,
                         testing::Values(PolicyWorld{"pays", 1e-6, 1e-9, true, true},
                                         PolicyWorld{"assembly_too_dear", 1e-6, 1e3, true, false},
                                         PolicyWorld{"no_faster", 1e-2, 1e-9, true, false},
                                         PolicyWorld{"pays_by_a_table_without_elements", 1e-12, 0, false,
                                                     true}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace protean::test
