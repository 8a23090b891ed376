// Solves that begin with element matrices and continue with the assembled matrix: every method, every
// scatter, every format, at any iteration; with faults; and with the policy.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "core/identical.hpp"
#include "element_start.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solving.hpp"
#include "support/engines.hpp"

namespace protean::test {
namespace {

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

// Each allocation of a build fails once; the solve next to it is not affected.
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

}  // namespace
}  // namespace protean::test
