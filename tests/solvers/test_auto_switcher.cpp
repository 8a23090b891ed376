// The policy in real solves: it changes, stays, changes back or cancels, and the answer is right each time.
// The clock is simulated: only the formats of these tests advance it, so the results do not depend on other
// load.
#include "solvers/auto_switcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

std::atomic<std::int64_t> microseconds{0};  // building threads advance it, too
double simulated_time() { return 1e-6 * static_cast<double>(microseconds.load()); }

// csr whose products take `wait` simulated microseconds, and whose build takes 1500.
constexpr std::int64_t build_microseconds = 1500;
class Waiting final : public AssembledMatrix<double>, public HasRowArrays<double> {
 public:
  explicit Waiting(const BuildRequest<double>& request, std::int64_t wait)
      : AssembledMatrix<double>(request),
        csr_(make_matrix(find_format("csr"), request.csr, request.context)),
        wait_(wait) {
    microseconds += build_microseconds;
  }
  CsrMatrix<double> to_csr() const override { return csr_->to_csr(); }
  std::size_t bytes() const noexcept override { return csr_->bytes(); }
  void diagonal(VectorView<double> d) const override { csr_->diagonal(d); }
  // The arrays are not read here.
  RowArrays<double> row_arrays() const noexcept override {
    return {.kind = RowArrays<double>::Kind::csr, .rows = this->rows()};
  }

 protected:
  void do_update_values(const CsrMatrix<double>& csr) override { csr_->update_values(csr); }
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    microseconds += wait_;
    csr_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> csr_;
  std::int64_t wait_;
};

using Made = std::unique_ptr<AssembledMatrix<double>>;
Made make_start(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 2000); }
Made make_fast(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 100); }
Made make_slower(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 2200); }
Made make_slow(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 8000); }
Made make_broken(const BuildRequest<double>&) { throw std::runtime_error("no luck"); }
Made make_endless(const BuildRequest<double>& r) {
  for (int k = 0; k < 5000; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const Buffer<double> place_to_cancel(r.context, 100000);
  }
  return make_fast(r);
}

Admission accept(const Context&, const SparsityPattern& p, const FormatParams&, std::size_t value_bytes) {
  return Admission::accept(p.bytes() + static_cast<std::size_t>(p.nonzeros) * value_bytes, p.nonzeros);
}

constexpr Kernel kernel(MakeMatrix<double> make) { return {"native", true, false, {}, make, nullptr}; }
constexpr Kernel start_kernels[] = {kernel(make_start)}, fast_kernels[] = {kernel(make_fast)},
                 slow_kernels[] = {kernel(make_slow)}, slower_kernels[] = {kernel(make_slower)},
                 broken_kernels[] = {kernel(make_broken)}, endless_kernels[] = {kernel(make_endless)};
FormatEntry entry(std::string_view id, std::span<const Kernel> kernels) {
  return {.family = "test",
          .id = id,
          .title = "for tests",
          .source = "",
          .traits = {},
          .params = {},
          .kernels = kernels,
          .admit = accept};
}
const FormatEntry start = entry("csr", start_kernels), fast = entry("fast", fast_kernels),
                  slow = entry("slow", slow_kernels), slower = entry("slower", slower_kernels),
                  broken = entry("broken", broken_kernels), endless = entry("endless", endless_kernels);

// A solve of a 2D problem that begins in `start`. The table predicts `promise` of its product time for each
// target, and a build time of `convert` products.
struct Live {
  ContextPtr context = Context::host(1);  // no threads to wait for on a busy machine
  CsrMatrix<double> csr = generate(context, "poisson-2d", {{"n", 40.0}});
  AdaptiveOperator<double> A{csr, make_matrix(start, csr, context), {.clock = simulated_time}};
  MachineTable table;
  AutoSwitchOptions options{.policy = {}, .goal = 1e-10, .max_iterations = 10000};
  int surveys = 0;
  Vector<double> x{context, csr.rows()}, b{context, csr.rows()};

  double promise = 0.2, convert = 1;
  bool measured_targets = true;  // false: the table has `start` alone

  std::unique_ptr<AutoSwitcher<double>> switcher(std::vector<const FormatEntry*> targets,
                                                 SolveObserver* inner = nullptr) {
    targets.insert(targets.begin(), &start);
    MeasuredMatrix measured{"test", Space::host, csr.rows(), csr.nonzeros(), {}};
    std::vector<SwitchTarget> offered;
    for (const FormatEntry* target : targets) {
      const bool first = target == &start;
      if (first || measured_targets)
        measured.formats.push_back({std::string(target->id), csr.bytes(), first ? 1e-3 : promise * 1e-3,
                                    first ? 0 : convert * 1e-3});
      offered.push_back({{.entry = target, .params = {}, .kernel = {}}, true, {}, csr.bytes()});
    }
    table.matrices = {measured};
    return std::make_unique<AutoSwitcher<double>>(
        A, CostModel(table, Space::host),
        [this, offered] {
          ++surveys;
          return offered;
        },
        options, inner);
  }

