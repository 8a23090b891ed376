// The policy in real solves: it changes the format or leaves it, and the answer is right each time.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "operators/policy/cost_model.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/live_switcher.hpp"
#include "solvers/solver.hpp"

namespace protean::test {
namespace {

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

// Other work on the machine takes the processor in two of three iterations, for as long as a hundred products.
class Interrupted final : public Preconditioner<double> {
 public:
  explicit Interrupted(const ContextPtr& context, std::int64_t n) : Preconditioner<double>(context, {n, n}) {}
  std::string_view name() const noexcept override { return "interrupted"; }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> r, double beta, VectorView<double> z) const override {
    if (++applications_ % 3 != 0) microseconds += 200'000;
    axpby<double>(*this->context(), alpha, r, beta, z);
  }

 private:
  mutable int applications_ = 0;
};

TEST(AutoSwitcher, InterruptionsBetweenProductsDoNotHideAGain) {
  Live live;
  live.options.policy.overlapped = false;
  Interrupted M(live.context, live.csr.rows());
  M.ensure(live.A);
  live.M = &M;
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1u) << switcher->decisions().back().reason;
  EXPECT_EQ(live.A.history()[0].to, "fast");
  EXPECT_LE(live.A.history()[0].iteration, 16);
}

// A second solve with the switcher of the first: formats and products are known, so it changes at once, without a
// survey, where the operator begins in the first format again (as with new element matrices).
TEST(AutoSwitcher, ALaterSolveDecidesAtOnce) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&fast});
  const SolveReport first = live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1u);
  const std::int64_t changed_at = live.A.history()[0].iteration;
  EXPECT_GT(changed_at, 2);
  for (int more = 0; more < 3; ++more) {
    ASSERT_TRUE(live.A.switch_to({.entry = &start, .params = {}, .kernel = {}}, 0));
    live.options.expected_iterations = first.iterations;
    switcher->begin(live.options);
    const std::size_t before = live.A.history().size();
    live.solve(*switcher);
    switcher->finish();
    ASSERT_EQ(live.A.history().size(), before + 1);
    EXPECT_LE(live.A.history().back().iteration, 2);
    EXPECT_EQ(live.A.history().back().to, "fast");
    ASSERT_FALSE(switcher->decisions().empty());
  }
  EXPECT_EQ(live.surveys, 1);
}

// All solves have one account: a conversion that no solve could pay alone is allowed once the sequence has lasted long
// enough, and never before that.
TEST(AutoSwitcher, AConversionIsPaidBySeveralSolves) {
  Live live;
  live.options.policy.overlapped = false;
  live.convert = 150;
  const auto switcher = live.switcher({&fast});
  double iterations = static_cast<double>(live.solve(*switcher, "cg", 1e-2).iterations);
  switcher->finish();
  ASSERT_TRUE(live.A.history().empty()) << "one solve pays for it alone; the test shows nothing";
  const std::int64_t one = static_cast<std::int64_t>(iterations);
  int solves = 1;
  for (; solves < 200 && live.A.history().empty(); ++solves) {
    live.options.expected_iterations = one, live.options.following_iterations = iterations;
    switcher->begin(live.options);
    iterations += static_cast<double>(live.solve(*switcher, "cg", 1e-2).iterations);
    switcher->finish();
  }
  EXPECT_FALSE(live.A.history().empty());
  EXPECT_GT(solves, 2);
  EXPECT_EQ(live.surveys, 1);
}

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

