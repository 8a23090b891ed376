// Format "auto", of a matrix and of a kept system: what is chosen, and how a policy goes on from there.
#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/parallel.hpp"
#include "formats/selectors/selector.hpp"
#include "gtest/gtest.h"
#include "operators/policy/builtin_machine.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/policy_clock.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/changing_values.hpp"
#include "systems/seconds.hpp"

namespace protean::test {
namespace {

template <class T>
void expect_product(const AssembledMatrix<T>& A, const CsrMatrix<T>& csr) {
  const auto x = sample_vector<T>(csr.cols(), 5);
  std::vector<T> y(static_cast<std::size_t>(csr.rows()));
  A.apply(VectorView<const T>{x.data(), csr.cols()}, VectorView<T>{y.data(), csr.rows()});
  EXPECT_TRUE(product_is_right<T>(csr, 1, x, 0, {}, y));
}

TEST(AutoFormat, IsTheFormatThatTheRuleNames) {
  for (const auto& [kind, n] :
       {std::pair{"poisson-2d", 60.0}, {"elasticity-3d", 8.0}, {"random-spd", 4000.0}}) {
    SCOPED_TRACE(kind);
    const auto csr = generate(test_context(), kind, {{"n", n}});
    // On each processor by the same table, in which something is to be chosen for these matrices.
    const MachineTable& machine = builtin_machine(BuiltinHost::avx512);
    // As many as pay for a conversion, and too few to try formats.
    ChoiceOptions options;
    options.expected_iterations = 5000, options.machine = &machine;
    const auto choice = choose_format(csr.pattern, CostModel(machine, Space::host), options);
    ASSERT_NE(choice.id, "csr") << "a matrix for which something is to be chosen";
    const auto A = make_matrix("auto", csr, test_context(), {}, {}, options);
    EXPECT_EQ(A->name(), choice.id);
    expect_product(*A, csr);
    // For a few products no conversion pays.
    EXPECT_EQ(make_matrix("auto", csr, test_context(), {}, {}, {.expected_iterations = 1})->name(), "csr");
    const auto single = convert_values<float>(test_context(), csr);
    const auto A32 = make_matrix("auto", single, test_context(), {}, "native", options);
    ChoiceOptions of_single = options;  // it has fewer bytes, so another format may be the fastest
    of_single.value_bytes = sizeof(float);
    EXPECT_EQ(A32->name(), choose_format(single.pattern, CostModel(machine, Space::host), of_single).id);
    expect_product(*A32, single);
  }
}

TEST(AutoFormat, TakesOnlyDeterministicKernelsInThatMode) {
  const auto context = Context::host(2, {.deterministic = true});
  const auto csr = generate(context, "poisson-3d", {{"n", 20}});
  const auto A = make_matrix("auto", csr, context);
  const ChoiceOptions options{.deterministic = true};
  EXPECT_EQ(A->name(), choose_format(csr.pattern, CostModel(Space::host), options).id);
}

// A band, but 100 rows between the samples have their entries anywhere: a choice by samples sees a band.
CsrMatrix<double> nearly_a_band() {
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
  return csr_from_triplets<double>(test_context(), n, n, entries);
}
MachineTable with_fast_diagonals(const CsrMatrix<double>& csr) {
  MachineTable table;
  table.matrices = {{"band",
                     Space::host,
                     csr.rows(),
                     csr.nonzeros(),
                     {{"csr", csr.bytes(), 1e-3, 0}, {"dia", csr.bytes() / 2, 1e-4, 1e-4}}}};
  return table;
}

TEST(AutoFormat, IsCsrWhereTheChosenFormatRefusesTheWholeMatrix) {
  const auto csr = nearly_a_band();
  const MachineTable table = with_fast_diagonals(csr);
  EXPECT_EQ(choose_format(csr.pattern, CostModel(table, Space::host)).id, "dia");
  EXPECT_THROW((void)make_matrix(find_format("dia"), csr, test_context()), FormatRefused);
  EXPECT_EQ(make_matrix("auto", csr, test_context(), {}, {}, {.machine = &table})->name(), "csr");
}

TEST(AutoFormat, IsCsrForRowsThatAreNotSorted) {
  const auto sorted = generate(test_context(), "poisson-2d", {{"n", 60}});
  const RowsReversed reversed(sorted);
  const CsrMatrix<double>& csr = reversed.csr;
  const auto A = make_matrix("auto", csr, test_context());
  EXPECT_EQ(A->name(), "csr");
  expect_product(*A, sorted);
  // The policy cannot change the format of such a matrix, and says so before it solves.
  std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0), x(b.size(), 7.0);
  const auto message = message_of<BadMatrix>([&] {
    (void)solve(csr, {b.data(), csr.rows()}, {x.data(), csr.rows()},
                {.policy = "auto", .context = test_context()});
  });
  EXPECT_TRUE(has(message, "sorted_copy()")) << message;
  EXPECT_EQ(x[0], 7.0);
}

TEST(AutoFormat, RefusesWhatBelongsToOneFormat) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60}});
  EXPECT_TRUE(has(message_of<BadArgument>([&] {
                    (void)make_matrix("auto", csr, test_context(), {{"C", "8"}});
                  }),
                  "parameters belong to one format"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)make_matrix("auto", csr, test_context(), {}, "mkl"); }),
                  "kernel mkl belongs to one format"));
  EXPECT_TRUE(has(message_of<BadArgument>([&] { (void)make_matrix("sell-c-sigmo", csr, test_context()); }),
                  "Did you mean 'sell-c-sigma'?"));
  // By name it is the other make_matrix().
  EXPECT_EQ(make_matrix("sell-c-sigma", csr, test_context(), {{"C", "4"}})->params().integer("C"), 4);
}