  // Waits between two iterations until the build beside the solve is ready.
  struct Patient final : SolveObserver {
    AdaptiveOperator<double>& A;
    explicit Patient(AdaptiveOperator<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo&) override {
      if (A.preparation() == Preparation::running) (void)A.wait_prepared();
      return true;
    }
  } patient{A};

  SolveReport solve(SolveObserver& observer, const char* method = "cg", double tolerance = 1e-10) {
    for (std::int64_t i = 0; i < b.size(); ++i) b[i] = 1.0 + static_cast<double>(i % 5), x[i] = 0;
    SolverOptions solver;
    solver.stopping.relative_tolerance = tolerance;
    const SolveReport report = make_solver<double>(method, solver)->solve(A, b, x, nullptr, &observer);
    EXPECT_TRUE(report.converged()) << report.detail;
    // The residual is computed in csr, independently of the formats that ran.
    Vector<double> r(context, csr.rows());
    make_matrix(find_format("csr"), csr, context)->apply(x, r);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < b.size(); ++i)
      difference += (b[i] - r[i]) * (b[i] - r[i]), norm += b[i] * b[i];
    EXPECT_LE(std::sqrt(difference / norm), 2 * tolerance);
    return report;
  }
};

const CandidateRecord& of(const std::vector<CandidateRecord>& records, std::string_view format) {
  for (const CandidateRecord& record : records)
    if (record.format == format) return record;
  throw std::runtime_error("there is no such candidate");
}

class AutoSwitcherLive : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(AutoSwitcherLive, ChangesToAFormatThatPays) {
  const auto [method, overlapped] = GetParam();
  Live live;
  live.options.policy.overlapped = overlapped;
  const auto switcher = live.switcher({&fast}, &live.patient);
  std::string line;
  switcher->on_switch = [&](const std::string& text) { line = text; };
  live.solve(*switcher, method);
  switcher->finish();
  ASSERT_FALSE(live.A.history().empty());
  EXPECT_EQ(live.A.history()[0].to, "fast");
  EXPECT_EQ(live.A.history()[0].overlapped, overlapped);
  EXPECT_NE(line.find("csr -> fast"), std::string::npos) << line;
  EXPECT_EQ(live.surveys, 1);
  ASSERT_FALSE(switcher->decisions().empty());
  bool begun = false;
  for (const DecisionRecord& decision : switcher->decisions())
    if (decision.action == SwitchAction::begin) {
      begun = true;
      EXPECT_EQ(decision.format, "fast");
      EXPECT_GT(decision.gain_seconds, 0);
      EXPECT_GT(decision.cost_seconds, 0);
      EXPECT_LE(decision.excess_seconds + decision.worst_seconds, decision.allowed_seconds);
      EXPECT_FALSE(decision.reason.empty());
    }
  EXPECT_TRUE(begun);
  const auto records = switcher->candidates();
  const CandidateRecord& seen = of(records, "fast");
  EXPECT_TRUE(seen.ran);
  EXPECT_GT(seen.predicted_product, 0);
  EXPECT_GT(seen.measured_product, 0);
  EXPECT_GT(seen.measured_convert, 0);
  EXPECT_LT(seen.measured_product, of(records, "csr").measured_product);
}

INSTANTIATE_TEST_SUITE_P(Methods, AutoSwitcherLive,
                         testing::Combine(testing::Values("cg", "bicgstab", "gmres"), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) ? "_overlapped" : "_blocking");
                         });

TEST(AutoSwitcher, StaysWhereNothingIsGained) {
  Live live;
  live.promise = 0.99;
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  switcher->finish();
  EXPECT_TRUE(live.A.history().empty());
  ASSERT_FALSE(switcher->decisions().empty());
  EXPECT_NE(switcher->decisions().back().reason.find("no format is expected to be faster"), std::string::npos)
      << switcher->decisions().back().reason;
}

TEST(AutoSwitcher, StaysWhereTheConversionCostsTooMuch) {
  Live live;
  live.convert = 1e5;
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  EXPECT_TRUE(live.A.history().empty());
}

TEST(AutoSwitcher, ASolveOfAFewIterationsIsNotEvenSurveyed) {
  Live live;
  live.options.goal = 0.95;
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher, "gmres", 0.95);
  switcher->finish();
  EXPECT_EQ(live.surveys, 0);
  EXPECT_TRUE(switcher->decisions().empty());
  EXPECT_TRUE(switcher->candidates().empty());
}

