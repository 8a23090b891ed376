// A kept system: what it remembers, what it makes anew, and that it solves as a fresh one does.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/generate/generate.hpp"
#include "core/parallel.hpp"
#include "formats/selectors/selector.hpp"
#include "gtest/gtest.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

template <class Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) { return error.what(); }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A matrix whose values change in a sequence, with its right-hand side.
struct Sequence {
  explicit Sequence(const CsrMatrix<double>& matrix)
      : csr(matrix),
        n(csr.rows()),
        values(csr.values, csr.values + csr.nonzeros()),
        b(sample_vector<double>(n, 3)),
        x(b.size(), 0.0) {}
  explicit Sequence(double points = 60) : Sequence(generate(test_context(), "poisson-2d", {{"n", points}})) {}

  CsrMatrix<double> current() const { return with_values(csr, values.data()); }
  // More weight on the diagonal: symmetric and positive definite as before, with other iterations.
  void change(double factor) {
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
        if (csr.pattern.col[k] == r) values[static_cast<std::size_t>(k)] *= factor;
  }
  SolveResult solve(LinearSystem<double>& system) {
    x.assign(x.size(), 0.0);
    return system.solve({b.data(), n}, {x.data(), n});
  }
  // ||b - A x|| / ||b|| in long double.
  double residual() const {
    long double squares = 0, norm = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      long double r = b[static_cast<std::size_t>(i)];
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        r -= static_cast<long double>(values[static_cast<std::size_t>(k)]) *
             x[static_cast<std::size_t>(csr.pattern.col[k])];
      squares += r * r;
      norm += static_cast<long double>(b[static_cast<std::size_t>(i)]) * b[static_cast<std::size_t>(i)];
    }
    return static_cast<double>(std::sqrt(squares / norm));
  }

  CsrMatrix<double> csr;
  std::int64_t n;
  std::vector<double> values, b, x;
};

// A table that promises a tenth of the time in `format`.
MachineTable promise(const Sequence& one, const char* format) {
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     one.csr.rows(),
                     one.csr.nonzeros(),
                     {{"csr", one.csr.bytes(), 1e-3, 0}, {format, one.csr.bytes(), 1e-4, 1e-4}}}};
  return table;
}

TEST(LinearSystem, KeepsFormatAndOrderOverNewValues) {
  Sequence one;
  LinearSystem<double> system(one.csr, {.preconditioner = "ic0",
                                        .format = "sell-c-sigma",
                                        .parameters = {{"C", "4"}},
                                        .order = "rcm",
                                        .context = test_context()});
  const LinearOperator<double>* before = nullptr;
  for (int step = 0; step < 5; ++step) {
    const SolveResult result = one.solve(system);
    ASSERT_TRUE(result.converged()) << result.report.detail;
    EXPECT_LE(one.residual(), 1.01e-8) << step;
    EXPECT_EQ(result.format, "sell-c-sigma");
    EXPECT_EQ(result.order, "rcm");
    if (before) {
      EXPECT_EQ(before, &system.A()) << "the matrix was made again";
      EXPECT_EQ(result.order_seconds, 0);
      EXPECT_EQ(result.convert_seconds, 0);
    } else {
      EXPECT_GT(result.order_seconds, 0);
    }
    before = &system.A();
    // What a fresh system does with these values.
    Sequence other = one;
    LinearSystem<double> fresh(other.current(), system.settings());
    EXPECT_EQ(other.solve(fresh).report.iterations, result.report.iterations) << step;
    EXPECT_EQ(other.x, one.x) << step;
    one.change(1.1);
    system.update_values(one.values.data());
  }
}

