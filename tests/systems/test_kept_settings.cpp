// A kept system whose settings are refused or name again what it has left, and which its own observer calls.
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "systems/grown.hpp"
#include "systems/seconds.hpp"

namespace protean::test {
namespace {

TEST(KeptSettings, ThatAreRefusedChangeNothing) {
  Grown grid(20);
  const SolveSettings good{
      .method = "cg", .preconditioner = "jacobi", .format = "ell", .order = "rcm", .context = test_context()};
  LinearSystem<double> system(grid.csr, good);
  const SolveResult before = grid.solve(system);
  const std::vector<double> x = grid.x;
  const ContextPtr other = Context::host(test_context()->threads() + 1);
  const std::pair<const char*, std::function<void(SolveSettings&)>> refused[] = {
      {"method", [](SolveSettings& s) { s.method = "cgg"; }},
      {"option", [](SolveSettings& s) { s.solver.directions = 7; }},
      {"preconditioner", [](SolveSettings& s) { s.preconditioner = "jakobi"; }},
      {"its option", [](SolveSettings& s) { s.preconditioning.fill = 3; }},
      {"format", [](SolveSettings& s) { s.format = "elll"; }},
      {"parameter",
       [](SolveSettings& s) {
         s.parameters = {{"nothing", "1"}};
       }},
      {"kernel", [](SolveSettings& s) { s.kernel = "nativ"; }},
      {"parameter of auto",
       [](SolveSettings& s) {
         s.format = "auto", s.parameters = {{"C", "4"}};
       }},
      {"order", [](SolveSettings& s) { s.order = "rmc"; }},
      {"policy and schedule",
       [](SolveSettings& s) { s.policy = "auto", s.schedule = {{.at = 1, .to = {&find_format("csr")}}}; }},
      {"context", [&](SolveSettings& s) { s.context = other; }},
      {"check_arrays", [](SolveSettings& s) { s.check_arrays = false; }},
  };
  for (const auto& [what, spoil] : refused) {
    SolveSettings bad = good;
    bad.method = "gmres", bad.preconditioner = "ilu0", bad.format = "csr", bad.order = "none";
    spoil(bad);
    std::string first;
    for (int k = 0; k < 2; ++k) {
      const std::string said = message_of<Error>([&] { system.set(bad); });
      EXPECT_TRUE(k == 0 || said == first) << what;
      first = said;
    }
    EXPECT_EQ(system.settings().method, "cg") << what;
    EXPECT_EQ(system.settings().format, "ell") << what;
    const SolveResult after = grid.solve(system);
    EXPECT_EQ(after.format, "ell") << what;
    EXPECT_EQ(after.order, "rcm") << what;
    EXPECT_EQ(after.preconditioner, "jacobi") << what;
    EXPECT_EQ(after.report.iterations, before.report.iterations) << what;
    EXPECT_EQ(after.convert_seconds, 0) << what << ": the matrix was made again";
    EXPECT_EQ(grid.x, x) << what;
  }
  // A context that is left out, or is like the context of the matrix, is the context of the matrix.
  SolveSettings same = good;
  same.context = nullptr, same.method = "minres";
  system.set(same);
  EXPECT_EQ(system.settings().context, test_context());
  same.context = Context::host(test_context()->threads());
  system.set(same);
  EXPECT_TRUE(grid.solve(system).converged());
}

TEST(KeptSettings, ElementsAndOperatorsHaveTheirOwnContext) {
  Grown grid(5);
  const std::shared_ptr<LinearOperator<double>> A = make_matrix("csr", grid.csr, test_context());
  const ContextPtr other = Context::host(test_context()->threads() + 1);
  EXPECT_TRUE(has(message_of<BadArgument>([&] { LinearSystem<double> system(A, {.context = other}); }),
                  "which stays"));
  LinearSystem<double> system(A, {.context = test_context()});
  EXPECT_THROW(system.set({.context = other}), BadArgument);
  EXPECT_TRUE(grid.solve(system).converged());
}

// A schedule has left the format, or the order, that is named: who names it again gets it.
TEST(KeptSettings, AFormatOrAnOrderNamedAgainIsMadeAgain) {
  Grown grid(20);
  SolveSettings settings{.format = "ell", .context = test_context()};
  SchedulePoint point;
  point.at = 1, point.to.entry = &find_format("coo"), point.to.order = "rcm", point.overlapped = false;
  settings.schedule = {point};
  LinearSystem<double> system(grid.csr, settings);
  const SolveResult left = grid.solve(system);
  EXPECT_EQ(left.format, "coo");
  EXPECT_EQ(left.order, "rcm");
  settings.schedule.clear();
  system.set(settings);
  SolveResult result = grid.solve(system);
  EXPECT_EQ(result.format, "ell");
  EXPECT_EQ(result.order, "none");
  EXPECT_TRUE(result.switches.empty());
  // Once it is there, another call makes nothing again.
  system.set(settings);
  EXPECT_EQ(grid.solve(system).convert_seconds, 0);
  // The order alone, of a format that nobody named.
  settings.format = "auto", settings.schedule = {point};
  system.set(settings);
  EXPECT_EQ(grid.solve(system).order, "rcm");
  settings.schedule.clear(), settings.expected_iterations = 10;
  system.set(settings);
  result = grid.solve(system);
  EXPECT_EQ(result.order, "none");
  EXPECT_EQ(result.format, "coo") << "the format that it had is kept in the other order";
  // A policy knows better: what it has found stays.
  settings.format = "ell", settings.expected_iterations = 0, settings.policy = "auto";
  system.set(settings);
  ASSERT_EQ(grid.solve(system).format, "ell");
  ASSERT_TRUE(system.matrix().adaptive()->switch_to({.entry = &find_format("csr")}, 0, "the test"));
  settings.solver.stopping.relative_tolerance = 1e-6;
  system.set(settings);
  system.set_up();
  EXPECT_EQ(system.matrix().format(), "csr");
  settings.policy = "by-format";
  system.set(settings);
  EXPECT_EQ(grid.solve(system).format, "ell");
}

// A band whose rows are shuffled: format dia takes it in order rcm only. Nobody named dia.
TEST(KeptSettings, AnOrderInWhichTheFormatOfASolveIsNotPossibleHasAnotherFormat) {
  constexpr std::int32_t n = 900;
  std::vector<Triplet<double>> entries;
  std::vector<std::int32_t> place(n);
  std::iota(place.begin(), place.end(), 0);
  std::mt19937 random(3);
  for (std::size_t i = n - 1; i > 0; --i) std::swap(place[i], place[random() % (i + 1)]);
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t j = std::max(0, i - 1); j < std::min(n, i + 2); ++j)
      entries.push_back(
          {place[static_cast<std::size_t>(i)], place[static_cast<std::size_t>(j)], i == j ? 2.5 : -1.0});
  Grown grid(30);
  grid.csr = csr_from_triplets<double>(test_context(), n, n, entries);
  SolveSettings settings{.order = "rcm", .context = test_context()};
  settings.schedule = {{.at = 1, .to = {&find_format("dia")}, .overlapped = false}};
  LinearSystem<double> system(grid.csr, settings);
  const SolveResult taken = grid.solve(system);
  ASSERT_EQ(taken.format, "dia") << (taken.failed_switches.empty() ? "" : taken.failed_switches[0].why);
  ASSERT_EQ(taken.order, "rcm");
  settings.schedule.clear(), settings.order = "none";
  system.set(settings);
  for (int k = 0; k < 2; ++k) {
    const SolveResult result = grid.solve(system);
    EXPECT_TRUE(result.converged());
    EXPECT_EQ(result.order, "none");
    EXPECT_EQ(result.format, "csr");
    EXPECT_TRUE(has(result.format_reason, "dia, which the matrix had before, is not possible in order none"))
        << result.format_reason;
  }
  // A caller who names it gets a message.
  settings.format = "dia";
  system.set(settings);
  for (int k = 0; k < 2; ++k) EXPECT_THROW((void)grid.solve(system), FormatRefused);
  settings.order = "rcm";
  system.set(settings);
  EXPECT_EQ(grid.solve(system).format, "dia");
}

TEST(KeptSettings, AnotherMethodBeginsPreconditionerAutoAnew) {
  Stopwatch::other_clock = products;
  // Couplings of both signs, so that amg is no candidate.
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t side = 40;
  for (std::int32_t i = 0; i < side; ++i)
    for (std::int32_t j = 0; j < side; ++j) {
      const std::int32_t at = i * side + j;
      if (i > 0) entries.push_back({at, at - side, 1}), entries.push_back({at - side, at, 1});
      if (j > 0) entries.push_back({at, at - 1, -1}), entries.push_back({at - 1, at, -1});
      entries.push_back({at, at, 4.001});
    }
  Grown grid(side);
  grid.csr = csr_from_triplets<double>(test_context(), grid.n, grid.n, entries);
  SolveSettings settings{.method = "bicgstab",
                         .preconditioner = "auto",
                         .preconditioning = {.solves = 1000},
                         .format = "csr",
                         .context = test_context()};
  LinearSystem<double> system(grid.csr, settings);
  system.set_up();
  counted_matrix = &system.A();
  std::string used;
  for (int k = 0; k < 6; ++k) used = grid.solve(system).preconditioner;
  EXPECT_EQ(used, "ilu0") << "the test shows nothing";
  settings.method = "cg";
  system.set(settings);
  for (int k = 0; k < 6; ++k) {
    const SolveResult result = grid.solve(system);
    EXPECT_TRUE(result.converged()) << result.report.detail;
    EXPECT_NE(result.preconditioner, "ilu0");
    EXPECT_TRUE(k > 0 || result.preconditioner == "jacobi");
  }
  Stopwatch::other_clock = nullptr, counted_matrix = nullptr;
}

// Which candidate type auto tries, and when, depends on time. It reports wrong input at once.
TEST(KeptSettings, PreconditionerAutoRefusesWrongNodesInTheFirstSolve) {
  Grown grid(20);
  MultiVector<double> shorter(test_context(), 7, 1);
  fill<double>(*test_context(), 1.0, VectorView<double>{shorter.data(), 7});
  for (const bool unknowns : {true, false}) {
    SolveSettings settings{.preconditioner = "auto", .format = "csr", .context = test_context()};
    if (unknowns)
      settings.preconditioning.unknowns = 3;
    else
      settings.preconditioning.near_null_space = &shorter;
    LinearSystem<double> system(grid.csr, settings);
    for (int k = 0; k < 3; ++k) EXPECT_THROW((void)grid.solve(system), ShapeMismatch) << k;
    settings.preconditioning = {};
    system.set(settings);
    EXPECT_TRUE(grid.solve(system).converged());
  }
}

// It says that it has entries, and then it has none.
class WithoutEntries final : public LinearOperator<double>,
                             public HasDiagonal<double>,
                             public HasRows<double> {
 public:
  explicit WithoutEntries(const CsrMatrix<double>& csr)
      : LinearOperator<double>(test_context(), {csr.rows(), csr.cols()}),
        matrix_(make_matrix("csr", csr, test_context())) {}
  std::string_view name() const noexcept override { return "without-entries"; }
  void diagonal(VectorView<double> d) const override { matrix_->abilities().diagonal->diagonal(d); }
  CsrMatrix<double> rows_as_csr() const override { throw NotAvailable("there are no entries"); }

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    matrix_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> matrix_;
};

TEST(KeptSettings, PreconditionerAutoIsJacobiWhereEntriesCannotBeHad) {
  Grown grid(20);
  LinearSystem<double> system(std::make_shared<WithoutEntries>(grid.csr),
                              {.preconditioner = "auto",
                               .preconditioning = {.solves = 1000000},
                               .context = test_context(),
                               .expected_iterations = 500});
  for (int k = 0; k < 2; ++k) {
    const SolveResult result = grid.solve(system);
    EXPECT_TRUE(result.converged());
    EXPECT_EQ(result.preconditioner, "jacobi");
  }
}

TEST(KeptSystem, CallsOfItsOwnObserverAreRefusedAndTheSolveGoesOn) {
  Grown grid(20);
  SolveSettings settings{.preconditioner = "jacobi", .format = "csr", .context = test_context()};
  LinearSystem<double> system(grid.csr, settings);
  const SolveResult undisturbed = grid.solve(system);
  const std::vector<double> x = grid.x;
  std::vector<double> y(grid.b.size(), 0.0);
  SolveSettings other = settings;
  other.method = "gmres", other.preconditioner = "ilu0";
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"set()", [&] { system.set(other); }},
      {"set()", [&] { system.solver().set(other); }},
      {"set_preconditioner()", [&] { system.solver().set_preconditioner({}); }},
      {"set_null_space()", [&] { system.solver().set_null_space({}); }},
      {"set_up()", [&] { system.set_up(); }},
      {"update_values()", [&] { system.update_values(grid.grown); }},
      {"update_values()", [&] { system.update_values(grid.grown.values); }},
      {"update_values()", [&] { system.update_values(std::span<const ElementGroup<double>>()); }},
      {"solve()",
       [&] {
         (void)system.solve({grid.b.data(), grid.n}, {y.data(), grid.n});
       }},
      {"multi_solve()",
       [&] {
         (void)system.multi_solve({grid.b.data(), grid.n, 1, grid.n}, {y.data(), grid.n, 1, grid.n});
       }},
  };
  struct Calling final : SolveObserver, MultiSolveObserver {
    const std::function<void()>* call = nullptr;
    std::string said;
    bool on_iteration(const IterationInfo& info) override { return make(info.iteration); }
    bool on_iteration(const MultiIterationInfo& info) override { return make(info.iteration); }
    bool make(std::int64_t iteration) {
      if (iteration == 3) said = message_of<BadArgument>(*call);
      return true;
    }
  };
  for (const auto& [name, call] : calls) {
    Calling observer;
    observer.call = &call;
    const SolveResult result = grid.solve(system, &observer);
    EXPECT_TRUE(has(observer.said, std::string(name) + " was called while the system solves"))
        << name << ": " << observer.said;
    EXPECT_EQ(result.report.iterations, undisturbed.report.iterations) << name;
    EXPECT_EQ(grid.x, x) << name;
    observer.said.clear();
    EXPECT_TRUE(grid.solve_columns(system, 2, &observer).converged());
    EXPECT_TRUE(has(observer.said, name)) << observer.said;
    EXPECT_EQ(y, std::vector<double>(y.size(), 0.0)) << name;
  }
  // An observer that throws ends its solve, and nothing else.
  struct Throwing final : SolveObserver {
    bool on_iteration(const IterationInfo&) override { throw std::runtime_error("enough"); }
  } throwing;
  EXPECT_THROW((void)grid.solve(system, &throwing), std::runtime_error);
  system.set(settings);
  EXPECT_EQ(grid.solve(system).report.iterations, undisturbed.report.iterations);
  // New values between two iterations are for the matrix.
  struct Changing final : SolveObserver {
    std::function<void()> call;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) call();
      return true;
    }
  } changing;
  changing.call = [&] { system.matrix().update_values(grid.grown); };
  const SolveResult changed = grid.solve(system, &changing);
  EXPECT_TRUE(changed.converged());
  EXPECT_EQ(changed.report.restarts, 1);
  EXPECT_LE(residual_of(grid.grown, grid.b, grid.x), 1.01e-8 * changed.report.rhs_norm);
}

}  // namespace
}  // namespace protean::test