// Calls keep_rows() as the solver does on a GPU if cg runs in one kernel.
TEST(AutoSwitcher, LeavesTheFormatToASolveThatKeepsTheRows) {
  using Kind = RowArrays<double>::Kind;
  Live live;
  EXPECT_EQ(live.A.row_arrays().kind, Kind::none);  // a schedule may change the format
  auto switcher = live.switcher({&fast});
  EXPECT_EQ(live.A.row_arrays().kind, Kind::csr);
  live.A.keep_rows(true);
  for (std::int64_t k = 0; k < 300; ++k) {
    microseconds += 2000;
    const double residual = std::pow(0.95, static_cast<double>(k));
    EXPECT_TRUE(
        switcher->on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
  }
  EXPECT_EQ(live.surveys, 0);
  ASSERT_EQ(switcher->decisions().size(), 1u);
  EXPECT_EQ(switcher->decisions()[0].action, SwitchAction::stay);
  EXPECT_NE(switcher->decisions()[0].reason.find("resident"), std::string::npos);
  // Other changes are refused as well.
  EXPECT_FALSE(live.A.switch_to({.entry = &fast}, 300));
  ASSERT_EQ(live.A.failures().size(), 1u);
  EXPECT_EQ(live.A.failures()[0].failure, SwitchFailure::refused);
  live.A.keep_rows(false);
  EXPECT_TRUE(live.A.switch_to({.entry = &fast}, 300));
  live.A.prepare({.entry = &start});
  (void)live.A.wait_prepared();
  live.A.keep_rows(true);
  EXPECT_FALSE(live.A.adopt_prepared(301));
  live.A.keep_rows(false);
  switcher.reset();
  EXPECT_EQ(live.A.row_arrays().kind, Kind::none);
}

TEST(AutoSwitcher, GoesBackFromASlowFormatAndDoesNotTryItAgain) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&slow});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 2U);
  EXPECT_EQ(live.A.history()[0].to, "slow");
  EXPECT_EQ(live.A.history()[1].to, "csr");
  EXPECT_TRUE(of(switcher->candidates(), "slow").lost);
}

TEST(AutoSwitcher, ABrokenBuildIsRememberedAndTheNextBestTaken) {
  for (const bool overlapped : {false, true}) {
    Live live;
    live.options.policy.overlapped = overlapped;
    const auto switcher = live.switcher({&broken, &fast}, &live.patient);
    live.solve(*switcher);
    switcher->finish();
    EXPECT_EQ(live.A.failures().size(), 1U);
    EXPECT_TRUE(of(switcher->candidates(), "broken").lost);
    EXPECT_NE(of(switcher->candidates(), "broken").why.find("no luck"), std::string::npos);
    ASSERT_FALSE(live.A.history().empty());
    EXPECT_EQ(live.A.history()[0].to, "fast");
  }
}

TEST(AutoSwitcher, ABuildThatDoesNotEndIsCancelledWithTheSolve) {
  Live live;
  live.options.policy.overlapped = true;
  const auto switcher = live.switcher({&endless});
  live.solve(*switcher);
  switcher->finish();
  EXPECT_TRUE(live.A.history().empty());
  ASSERT_EQ(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].failure, SwitchFailure::cancelled);
  EXPECT_EQ(live.A.preparation(), Preparation::none);
}

TEST(AutoSwitcher, AnInnerObserverSeesEachIterationAndMayEndTheSolve) {
  struct Stop final : SolveObserver {
    std::int64_t calls = 0;
    bool on_iteration(const IterationInfo& info) override {
      EXPECT_EQ(info.iteration, calls);
      return ++calls < 31;
    }
  } stop;
  Live live;
  live.options.policy.overlapped = true;
  const auto switcher = live.switcher({&endless}, &stop);
  for (std::int64_t i = 0; i < live.b.size(); ++i) live.b[i] = 1, live.x[i] = 0;
  const SolveReport report =
      make_solver<double>("cg")->solve(live.A, live.b, live.x, nullptr, switcher.get());
  EXPECT_EQ(report.reason, StopReason::interrupted);
  EXPECT_EQ(report.iterations, 30);
  EXPECT_EQ(live.A.preparation(), Preparation::none) << "ended with the solve";
}

// The caller's observer takes the same time without changes of format.
TEST(AutoSwitcher, TheTimeOfTheInnerObserverIsNotChargedToTheChanges) {
  struct Slow final : SolveObserver {
    bool on_iteration(const IterationInfo&) override {
      microseconds += 50000;  // 25 products of csr
      return true;
    }
  } observer;
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&fast}, &observer);
  live.solve(*switcher);
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to, "fast");
  bool begun = false;
  for (const DecisionRecord& decision : switcher->decisions())
    if (decision.action == SwitchAction::begin) {
      begun = true;
      EXPECT_NEAR(decision.excess_seconds, 0, 1e-3) << "half a product";
    }
  EXPECT_TRUE(begun);
}