// A survey alone gains nothing: what the rest of the solve may save must pay for a change, too. If the survey costs
// nearly nothing, a cheap change is hoped for.
TEST(AutoSwitcher, ASurveyWaitsUntilAChangeCanPay) {
  const auto surveys = [](double factor, double survey_products) {
    Live live;
    live.options.survey_seconds = survey_products * 2e-3;  // a product in `start` takes 2 ms
    const auto switcher = live.switcher({&slower});
    for (std::int64_t k = 0; std::pow(factor, k) > live.options.goal; ++k) {
      live.A.apply(live.b, live.x);
      iterate(*switcher, k, factor);
    }
    switcher->finish();
    return live.surveys;
  };
  EXPECT_EQ(surveys(0.8, 5), 0) << "104 iterations";
  EXPECT_EQ(surveys(0.8, 0.01), 1) << "104 iterations, with a survey that costs nothing";
  EXPECT_EQ(surveys(0.96, 5), 1) << "565 iterations";
  EXPECT_EQ(surveys(0.96, 300), 0) << "565 iterations, with a survey that takes half as long";
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
    iterate(*switcher, k, 0.95);
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

// A solve must not read rows of one order as rows of another.
TEST(AutoSwitcher, RowsOfAnotherOrderAreShownInThatOrderOnly) {
  using Kind = RowArrays<double>::Kind;
  Live live;
  live.A.show_rows(true);
  const auto inside = [&] {
    return dynamic_cast<const HasRowArrays<double>&>(live.A.in_order()).row_arrays().kind;
  };
  EXPECT_EQ(live.A.row_arrays().kind, Kind::csr);
  for (const char* order : {"rcm", "none"}) {
    FormatSpec spec{.entry = &start};
    spec.order = order;
    ASSERT_TRUE(live.A.switch_to(spec, 0)) << order;
    ASSERT_EQ(live.A.order_id(), order);
    EXPECT_EQ(live.A.row_arrays().kind, std::string_view(order) == "none" ? Kind::csr : Kind::none);
    EXPECT_EQ(inside(), Kind::csr);
  }
}

// The same residuals and times: what a recording of the steps takes decides.
TEST(AutoSwitcher, AChangeThatDoesNotPayForItsRecordingsIsRefused) {
  for (const double record_seconds : {0.0, 10.0}) {
    Live live;
    live.options.policy.overlapped = false;
    const auto switcher = live.switcher({&fast});
    for (std::int64_t k = 0; k < 300; ++k) {
      live.A.apply(live.b, live.x);
      const double residual = std::pow(0.97, static_cast<double>(k));
      EXPECT_TRUE(switcher->on_iteration({.iteration = k,
                                          .residual = residual,
                                          .relative_residual = residual,
                                          .record_seconds = k > 0 ? record_seconds : 0}));
    }
    switcher->finish();
    EXPECT_EQ(live.A.history().size(), record_seconds > 0 ? 0U : 1U);
    ASSERT_FALSE(switcher->decisions().empty());
    bool told = false;
    for (const DecisionRecord& decision : switcher->decisions()) {
      told = told || decision.reason.find("20 s of it to record the steps anew") != std::string::npos ||
             decision.reason.find("10 s of it to record the steps anew") != std::string::npos;
      if (decision.why.record_seconds == 0) continue;
      EXPECT_GE(decision.cost_seconds, record_seconds);
      EXPECT_GE(decision.worst_seconds, 2 * record_seconds);
    }
    EXPECT_EQ(told, record_seconds > 0);
  }
}

TEST(AutoSwitcher, OptionsAreThoseOfTheStoppingRule) {
  const AutoSwitchOptions options = switch_options(
      *Context::host(1), {.relative_tolerance = 1e-5, .absolute_tolerance = 3, .max_iterations = 77});
  EXPECT_EQ(options.goal, 1e-5);
  EXPECT_EQ(options.absolute_goal, 3);
  EXPECT_EQ(options.max_iterations, 77);
}

// The forecast names the iteration in which the first of the two tolerances is met.
TEST(AutoSwitcher, AnAbsoluteToleranceEndsTheForecast) {
  for (const bool absolute : {false, true}) {
    Live live;
    live.options.policy.overlapped = false;
    live.options.goal = absolute ? 1e-14 : 1e-5, live.options.absolute_goal = absolute ? 1e-2 : 1e-9;
    const auto switcher = live.switcher({&fast});
    for (std::int64_t k = 0; k < 100; ++k) {
      live.A.apply(live.b, live.x);
      const double relative = std::pow(0.97, static_cast<double>(k));
      EXPECT_TRUE(switcher->on_iteration(
          {.iteration = k, .residual = 1e3 * relative, .relative_residual = relative}));
    }
    ASSERT_FALSE(switcher->decisions().empty());
    int known = 0;
    for (const DecisionRecord& decision : switcher->decisions()) {
      if (!decision.remaining.known) continue;
      ++known;
      const double all = std::log(1e-5) / std::log(0.97);
      EXPECT_NEAR(decision.remaining.likely, all - static_cast<double>(decision.iteration), 1) << absolute;
    }
    EXPECT_GT(known, 0);
    switcher->finish();
  }
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

TEST(AutoSwitcher, AFormatTheTableDoesNotKnowIsLeftAlone) {
  Live live;
  live.measured_targets = false;
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  EXPECT_TRUE(live.A.history().empty());
  EXPECT_FALSE(of(switcher->candidates(), "fast").admitted);
  EXPECT_NE(of(switcher->candidates(), "fast").why.find("no measurement"), std::string::npos);
}

// The whole catalogue with survey and built-in table, as in the command.
TEST(AutoSwitcher, WithTheCatalogueAndTheBuiltInTable) {
  const ContextPtr context = Context::host(1);  // no threads to wait for on a busy machine
  const CsrMatrix<double> csr = generate(context, "anisotropic-2d", {{"n", 150.0}, {"epsilon_y", 0.001}});
  // Each reading of the clock advances it by 100 us, so every product takes the same time.
  std::atomic<std::int64_t> looks{0};
  Matrix<double> A(csr, make_matrix(find_format("csr"), csr, context),
                   {.clock = [&] { return 1e-4 * static_cast<double>(++looks); }});
  AutoSwitchOptions options;
  options.goal = 1e-8, options.policy.overlapped = false;
  AutoSwitcher<double> switcher(
      A, CostModel(builtin_machine(BuiltinHost::avx512), Space::host),
      [&] { return survey_formats(csr.pattern, Space::host); }, options);
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