// A format that a sample promises and the whole matrix refuses is named, and so is what was taken instead.
TEST(LinearSystem, AFormatOfAutoThatIsRefusedIsNamed) {
  const auto csr = nearly_a_band();
  const std::int64_t n = csr.rows();
  const std::vector<double> b(static_cast<std::size_t>(n), 1.0);
  std::vector<double> x(b.size(), 0.0);
  MachineTable table = with_fast_diagonals(csr);
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

// Format "auto" begins in csr and a policy changes it, if nobody says how many iterations there will be.
TEST(LinearSystem, AutoBeginsInCsrAndAPolicyChangesIt) {
  Sequence one(120);
  const MachineTable table = promise(one, "ell");
  SolveSettings settings{.preconditioner = "jacobi",
                         .machine = &table,
                         .context = Context::host(available_threads()),
                         .overlapped = false};
  LinearSystem<double> system(one.csr, settings);
  system.set_up();
  const PolicyClock clock(*system.matrix().adaptive(), table);
  const SolveResult first = one.solve(system);
  EXPECT_TRUE(first.converged());
  EXPECT_LE(one.residual(), 1.01e-8);
  EXPECT_TRUE(first.policy);
  EXPECT_TRUE(has(first.format_reason, "csr, from which a policy changes")) << first.format_reason;
  ASSERT_EQ(first.switches.size(), 1u);
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

  // The survey reads columns of the sample as columns of sorted rows.
  std::vector<std::int32_t> col(one.csr.pattern.col, one.csr.pattern.col + one.csr.nonzeros());
  const std::int64_t last = one.n - 1, begin = one.csr.pattern.row_ptr[last];
  std::reverse(col.begin() + begin, col.end());
  std::reverse(one.values.begin() + begin, one.values.end());
  CsrMatrix<double> unsorted = one.current();
  unsorted.pattern.col = col.data();
  settings.expected_iterations = 0;
  for (const char* asked : {"by-format", "auto"}) {
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
  settings.policy = "by-format", settings.expected_iterations = 400;
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

// A reading of a clock may take as long as a small product, so the policy reads its clock twice an iteration, and the
// watch of the preconditioner once.
TEST(LinearSystem, TheDefaultReadsFewClocks) {
  Sequence one(40);
  LinearSystem<double> system(one.csr, {.context = test_context()});
  system.set_up();
  static std::int64_t of_policy, of_watch;
  of_policy = of_watch = 0;
  system.matrix().adaptive()->let_change({.clock = [] { return 1e-7 * static_cast<double>(++of_policy); }});
  Stopwatch::other_clock = [] { return 1e-7 * static_cast<double>(++of_watch); };
  const SolveResult result = one.solve(system);
  Stopwatch::other_clock = nullptr;
  system.matrix().adaptive()->let_change();
  ASSERT_TRUE(result.converged());
  EXPECT_TRUE(result.policy);
  EXPECT_TRUE(result.preconditioner_changes.empty());
  ASSERT_GT(result.report.iterations, 60);
  EXPECT_GE(of_policy, 2 * result.report.iterations);
  EXPECT_LE(of_policy, 2 * result.report.iterations + result.report.iterations / 2 + 20);
  EXPECT_GE(of_watch, result.report.iterations);
  EXPECT_LE(of_watch, result.report.iterations + 20);
}

// The policy considers csr and what the selector names, and no other format.
TEST(LinearSystem, APolicyAsksTheSelector) {
  Sequence one(120);
  // All formats are promised to be fast; ell least of all, and it alone is among the formats that "sedaghati" knows.
  MachineTable table = promise(one, "ell");
  for (const char* other : {"sell-c-sigma", "dia", "jad"})
    table.matrices[0].formats.push_back({other, one.csr.bytes(), 1e-5, 1e-5});
  SolveSettings settings{.preconditioner = "jacobi",
                         .machine = &table,
                         .context = Context::host(available_threads()),
                         .selector = "sedaghati",
                         .overlapped = false};
  LinearSystem<double> system(one.csr, settings);
  system.set_up();
  const PolicyClock clock(*system.matrix().adaptive(), table);
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
  model.set_up();
  const PolicyClock other_clock(*model.matrix().adaptive(), table);
  const SolveResult all = one.solve(model);
  EXPECT_GT(all.candidates.size(), result.candidates.size()) << "the cost model asks about all";
}

// While another solve uses the matrix, a policy that nobody asked for leaves it as it is.
TEST(LinearSystem, AutoDoesNotChangeAMatrixThatAnotherSolveUses) {
  Sequence one(120);
  const MachineTable table = promise(one, "ell");
  const SolveSettings settings{.preconditioner = "jacobi",
                               .machine = &table,
                               .context = Context::host(available_threads()),
                               .overlapped = false};
  SystemMatrix<double> matrix(settings.context, one.csr);
  SystemSolver<double> solver(settings), inner(settings);
  solver.set_up(matrix);
  const PolicyClock clock(*matrix.adaptive(), table);
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