// Any sequence of calls ends as a fresh system of these settings and values does.
class AnySequence : public testing::TestWithParam<Space> {};
TEST_P(AnySequence, OfCallsIsAsAFreshSystem) {
  const char* const formats[] = {"csr", "ell", "sell-c-sigma", "bcsr", "dia", "auto"};
  const char* const orders[] = {"none", "rcm", "length", "auto"};
  const char* const methods[] = {"cg", "bicgstab", "gmres", "minres", "idr"};
  const char* const preconditioners[] = {"none", "jacobi", "ic0", "ssor"};
  const ContextPtr context = test_context(GetParam());
  if (!context) GTEST_SKIP() << "no device: this machine has no GPU";
  for (const unsigned seed : {3u, 5u, 7u}) {
    std::mt19937 random(seed);
    const auto pick = [&](const auto& from) { return from[random() % std::size(from)]; };
    Sequence one(24);
    SolveSettings settings{.format = "csr", .context = context};
    LinearSystem<double> system(one.csr, settings);
    // b and x in the memory of the solve.
    const auto run = [&](LinearSystem<double>& with, std::vector<double>& x) {
      const Placed<double> b(context, one.b);
      Placed<double> there(context, x);
      const SolveResult result = with.solve(b.read(), there.view());
      x = there.fetch();
      return result;
    };
    int solves = 0;
    for (int step = 0; step < 120; ++step) {
      const bool plain = settings.schedule.empty() && !settings.policy;
      switch (random() % 8) {
        case 0:
          settings.format = pick(formats);
          break;
        case 1:
          settings.order = pick(orders);
          break;
        case 2:
          settings.method = pick(methods);
          break;
        case 3:
          settings.preconditioner = pick(preconditioners);
          break;
        case 4:
          one.values.assign(one.csr.values, one.csr.values + one.csr.nonzeros());
          one.change(1 + 0.01 * static_cast<double>(random() % 30));
          system.update_values(one.values.data());
          break;
        case 5: {
          settings.schedule.clear(), settings.policy = false;
          if (random() % 3 == 0) settings.policy = true;
          if (random() % 3 == 0 && !settings.policy) {
            FormatSpec spec{.entry = &find_format("ell")};
            spec.order = pick(orders);
            if (spec.order == "auto") spec.order.clear();
            settings.schedule = {{.at = 3, .to = spec, .overlapped = false}};
          }
          break;
        }
        default: {
          system.set(settings);
          one.x.assign(one.x.size(), 0.0);
          Sequence other = one;
          LinearSystem<double> fresh(other.current(), settings);
          other.x.assign(other.x.size(), 0.0);
          // What the matrix does not allow, both refuse.
          const auto refused = [&](LinearSystem<double>& by, std::vector<double>& x) {
            try {
              (void)run(by, x);
            } catch (const FormatRefused&) { return true; }
            return false;
          };
          if (refused(fresh, other.x)) {
            ASSERT_TRUE(refused(system, one.x)) << step;
            settings.format = "csr";
            break;
          }
          const SolveResult kept = run(system, one.x);
          ASSERT_TRUE(kept.converged()) << step << ": " << kept.report.detail;
          ASSERT_LE(one.residual(), 1.02e-8) << step;
          other.x.assign(other.x.size(), 0.0);
          const SolveResult anew = run(fresh, other.x);
          // A format or an order that the policy or a schedule has left, or that "auto" chose before, rounds
          // differently.
          EXPECT_NEAR(static_cast<double>(kept.report.iterations),
                      static_cast<double>(anew.report.iterations),
                      plain ? 1 + 0.1 * static_cast<double>(anew.report.iterations) : 30)
              << step;
          ++solves;
        }
      }
    }
    EXPECT_GT(solves, 15);
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, AnySequence, testing::Values(Space::host, Space::device),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST(LinearSystem, RemembersWhatThePolicyHasLearnt) {
  Sequence one(200);
  const MachineTable table = promise(one, "ell");
  LinearSystem<double> system(one.csr, {.preconditioner = "jacobi",
                                        .policy = true,
                                        .machine = &table,
                                        .context = Context::host(1),
                                        .overlapped = false});
  const SolveResult first = one.solve(system);
  ASSERT_TRUE(first.converged());
  ASSERT_GE(first.switches.size(), 1u) << (first.decisions.empty() ? "" : first.decisions.back().reason);
  EXPECT_EQ(first.format, first.switches.back().to);
  for (int step = 0; step < 14; ++step) {
    one.change(1.001);
    system.update_values(one.values.data());
    const SolveResult next = one.solve(system);
    ASSERT_TRUE(next.converged());
    EXPECT_LE(one.residual(), 1.01e-8);
    EXPECT_EQ(next.convert_seconds, 0);
    // It begins in the format of the last solve. It may go back where that was measured to be slower, once.
    if (next.switches.empty()) { EXPECT_EQ(next.format, system.A().name()); }
    EXPECT_LE(next.switches.size(), 1u);
  }
}

// A solve alone is too short for a change; a sequence is not. The account grows over the solves, and so does what is
// expected: as many solves as there were.
// Empty: a sequence of short solves paid for a change that each of them alone did not pay for. Else what happened.
std::string short_solves_that_pay_for_a_change() {
  Sequence one(120);
  MachineTable table = promise(one, "ell");
  // A conversion as long as 40 products, in solves of about 25 iterations.
  table.matrices[0].formats[1].convert_seconds = 40e-3;
  SolveSettings settings{.solver = {.stopping = {.relative_tolerance = 1e-2}},
                         .policy = true,
                         .machine = &table,
                         .context = Context::host(1),
                         .overlapped = false};
  one.change(1.02);
  LinearSystem<double> system(one.current(), settings);
  if (!one.solve(system).switches.empty()) return "the first solve changed";
  std::string last;
  for (int step = 1; step < 60; ++step) {
    system.update_values(one.values.data());
    const SolveResult next = one.solve(system);
    EXPECT_TRUE(next.converged());
    EXPECT_LE(next.report.iterations, 200);
    for (const DecisionRecord& one_of : next.decisions)
      last = fmt::format("{}: iteration {}, {}", step, one_of.iteration, one_of.reason);
    Sequence other = one;
    LinearSystem<double> fresh(other.current(), settings);
    if (!other.solve(fresh).switches.empty()) return fmt::format("solve {} alone changed", step);
    if (!next.switches.empty()) return {};
  }
  return "sixty solves with one matrix never paid for a conversion of 40 products; " + last;
}

// It follows measured times, which other programs may disturb: once in five times it has to be as it should.
TEST(LinearSystem, ASequenceOfShortSolvesPaysForAChange) {
  std::string what;
  for (int attempt = 0; attempt < 5; ++attempt)
    if (what = short_solves_that_pay_for_a_change(); what.empty()) return;
  FAIL() << what;
}

TEST(LinearSystem, LagsThePreconditioner) {
  Sequence one(20);
  for (const Refresh refresh : {Refresh::automatic, Refresh::every, Refresh::never}) {
    int setups = 0;
    SolveSettings settings{.preconditioning = {.refresh = refresh}, .context = test_context()};
    LinearSystem<double> system(one.current(), settings);
    system.solver().set_preconditioner(
        [&](const LinearOperator<double>& A) -> std::unique_ptr<Preconditioner<double>> {
          return std::make_unique<CallbackPreconditioner<double>>(
              A.context(), A.shape(),
              [n = one.n](const double* r, double* z, CUstream_st*) { std::copy(r, r + n, z); },
              [&](const LinearOperator<double>&, bool) { ++setups; }, CallbackOptions{"counted", false});
        });
    for (int step = 0; step < 9; ++step) {
      ASSERT_TRUE(one.solve(system).converged());
      ASSERT_TRUE(one.solve(system).converged()) << "with another right-hand side nothing is set up";
      one.change(1.0001);
      system.update_values(one.values.data());
    }
    EXPECT_EQ(setups, refresh == Refresh::never ? 1 : 9) << to_string(refresh);
  }
}

// An old preconditioner that has become bad is made anew, whatever the lag is.
TEST(LinearSystem, APreconditionerThatIsTooOldIsSetUpAgain) {
  Sequence one(60);
  LinearSystem<double> system(
      one.csr,
      {.preconditioner = "ic0", .preconditioning = {.refresh = Refresh::never}, .context = test_context()});
  const std::int64_t good = one.solve(system).report.iterations;
  // Every second unknown is scaled by 1e4: the old factors do not fit at all.
  for (std::int64_t r = 0; r < one.n; ++r)
    for (std::int64_t k = one.csr.pattern.row_ptr[r]; k < one.csr.pattern.row_ptr[r + 1]; ++k)
      one.values[static_cast<std::size_t>(k)] *= (r % 2 ? 100 : 1) * (one.csr.pattern.col[k] % 2 ? 100 : 1);
  system.update_values(one.values.data());
  const std::int64_t bad = one.solve(system).report.iterations;
  EXPECT_GT(bad, 2 * good) << "the test shows nothing";
  EXPECT_LE(one.solve(system).report.iterations, good + good / 2) << "set up again for the solve after it";
}

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
  EXPECT_EQ(refusal({.expected_iterations = -1}), "expected_iterations is -1; it must be 0 or more");
}

TEST(LinearSystem, AMatrixOfADeviceNeedsTheContextOfThat) {
  const Sequence one(12);
  const CsrMatrix<double> there = upload(fake_device_context(), one.csr);
  EXPECT_EQ(
      message_of<WrongSpace>([&] { const LinearSystem<double> system(there, {.context = test_context()}); }),
      "the matrix lies in device memory; give the context of that device");
}

// A format that a sample promises and the whole matrix refuses is named, and so is what was taken instead.
TEST(LinearSystem, AFormatOfAutoThatIsRefusedIsNamed) {
  const int n = 200000;
  std::vector<Triplet<double>> entries;
  for (int i = 0; i < n; ++i)
    for (int d = -3; d <= 3; ++d)
      if (i + d >= 0 && i + d < n) entries.push_back({i, i + d, d == 0 ? 8.0 : -1.0});
  unsigned state = 1;
  for (int i = 30000; i < 30100; ++i)
    for (int k = 0; k < 7; ++k) {
      state = state * 1664525u + 1013904223u;
      entries.push_back({i, static_cast<std::int32_t>(state % n), 0.01});
    }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const std::vector<double> b(static_cast<std::size_t>(n), 1.0);
  std::vector<double> x(b.size(), 0.0);
  MachineTable table;  // in which diagonals are fast
  table.matrices = {{"band",
                     Space::host,
                     csr.rows(),
                     csr.nonzeros(),
                     {{"csr", csr.bytes(), 1e-3, 0}, {"dia", csr.bytes() / 2, 1e-4, 1e-4}}}};
  const SolveResult result =
      solve(csr, {b.data(), n}, {x.data(), n},
            {.method = "bicgstab", .machine = &table, .context = test_context(), .expected_iterations = 300});
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.format, "csr");
  EXPECT_TRUE(has(result.format_reason, "csr instead of dia")) << result.format_reason;
  EXPECT_EQ(result.choice.wanted, "dia");
  EXPECT_EQ(result.choice.taken, "csr");
  EXPECT_TRUE(has(result.format_reason, result.choice.refused)) << result.choice.refused;
  EXPECT_FALSE(result.choice.refused.empty());
  // The next one that is expected to be faster than csr is tried before csr is taken.
  // It is worth a look, since another matrix has no diagonals.
  table.matrices[0].formats.push_back({"hyb", csr.bytes(), 2e-4, 1e-4});
  table.matrices.push_back(table.matrices[0]);
  table.matrices[1].formats.erase(table.matrices[1].formats.begin() + 1);
  const SolveResult next =
      solve(csr, {b.data(), n}, {x.data(), n},
            {.method = "bicgstab", .machine = &table, .context = test_context(), .expected_iterations = 300});
  EXPECT_EQ(next.format, "hyb");
  EXPECT_TRUE(has(next.format_reason, "hyb instead of dia")) << next.format_reason;
  EXPECT_EQ(next.choice.wanted, "dia");
  EXPECT_EQ(next.choice.taken, "hyb");
  EXPECT_EQ(next.choice.refused, result.choice.refused);
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

// New element matrices take the solve back to these; the change that paid in the last solve is made at once in the
// next.
TEST(LinearSystem, ElementMatricesAreSolvedAgainAndAgain) {
  constexpr int side = 100, nodes = (side + 1) * (side + 1), count = side * side;
  std::vector<std::int32_t> connectivity;
  for (int j = 0; j < side; ++j)
    for (int i = 0; i < side; ++i) {
      const int at = j * (side + 1) + i;
      for (const int node : {at, at + 1, at + side + 2, at + side + 1}) connectivity.push_back(node);
    }
  // Bilinear quadrilaterals of the Laplacian, and a little of the identity.
  const double laplace[4] = {4.0 / 6, -1.0 / 6, -2.0 / 6, -1.0 / 6};
  std::vector<double> matrices;
  const auto fill = [&](double factor) {
    matrices.clear();
    for (int e = 0; e < count; ++e)
      for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
          matrices.push_back(factor * laplace[(b - a + 4) % 4] + (a == b ? 1e-6 : 0));
  };
  fill(1);
  const auto context = Context::host(1);
  const auto group = [&] { return ElementGroup<double>{count, 4, connectivity, matrices}; };
  const ElementGroup<double> groups[] = {group()};
  MachineTable table;
  table.matrices = {{"promise",
                     Space::host,
                     nodes,
                     9L * nodes,
                     {{"lma-atomic", 16L * 8 * count, 1e-3, 0},
                      {"csr", 9L * 12 * nodes, 6e-4, 0},
                      {"ell", 9L * 12 * nodes, 1e-4, 1e-4},
                      {"assembly", 9L * 12 * nodes, 6e-4, 1e-3}}}};
  LinearSystem<double> system(
      make_element_operator<double>(context, nodes, groups, {}),
      {.preconditioner = "jacobi", .policy = true, .machine = &table, .overlapped = false});
  const std::vector<double> b = sample_vector<double>(nodes, 3);
  std::vector<double> x(b.size());
  int changes = 0;
  for (int step = 0; step < 15; ++step) {
    x.assign(x.size(), 0.0);
    const SolveResult result = system.solve({b.data(), nodes}, {x.data(), nodes});
    ASSERT_TRUE(result.converged()) << step;
    changes += !result.switches.empty();
    if (step == 0) {
      ASSERT_FALSE(result.switches.empty())
          << (result.decisions.empty() ? "" : result.decisions.back().reason);
    }
    fill(1 + 0.01 * (step + 1));
    const ElementGroup<double> next[] = {{count, 4, {}, matrices}};
    system.update_values(next);
    EXPECT_EQ(system.A().name(), "lma-atomic");
  }
  // How many of the later solves change depends on the times of this machine; at what iteration, on a simulated clock:
  // AutoSwitcher.ALaterSolveDecidesAtOnce.
  EXPECT_GE(changes, 1);
}

TEST(LinearSystem, OperatorsOfTheCallerAreSolvedToo) {
  const std::int64_t n = 50;
  auto A = std::make_shared<CallbackOperator<double>>(
      test_context(), Shape{n, n},
      [n](const double* x, double* y, CUstream_st*) {
        for (std::int64_t i = 0; i < n; ++i)
          y[i] = 2.5 * x[i] - (i > 0 ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0);
      },
      CallbackOptions{"tridiagonal", false});
  LinearSystem<double> system(A);
  std::vector<double> b(static_cast<std::size_t>(n), 1.0), x(b.size(), 0.0);
  const SolveResult result = system.solve({b.data(), n}, {x.data(), n});
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.format, "tridiagonal");
  EXPECT_TRUE(has(message_of<BadArgument>([&] { LinearSystem<double> other(A, {.format = "ell"}); }),
                  "operator tridiagonal is functions of the caller"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    LinearSystem<double> other(A, {.policy = true});
                    (void)other.solve({b.data(), n}, {x.data(), n});
                  }),
                  "solve without policy and schedule"));
}