// The next build is likely to be slowed down like the cancelled one.
TEST(AutoSwitcher, AfterACancelledBuildConversionsAreExpectedToTakeTwiceAsLong) {
  Live live;
  live.options.policy.overlapped = true;
  const auto switcher = live.switcher({&endless, &fast});
  const auto expected = [&] { return of(switcher->candidates(), "fast").predicted_convert; };
  double before = 0, after = 0;
  for (std::int64_t k = 0; k < 400 && after == 0; ++k) {
    live.A.apply(live.b, live.x);
    const bool building = live.A.preparation() == Preparation::running;
    if (building) microseconds += 10000;  // the build slows the solve down more than was expected
    const double residual = std::pow(0.97, static_cast<double>(k));
    EXPECT_TRUE(
        switcher->on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
    if (switcher->candidates().empty()) continue;
    while (live.A.abandoned()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (live.A.failures().empty()) before = expected();
    if (!live.A.failures().empty() && expected() != before) after = expected();
  }
  ASSERT_EQ(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].failure, SwitchFailure::cancelled);
  EXPECT_TRUE(of(switcher->candidates(), "endless").lost);
  EXPECT_GT(before, 0);
  EXPECT_NEAR(after / before, 2, 1e-6);
  switcher->finish();
}

TEST(AutoSwitcher, AFormatTheTableDoesNotKnowIsLeftAlone) {
  Live live;
  live.measured_targets = false;
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  EXPECT_TRUE(live.A.history().empty());
  EXPECT_FALSE(of(switcher->candidates(), "fast").admitted);
  EXPECT_NE(of(switcher->candidates(), "fast").why.find("no measurement"), std::string::npos);
}

// The change to the format that is a little slower costs so little that another one may follow; the change back
// does not count.
TEST(AutoSwitcher, ChangesAreCounted) {
  for (const int most : {1, 2}) {
    Live live;
    live.options.policy.overlapped = false;
    live.options.policy.most_switches = most;
    const auto switcher = live.switcher({&slower, &fast});
    live.solve(*switcher);
    switcher->finish();
    std::vector<std::string> changes;
    for (const SwitchRecord& change : live.A.history()) changes.push_back(change.to);
    if (most == 1) {
      EXPECT_EQ(changes, (std::vector<std::string>{"slower", "csr"}));
      EXPECT_NE(switcher->decisions().back().reason.find("has been changed 1 times"), std::string::npos)
          << switcher->decisions().back().reason;
    } else {
      EXPECT_EQ(changes, (std::vector<std::string>{"slower", "csr", "fast"}));
    }
  }
}

// The same time is predicted for both, so after a change to one of them the other gains nothing.
TEST(AutoSwitcher, AfterAChangePredictionsAreRelativeToTheNewFormat) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&fast, &slow});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to, "fast");
}

// The whole catalogue with survey and built-in table, as in the command.
TEST(AutoSwitcher, WithTheCatalogueAndTheBuiltInTable) {
  const ContextPtr context = Context::host(1);  // no threads to wait for on a busy machine
  const CsrMatrix<double> csr = generate(context, "anisotropic-2d", {{"n", 150.0}, {"epsilon_y", 0.001}});
  // Each reading of the clock advances it by 100 us, so every product takes the same time.
  std::atomic<std::int64_t> looks{0};
  AdaptiveOperator<double> A(csr, make_matrix(find_format("csr"), csr, context),
                             {.clock = [&] { return 1e-4 * static_cast<double>(++looks); }});
  AutoSwitchOptions options;
  options.goal = 1e-8, options.policy.overlapped = false;
  AutoSwitcher<double> switcher(
      A, CostModel(builtin_machine(), Space::host), [&] { return survey_formats(csr.pattern, Space::host); },
      options);
  Vector<double> b(context, csr.rows()), x(context, csr.rows());
  for (std::int64_t i = 0; i < b.size(); ++i) b[i] = 1, x[i] = 0;
  EXPECT_TRUE(make_solver<double>("cg")->solve(A, b, x, nullptr, &switcher).converged());
  switcher.finish();
  const auto records = switcher.candidates();
  EXPECT_GE(records.size(), 10U);
  EXPECT_GT(of(records, "csr").measured_product, 0);
  EXPECT_GT(of(records, "dia").predicted_product, 0);
  EXPECT_LT(of(records, "dia").predicted_product, of(records, "csr").measured_product);
  EXPECT_TRUE(A.failures().empty());
}

}  // namespace
}  // namespace protean::test
