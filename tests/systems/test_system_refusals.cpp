// What a kept system refuses, and that it stays as it is.
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/changing_values.hpp"

namespace protean::test {
namespace {

TEST(LinearSystem, ArraysThatAreNoMatrixAreRefused) {
  for (const ContextPtr& context : {test_context(), fake_device_context(), test_context(Space::device)}) {
    if (!context) continue;
    const bool device = context->space() == Space::device;
    const auto refusal = [&](const std::function<void(Sequence&, std::vector<std::int32_t>&,
                                                      std::vector<std::int32_t>&)>& spoil) {
      Sequence one(12);
      std::vector<std::int32_t> row_ptr(one.csr.pattern.row_ptr.p32, one.csr.pattern.row_ptr.p32 + one.n + 1),
          col(one.csr.pattern.col, one.csr.pattern.col + one.csr.nonzeros());
      spoil(one, row_ptr, col);
      const auto csr = csr_view<double>(one.n, one.n, row_ptr.data(), col.data(), one.values.data());
      CsrMatrix<double> there = csr;
      there.pattern.nonzeros = one.csr.nonzeros();
      if (device) there = upload(context, there);
      return message_of<BadMatrix>([&] { const LinearSystem<double> system(there, {.context = context}); });
    };
    EXPECT_EQ(refusal([](auto&, auto&, auto& col) { col[7] = 144; }),
              "row 2, entry 0: column 144 is outside 0..143");
    if (!device) {
      EXPECT_TRUE(has(refusal([](auto&, auto&, auto& col) { col[1] = col[0]; }), "row 0 has column 0 twice"));
    }
    EXPECT_TRUE(has(refusal([](auto&, auto&, auto& col) { col.back() = -1; }), "column -1 is outside"));
    EXPECT_TRUE(
        has(refusal([](auto&, auto& row_ptr, auto&) { row_ptr[5] = 1; }), "row pointers must not decrease"));
    EXPECT_TRUE(has(refusal([](auto&, auto& row_ptr, auto&) { row_ptr[0] = 1; }), "row_ptr[0] is 1"));
    EXPECT_TRUE(has(refusal([](auto& one, auto&, auto&) { one.values[3] = std::nan(""); }),
                    "entry (1, 0), counted from 0, is nan"));
    // New values, too, and then the old ones stay.
    Sequence one(12);
    LinearSystem<double> system(device ? upload(context, one.csr) : one.csr,
                                {.format = context->simulated() ? "auto" : "ell", .context = context});
    if (!context->simulated()) system.set_up();
    std::vector<double> bad = one.values;
    bad.back() = std::numeric_limits<double>::infinity();
    Placed<double> there(context, bad);
    EXPECT_TRUE(has(message_of<BadMatrix>([&] { system.update_values(there.data()); }), "is inf"));
  }
}

// What can be seen of settings without a matrix is refused before one is made or read.
TEST(LinearSystem, SettingsAreCheckedWithoutAMatrix) {
  const auto refusal = [](const SolveSettings& settings) {
    return message_of<BadArgument>([&] { check(settings); });
  };
  EXPECT_NO_THROW(check({.format = "ell", .parameters = {{"max_fill", "3"}}}));
  EXPECT_TRUE(has(refusal({.format = "scr"}), "'scr'"));
  EXPECT_TRUE(has(refusal({.format = "aal"}), "'aal'")) << "before auto in the alphabet";
  EXPECT_TRUE(has(refusal({.format = "ell", .parameters = {{"max_fil", "3"}}}), "max_fil"));
  EXPECT_TRUE(has(refusal({.preconditioner = "ic0", .preconditioning = {.solves = 3}}),
                  "solves is for preconditioner auto; the preconditioner is ic0"));
  EXPECT_EQ(refusal({.expected_iterations = -1}),
            "expected_iterations is -1; it must be 0 for unknown, or a whole number from 1 to 1000000000.");
}

TEST(LinearSystem, AMatrixOfADeviceNeedsTheContextOfThat) {
  const Sequence one(12);
  const CsrMatrix<double> there = upload(fake_device_context(), one.csr);
  EXPECT_EQ(
      message_of<WrongSpace>([&] { const LinearSystem<double> system(there, {.context = test_context()}); }),
      "the matrix lies in device memory; give the context of that device");
}

TEST(LinearSystem, AWrongFormatOrOrderLeavesTheSystemAsItIs) {
  Sequence one(30);
  LinearSystem<double> system(one.csr, {.format = "ell", .order = "rcm", .context = test_context()});
  ASSERT_TRUE(one.solve(system).converged());
  EXPECT_THROW(system.set({.format = "elll", .order = "rcm", .context = test_context()}), BadArgument);
  EXPECT_THROW(system.set({.format = "ell", .order = "rmc", .context = test_context()}), BadArgument);
  const SolveResult after = one.solve(system);
  EXPECT_EQ(after.format, "ell");
  EXPECT_EQ(after.order, "rcm");
  // One that the matrix does not allow is refused by the solve, which leaves x and the system as they are.
  SolveSettings refused = system.settings();
  refused.format = "dia", refused.parameters = {{"max_fill", "1"}};
  Sequence random(generate(test_context(), "random-spd", {{"n", 500}}));
  LinearSystem<double> other(random.csr, {.format = "csr", .context = test_context()});
  ASSERT_TRUE(random.solve(other).converged());
  refused.order = "none";
  other.set(refused);
  std::vector<double> x(random.b.size(), 7.0);
  EXPECT_THROW((void)other.solve({random.b.data(), random.n}, {x.data(), random.n}), FormatRefused);
  EXPECT_EQ(x[0], 7.0);
}

// An order that could not be made is not made by the next solve either.
TEST(LinearSystem, WhatFailedIsNoLongerAskedFor) {
  const Sequence one(12);
  SystemMatrix<double> A(test_context(), one.csr);
  A.set_format("ell", {}, {}), A.set_order("length"), A.settle_named();
  ASSERT_TRUE(A.settled());
  for (const char* order : {"auto", "rcm"}) {
    A.set_order(order);
    detail::allocation_hook = [](Space, std::size_t bytes) { throw OutOfMemory("none is left", bytes); };
    EXPECT_THROW(A.settle_named(), OutOfMemory) << order;
    detail::allocation_hook = nullptr;
    EXPECT_TRUE(A.settled()) << order;
    EXPECT_EQ(A.order(), "length");
  }
  // One that was open before stays so.
  A.set_order("auto"), A.settle_named();
  EXPECT_FALSE(A.settled());
  A.set_format("csr", {}, {});
  detail::allocation_hook = [](Space, std::size_t bytes) { throw OutOfMemory("none is left", bytes); };
  EXPECT_THROW(A.settle_named(), OutOfMemory);
  detail::allocation_hook = nullptr;
  EXPECT_FALSE(A.settled());
}

TEST(LinearSystem, NothingIsNoOperator) {
  EXPECT_TRUE(has(message_of<BadArgument>(
                      [] { LinearSystem<double> system(std::unique_ptr<ElementOperator<double>>{}); }),
                  "the element matrices are a null pointer"));
}

// A solve within a solve, from an observer: with another solver it may use the matrix, but not change it.
TEST(LinearSystem, ASolveWithinASolveChangesNothing) {
  Sequence one(20);
  SystemMatrix<double> matrix(test_context(), one.csr);
  matrix.set_format("ell");
  SystemSolver<double> outer, inner(SolveSettings{.method = "gmres"}),
      changing(SolveSettings{.policy = "auto"});
  struct Nested final : SolveObserver {
    std::function<void()> call;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) call();
      return true;
    }
  } nested;
  std::vector<double> y(one.b.size(), 0.0);
  bool inside = false;
  std::string refused;
  nested.call = [&] {
    matrix.set_format("csr");  // waits for the end of the solve
    inside = inner.solve(matrix, {one.b.data(), one.n}, {y.data(), one.n}).converged();
    refused = message_of<BadArgument>([&] {
      (void)changing.solve(matrix, {one.b.data(), one.n}, {y.data(), one.n});
    });
    EXPECT_EQ(matrix.format(), "ell");
  };
  EXPECT_TRUE(outer.solve(matrix, {one.b.data(), one.n}, {one.x.data(), one.n}, &nested).converged());
  EXPECT_TRUE(inside);
  EXPECT_TRUE(has(refused, "a solve is running with this matrix")) << refused;
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_TRUE(inner.solve(matrix, {one.b.data(), one.n}, {y.data(), one.n}).converged());
  EXPECT_EQ(matrix.format(), "csr");
}

}  // namespace
}  // namespace protean::test