TEST(LinearSystem, NothingIsNoOperator) {
  EXPECT_TRUE(has(message_of<BadArgument>(
                      [] { LinearSystem<double> system(std::unique_ptr<ElementOperator<double>>{}); }),
                  "the element matrices are a null pointer"));
}

// A solve has changed the format of "auto": another order of the rows is taken in that format.
TEST(LinearSystem, AnotherOrderKeepsTheFormatThatASolveChangedTo) {
  Sequence one(30);
  SolveSettings settings{.context = test_context()};
  settings.schedule = {{.at = 3, .to = {&find_format("ell")}, .overlapped = false}};
  LinearSystem<double> system(one.csr, settings);
  ASSERT_EQ(one.solve(system).format, "ell");
  settings.schedule = {}, settings.order = "rcm";
  system.set(settings);
  const SolveResult result = one.solve(system);
  EXPECT_TRUE(result.converged());
  EXPECT_EQ(result.order, "rcm");
  EXPECT_EQ(result.format, "ell");
}

// A solve within a solve, from an observer: with another solver it may use the matrix, but not change it.
TEST(LinearSystem, ASolveWithinASolveChangesNothing) {
  Sequence one(20);
  SystemMatrix<double> matrix(test_context(), one.csr);
  matrix.set_format("ell");
  SystemSolver<double> outer, inner(SolveSettings{.method = "gmres"}),
      changing(SolveSettings{.policy = true});
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

// Format "auto" begins in csr and a policy changes it, where nobody says how many iterations there will be.
TEST(LinearSystem, AutoBeginsInCsrAndAPolicyChangesIt) {
  Sequence one(120);
  const MachineTable table = promise(one, "ell");
  // All threads solve, so the solve waits for the build.
  SolveSettings settings{.machine = &table, .context = Context::host(available_threads())};
  LinearSystem<double> system(one.csr, settings);
  const SolveResult first = one.solve(system);
  EXPECT_TRUE(first.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_TRUE(first.policy);
  EXPECT_TRUE(has(first.format_reason, "csr, from which a policy changes")) << first.format_reason;
  ASSERT_FALSE(first.switches.empty());
  EXPECT_EQ(first.switches[0].from, "csr");
  EXPECT_EQ(first.switches[0].to, "ell");
  EXPECT_GT(first.switches[0].iteration, 7);
  EXPECT_FALSE(first.decisions.empty());
  EXPECT_FALSE(first.candidates.empty());

  EXPECT_EQ(first.choice.taken, "csr");
  settings.expected_iterations = 400;
  LinearSystem<double> known(one.csr, settings);
  const SolveResult before = one.solve(known);
  EXPECT_EQ(before.format, "ell");
  EXPECT_EQ(before.choice.wanted, "ell");
  EXPECT_EQ(before.choice.taken, "ell");
  EXPECT_TRUE(before.choice.refused.empty());
  EXPECT_FALSE(before.policy);
  EXPECT_TRUE(before.switches.empty());
  EXPECT_TRUE(before.decisions.empty());

  // Measured times must not change the bits of a result.
  settings.expected_iterations = 0;
  settings.context = Context::host(2, {.deterministic = true});
  LinearSystem<double> deterministic(one.csr, settings);
  const SolveResult same = one.solve(deterministic);
  EXPECT_FALSE(same.policy);
  EXPECT_TRUE(same.switches.empty());

  // A short solve stays as it began.
  settings.context = Context::host(available_threads()), settings.solver.stopping.max_iterations = 7;
  LinearSystem<double> brief(one.csr, settings);
  const SolveResult few = one.solve(brief);
  EXPECT_EQ(few.format, "csr");
  EXPECT_TRUE(few.policy);
  EXPECT_TRUE(few.candidates.empty());
}

// On a device, too. What a solve needs before it begins is what it needs in csr.
TEST(LinearSystem, OnADeviceAutoBeginsInCsrAndAPolicyStandsBehindIt) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << "no device: this machine has no GPU";
  Sequence one(400);
  MachineTable table = promise(one, "ell");
  table.matrices[0].space = Space::device;
  SolveSettings settings{.machine = &table, .context = context};
  settings.solver.stopping.max_iterations = 10000;
  settings.solver.device_steps =
      "graph";  // a kernel that keeps the matrix in shared memory asks for no format
  const auto solve = [&](LinearSystem<double>& system) {
    const Placed<double> b(context, one.b);
    Placed<double> x(context, std::vector<double>(one.b.size(), 0.0));
    SolveResult result = system.solve(b.read(), x.view());
    one.x = x.fetch();
    return result;
  };
  LinearSystem<double> system(one.csr, settings);
  const SolveResult first = solve(system);
  EXPECT_TRUE(first.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_TRUE(first.policy);
  EXPECT_TRUE(has(first.format_reason, "csr, from which a policy changes")) << first.format_reason;
  // The first survey of a process has a price that its solves pay, and it runs beside a solve, which may end first.
  std::size_t candidates = first.candidates.size();
  for (int more = 0; candidates == 0 && more < 500; ++more) candidates = solve(system).candidates.size();
  EXPECT_GT(candidates, 0u);

  settings.expected_iterations = 400;
  LinearSystem<double> known(one.csr, settings);
  const SolveResult before = solve(known);
  EXPECT_EQ(before.format, "ell");
  EXPECT_FALSE(before.policy);

  // The survey reads columns of the sample as those of sorted rows.
  std::vector<std::int32_t> col(one.csr.pattern.col, one.csr.pattern.col + one.csr.nonzeros());
  const std::int64_t last = one.n - 1, begin = one.csr.pattern.row_ptr[last];
  std::reverse(col.begin() + begin, col.end());
  std::reverse(one.values.begin() + begin, one.values.end());
  CsrMatrix<double> unsorted = one.current();
  unsorted.pattern.col = col.data();
  settings.expected_iterations = 0;
  for (const bool asked : {false, true}) {
    settings.policy = asked;
    LinearSystem<double> other(upload(context, unsorted), settings);
    const SolveResult stayed = solve(other);
    EXPECT_TRUE(stayed.converged());
    EXPECT_TRUE(stayed.switches.empty());
    EXPECT_EQ(stayed.format, "csr");
    bool said = false;
    for (const DecisionRecord& decision : stayed.decisions)
      said = said || has(decision.reason, "do not ascend");
    EXPECT_TRUE(said) << "after " << stayed.report.iterations << " iterations";
  }
  settings.policy = false, settings.expected_iterations = 400;
  LinearSystem<double> chosen(upload(context, unsorted), settings);
  EXPECT_TRUE(has(solve(chosen).format_reason, "do not ascend"));
}

// A selector that nobody asks is refused, whether settings name the format or the matrix has one.
TEST(LinearSystem, ASelectorWithAFormatByNameIsRefused) {
  Sequence one;
  SolveSettings settings{.format = "ell", .context = test_context(), .selector = "clspmv"};
  const std::string with_settings = message_of<BadArgument>([&] { LinearSystem<double>(one.csr, settings); });
  EXPECT_TRUE(has(with_settings, "leave the selector out")) << with_settings;
  settings.format = "auto";
  SystemMatrix<double> matrix(settings.context, one.csr);
  matrix.set_format("ell", {}, "");
  SystemSolver<double> solver(settings);
  const std::string with_matrix = message_of<BadArgument>([&] {
    (void)solver.solve(matrix, {one.b.data(), one.n}, {one.x.data(), one.n});
  });
  EXPECT_TRUE(has(with_matrix, "leave the selector out")) << with_matrix;
  matrix.set_format("auto", {}, "");
  EXPECT_TRUE(solver.solve(matrix, {one.b.data(), one.n}, {one.x.data(), one.n}).converged());
}

// The policy considers csr and what the selector names, and no other format.
TEST(LinearSystem, APolicyAsksTheSelector) {
  Sequence one(120);
  // All formats are promised to be fast; ell least of all, and it alone is among those that "sedaghati" knows.
  MachineTable table = promise(one, "ell");
  for (const char* other : {"sell-c-sigma", "dia", "jad"})
    table.matrices[0].formats.push_back({other, one.csr.bytes(), 1e-5, 1e-5});
  SolveSettings settings{
      .machine = &table, .context = Context::host(available_threads()), .selector = "sedaghati"};
  LinearSystem<double> system(one.csr, settings);
  const SolveResult result = one.solve(system);
  EXPECT_TRUE(result.converged());
  EXPECT_TRUE(result.policy);
  ASSERT_FALSE(result.candidates.empty());
  const FormatSelector& selector = find_selector("sedaghati");
  for (const CandidateRecord& candidate : result.candidates)
    EXPECT_TRUE(candidate.format.starts_with("csr") ||
                std::count(selector.formats().begin(), selector.formats().end(),
                           candidate.format.substr(0, candidate.format.find("/"))) == 1)
        << candidate.format;
  settings.selector = std::string(default_selector);
  LinearSystem<double> model(one.csr, settings);
  const SolveResult all = one.solve(model);
  EXPECT_GT(all.candidates.size(), result.candidates.size()) << "the cost model asks about all";
}

// While another solve uses the matrix, a policy that nobody asked for leaves it as it is.
TEST(LinearSystem, AutoDoesNotChangeAMatrixThatAnotherSolveUses) {
  Sequence one(120);
  const MachineTable table = promise(one, "ell");
  const SolveSettings settings{.machine = &table, .context = Context::host(available_threads())};
  SystemMatrix<double> matrix(settings.context, one.csr);
  SystemSolver<double> solver(settings), inner(settings);
  std::optional<SystemMatrix<double>::Use> other;
  struct Watch final : SolveObserver {
    std::function<void(std::int64_t)> call;
    bool on_iteration(const IterationInfo& info) override {
      call(info.iteration);
      return true;
    }
  } watch;
  std::vector<double> y(one.b.size(), 0.0);
  watch.call = [&](std::int64_t iteration) {
    if (iteration == 0) other.emplace(matrix);
    if (iteration < 150) { EXPECT_EQ(matrix.format(), "csr") << iteration; }
    if (iteration == 100) {
      const SolveResult within = inner.solve(matrix, {one.b.data(), one.n}, {y.data(), one.n});
      EXPECT_TRUE(within.converged());
      EXPECT_FALSE(within.policy);
      EXPECT_EQ(within.format, "csr");
    }
    if (iteration == 150) other.reset();
  };
  const SolveResult result = solver.solve(matrix, {one.b.data(), one.n}, {one.x.data(), one.n}, &watch);
  EXPECT_TRUE(result.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  ASSERT_FALSE(result.switches.empty());
  EXPECT_GE(result.switches[0].iteration, 150);
  bool said = false;
  for (const DecisionRecord& decision : result.decisions)
    said = said || has(decision.reason, "another solve uses the matrix");
  EXPECT_TRUE(said);
}

// Solves of one matrix in several threads, whose format is "auto".
TEST(LinearSystem, AutoInSeveralThreads) {
  const Sequence one(60);
  const MachineTable table = promise(one, "ell");
  const SolveSettings settings{.machine = &table, .context = Context::host(1), .overlapped = true};
  SystemMatrix<double> matrix(settings.context, one.csr);
  std::vector<std::thread> threads;
  std::atomic<int> converged{0}, policies{0};
  constexpr int callers = 4, solves = 10;
  for (int caller = 0; caller < callers; ++caller)
    threads.emplace_back([&] {
      SystemSolver<double> solver(settings);
      std::vector<double> x(one.b.size());
      for (int i = 0; i < solves; ++i) {
        x.assign(x.size(), 0.0);
        const SolveResult result = solver.solve(matrix, {one.b.data(), one.n}, {x.data(), one.n});
        converged += result.converged(), policies += result.policy;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(converged, callers * solves);
  EXPECT_GE(policies, 1);
  EXPECT_FALSE(matrix.in_use());
}

}  // namespace
}  // namespace protean::test
