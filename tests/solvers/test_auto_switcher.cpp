// The policy in real solves: it changes, stays, changes back or cancels, and the answer is right each time.
// The clock is simulated: only the formats of these tests advance it, so the results do not depend on other
// load.
#include "solvers/auto_switcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Building threads advance it, too. It does not begin at 0, so that a time since then is not taken for a duration.
std::atomic<std::int64_t> microseconds{1'000'000'000'000};
std::atomic<std::int64_t> microseconds_a_reading{0};
double simulated_time() { return 1e-6 * static_cast<double>(microseconds += microseconds_a_reading); }

// A matrix of small bandwidth in a random numbering is a mesh that an order helps.
constexpr std::int64_t near_bandwidth = 100;
std::int64_t bandwidth(const SparsityPattern& pattern) {
  std::int64_t widest = 0;
  for (std::int64_t i = 0; i < pattern.rows; ++i)
    for (const std::int32_t j : pattern.row(i)) widest = std::max(widest, std::abs(i - j));
  return widest;
}
// What a product of csr takes in an order of small bandwidth; 0: the same as in any other.
std::int64_t near_microseconds = 0;

// Simulated microseconds that other work adds to each product.
std::int64_t delay = 0;

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
    microseconds += wait_ + delay;
    csr_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> csr_;
  std::int64_t wait_;
};

using Made = std::unique_ptr<AssembledMatrix<double>>;
bool start_cannot_be_built = false;
Made make_start(const BuildRequest<double>& r) {
  if (start_cannot_be_built) throw std::runtime_error("it is gone");
  const bool near = near_microseconds > 0 && bandwidth(r.csr.pattern) <= near_bandwidth;
  return std::make_unique<Waiting>(r, near ? near_microseconds : 2000);
}
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

constexpr Kernel kernel(MakeMatrix<double> make) {
  return {.name = "native", .host = true, .make_f64 = make, .ordered = true};
}
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
  ContextPtr context;
  CsrMatrix<double> csr;
  Matrix<double> A;
  MachineTable table;
  AutoSwitchOptions options{.policy = {}, .goal = 1e-10, .max_iterations = 10000};
  int surveys = 0;
  std::function<std::vector<SwitchTarget>(std::vector<SwitchTarget>)> change_survey;
  Vector<double> x{context, csr.rows()}, b{context, csr.rows()};

  double promise = 0.2, convert = 1;
  bool measured_targets = true;  // false: the table has `start` alone
  double order_price = 0;        // in the table, in products of `start`; 0: the table has none
  const Preconditioner<double>* M = nullptr;

  // One thread: there are none to wait for on a busy machine.
  Live() : Live(Context::host(1)) {}
  explicit Live(const ContextPtr& host)
      : Live(host, generate(host, "poisson-2d", {{"n", 40.0}}), {.clock = simulated_time}) {}
  Live(ContextPtr host, CsrMatrix<double> matrix, MatrixOptions adaptive)
      : context(std::move(host)),
        csr(std::move(matrix)),
        A(csr, make_matrix(start, csr, context), std::move(adaptive)) {}

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
    if (order_price > 0) measured.formats.push_back({"order-rcm", csr.bytes(), 1e-3, order_price * 1e-3});
    table.matrices = {measured};
    return std::make_unique<AutoSwitcher<double>>(
        A, CostModel(table, Space::host),
        [this, offered] {
          ++surveys;
          return change_survey ? change_survey(offered) : offered;
        },
        options, inner);
  }

  // Waits between two iterations until the build beside the solve is ready.
  struct Patient final : SolveObserver {
    Matrix<double>& A;
    explicit Patient(Matrix<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo&) override {
      if (A.preparation() == Preparation::running) (void)A.wait_prepared();
      return true;
    }
  } patient{A};

  SolveReport solve(SolveObserver& observer, const char* method = "cg", double tolerance = 1e-10) {
    for (std::int64_t i = 0; i < b.size(); ++i) b[i] = 1.0 + static_cast<double>(i % 5), x[i] = 0;
    SolverOptions solver;
    solver.stopping.relative_tolerance = tolerance;
    const SolveReport report = make_solver<double>(method, solver)->solve(A, b, x, M, &observer);
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

// The account is that of all solves: a conversion that no solve could pay alone is allowed once the sequence has lasted
// long enough, and never before that.
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

// A survey alone gains nothing: what the rest of the solve may save must pay for a change, too. Where the survey costs
// nearly nothing, a cheap change is hoped for.
TEST(AutoSwitcher, ASurveyWaitsUntilAChangeCanPay) {
  const auto surveys = [](double factor, double survey_products) {
    Live live;
    live.options.survey_seconds = survey_products * 2e-3;  // a product in `start` takes 2 ms
    const auto switcher = live.switcher({&slower});
    for (std::int64_t k = 0; std::pow(factor, k) > live.options.goal; ++k) {
      live.A.apply(live.b, live.x);
      const double residual = std::pow(factor, static_cast<double>(k));
      EXPECT_TRUE(
          switcher->on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
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

// A solve must not read rows of one order as those of another.
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

// After a change the next decision comes when the trial is over, and not with the growing intervals. A format that is
// far slower than promised has a second trial: by then it is known to be slow.
TEST(AutoSwitcher, DecidesAgainWhenTheTrialIsOver) {
  for (const int trial : {8, 13}) {
    Live live;
    live.options.policy.overlapped = false, live.options.policy.trial_products = trial;
    const auto switcher = live.switcher({&slow});
    live.solve(*switcher);
    switcher->finish();
    ASSERT_EQ(live.A.history().size(), 2U);
    EXPECT_EQ(live.A.history()[1].to, "csr");
    EXPECT_EQ(live.A.history()[1].iteration - live.A.history()[0].iteration, 2 * trial);
  }
}

// Other work on the machine that slows the first products of a new format does not make the policy give it up.
TEST(AutoSwitcher, ADisturbedTrialIsMadeAgain) {
  Live live;
  live.options.policy.overlapped = false;
  struct Disturbance final : SolveObserver {
    const Matrix<double>& A;
    int products = 0;
    explicit Disturbance(const Matrix<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo&) override {
      delay = !A.history().empty() && products++ < 7 ? 20000 : 0;
      return true;
    }
  } disturbance(live.A);
  const auto switcher = live.switcher({&fast}, &disturbance);
  live.solve(*switcher);
  switcher->finish();
  delay = 0;
  ASSERT_EQ(live.A.history().size(), 1U) << "it went back";
  EXPECT_EQ(live.A.history()[0].to, "fast");
  EXPECT_GE(disturbance.products, 16);
}

// The solve stays in the slow format, since nothing else is left; it does not try to go back with each decision.
TEST(AutoSwitcher, AWayBackThatFailsIsTriedOnce) {
  Live live;
  live.options.policy.overlapped = false;
  const auto switcher = live.switcher({&slow});
  start_cannot_be_built = true;
  live.solve(*switcher);
  start_cannot_be_built = false;
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to, "slow");
  ASSERT_EQ(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].to, "csr");
  EXPECT_NE(live.A.failures()[0].why.find("it is gone"), std::string::npos) << live.A.failures()[0].why;
}

// What the first build took beside its prediction is expected of the next ones: here less, and more.
TEST(AutoSwitcher, AMeasuredConversionCorrectsThePredictionsOfOthers) {
  for (const double convert : {1.0, 0.5}) {
    Live live;
    live.options.policy.overlapped = false;
    // A product of `fast` takes what the table promises, so that the unit of the predictions stays the product of csr.
    live.promise = 0.05, live.convert = convert;
    const auto switcher = live.switcher({&fast, &slow});
    double before = 0, after = 0, predicted = 0;
    for (std::int64_t k = 0; k < 300 && after == 0; ++k) {
      live.A.apply(live.b, live.x);
      const double residual = std::pow(0.97, static_cast<double>(k));
      EXPECT_TRUE(
          switcher->on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
      if (switcher->candidates().empty()) continue;
      const double now = of(switcher->candidates(), "slow").predicted_convert;
      if (live.A.history().empty()) continue;
      // The predictions are those before the change until the next decision, after the trial.
      if (const std::int64_t since = k - live.A.history()[0].iteration; since == 0)
        before = now, predicted = of(switcher->candidates(), "fast").predicted_convert;
      else if (since > live.options.policy.trial_products)
        after = now;
    }
    ASSERT_EQ(live.A.history().size(), 1U);
    EXPECT_EQ(live.A.history()[0].to, "fast");
    ASSERT_GT(before, 0);
    const double measured = live.A.history()[0].convert_seconds;
    EXPECT_GT(std::abs(measured / predicted - 1), 0.1) << "the prediction must have been wrong";
    EXPECT_NEAR(after / before, measured / predicted, 0.02 * measured / predicted) << convert;
    switcher->finish();
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

// The forecast is that of the iteration in which the first of the two tolerances is met.
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

TEST(AutoSwitcher, ABrokenBuildIsRememberedAndTheNextBestTaken) {
  for (const bool overlapped : {false, true}) {
    Live live;
    live.options.policy.overlapped = overlapped;
    const auto switcher = live.switcher({&broken, &fast}, &live.patient);
    live.solve(*switcher);
    switcher->finish();
    ASSERT_EQ(live.A.failures().size(), 1U);
    EXPECT_EQ(live.A.failures()[0].order, "") << "the order was to stay";
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
      EXPECT_NE(switcher->decisions().back().reason.find(
                    "has been changed 1 time, the largest number allowed; ways back"),
                std::string::npos)
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

// --- orders of the rows ---

// A mesh in a random numbering, whose products in csr take 2 ms there and 0.4 ms in an order of small bandwidth. The
// forecast says so. Finding an order takes `finding` simulated microseconds.
struct Shuffled : Live {
  explicit Shuffled(bool deterministic = false)
      : Shuffled(deterministic ? Context::host(1, {.deterministic = true}) : Context::host(1)) {}
  explicit Shuffled(const ContextPtr& host)
      : Live(host, matrix(host),
             {.clock = simulated_time,
              .find_order = [this](std::string_view id, const Context& on, const SparsityPattern& pattern) {
                return find(id, on, pattern);
              }}) {
    near_microseconds = 400;
    order_price = 5;
    options.policy.overlapped = false;
    options.cached_x = 0;
    options.forecast_order = [this](const SparsityPattern& pattern, std::size_t value_bytes) {
      EXPECT_EQ(pattern.nonzeros, csr.nonzeros());
      EXPECT_EQ(value_bytes, sizeof(double));
      ++forecasts;
      return forecast;
    };
    set_forecast(5, 0.5);
  }
  ~Shuffled() { near_microseconds = 0, microseconds_a_reading = 0; }

  static CsrMatrix<double> matrix(const ContextPtr& host) {
    const CsrMatrix<double> mesh = generate(host, "poisson-2d", {{"n", 40.0}});
    std::vector<std::int32_t> order(static_cast<std::size_t>(mesh.rows()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    return PermutedMatrix<double>(host, mesh, Permutation(host, order)).matrix();
  }
  std::vector<std::int32_t> find(std::string_view id, const Context& on, const SparsityPattern& pattern) {
    ++searches;
    microseconds += finding;
    if (broken_search) throw std::runtime_error("no order found");
    for (int k = 0; endless_search && k < 5000; ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const Buffer<double> place_to_cancel(context, 100000);
    }
    return make_order(id, on, pattern);
  }
  // Lines of x a row.
  void set_forecast(double now, double reached) {
    forecast.lines_now = now, forecast.lines_reached = reached;
    forecast.csr_bytes = static_cast<double>(csr.bytes()) / static_cast<double>(csr.rows());
    forecast.line_bytes = 25.6;
    forecast.product_ratio = forecast.ratio(forecast.csr_bytes);
  }

  OrderForecast forecast;
  std::atomic<int> forecasts{0}, searches{0};
  std::int64_t finding = 3000;
  bool broken_search = false, endless_search = false;
};

// Waits for what other threads compute: the forecast, where builds are overlapped, and builds.
struct WaitsForForecast final : SolveObserver {
  Shuffled& live;
  explicit WaitsForForecast(Shuffled& one) : live(one) {}
  bool on_iteration(const IterationInfo& info) override {
    using std::chrono::milliseconds;
    while (live.surveys > 0 && live.forecasts == 0) std::this_thread::sleep_for(milliseconds(1));
    // It has been computed, and another thread is to say so.
    if (live.surveys > 0 && info.iteration < 60) std::this_thread::sleep_for(milliseconds(1));
    return live.patient.on_iteration(info);
  }
};

// The decision about the order, which is there where it stays.
std::string why_order_stays(const AutoSwitcher<double>& switcher) {
  for (const DecisionRecord& decision : switcher.decisions())
    if (decision.format == "order rcm") {
      EXPECT_EQ(decision.action, SwitchAction::stay);
      return decision.reason;
    }
  return {};
}

class AutoSwitcherOrder : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(AutoSwitcherOrder, ChangesToAnOrderThatPays) {
  const auto [method, overlapped] = GetParam();
  Shuffled live;
  live.options.policy.overlapped = overlapped;
  live.options.policy.overlap_stretch = 1;
  WaitsForForecast waits(live);
  const auto switcher = live.switcher({}, &waits);
  std::string line;
  switcher->on_switch = [&](const std::string& text) { line = text; };
  live.solve(*switcher, method);  // checks x in the caller's numbering
  switcher->finish();
  EXPECT_EQ(live.forecasts, 1);
  EXPECT_EQ(live.searches, 1);
  ASSERT_EQ(live.A.history().size(), 1U);
  const SwitchRecord& change = live.A.history()[0];
  EXPECT_EQ(change.to, "csr");
  EXPECT_EQ(change.from_order, "none");
  EXPECT_EQ(change.to_order, "rcm");
  EXPECT_EQ(change.overlapped, overlapped);
  EXPECT_EQ(live.A.order_id(), "rcm");
  EXPECT_NE(line.find("csr -> csr, order none -> rcm"), std::string::npos) << line;
  EXPECT_EQ(why_order_stays(*switcher), "");
  const auto records = switcher->candidates();
  const CandidateRecord& seen = of(records, "csr in order rcm");
  EXPECT_EQ(seen.order, "rcm");
  EXPECT_EQ(of(records, "csr").order, "none");
  EXPECT_TRUE(seen.ran);
  EXPECT_NEAR(seen.predicted_product, 2e-3 * live.forecast.product_ratio, 1e-6);
  EXPECT_NEAR(seen.measured_product, 0.4e-3, 1e-6);
  // The price of the table, with next to nothing for csr.
  EXPECT_NEAR(seen.predicted_convert, 5 * 2e-3, 1e-4);
  EXPECT_GT(seen.uncertainty, 0.05) << "that of the forecast";
}

INSTANTIATE_TEST_SUITE_P(Methods, AutoSwitcherOrder,
                         testing::Combine(testing::Values("cg", "bicgstab", "gmres"), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) ? "_overlapped" : "_blocking");
                         });

// A table without the price of an order: a number of products of csr, where the build can be cancelled.
TEST(AutoSwitcher, ThePriceOfAnOrderIsThatOfTheTableOrAFixedOne) {
  for (const double price : {0.0, 1e5}) {
    Shuffled live;
    live.order_price = price;
    live.options.policy.overlapped = price == 0;
    WaitsForForecast inner(live);
    const auto switcher = live.switcher({}, &inner);
    live.solve(*switcher);
    switcher->finish();
    const double products = price > 0 ? price : order_products;
    EXPECT_NEAR(of(switcher->candidates(), "csr in order rcm").predicted_convert, products * 2e-3,
                0.01 * products * 2e-3);
    if (price > 0) {
      EXPECT_TRUE(live.A.history().empty()) << "it costs more than the solve";
      EXPECT_EQ(live.searches, 0);
    }
  }
}

TEST(AutoSwitcher, ASolveThatWouldWaitNeedsThePriceOfAnOrder) {
  Shuffled live;
  live.order_price = 0;
  const auto switcher = live.switcher({});
  live.solve(*switcher);
  switcher->finish();
  EXPECT_TRUE(live.A.history().empty());
  EXPECT_EQ(live.forecasts, 0);
  EXPECT_EQ(live.searches, 0);
  const std::string why = why_order_stays(*switcher);
  EXPECT_NE(why.find("the machine table does not say how long that takes (order-rcm)"), std::string::npos)
      << why;
}

// The order gains more of a product where the format has fewer bytes.
TEST(AutoSwitcher, AnOrderGainsThePartOfTheTimeThatReadsX) {
  Shuffled live;
  live.order_price = live.convert = 1e5;  // nothing changes
  live.change_survey = [](std::vector<SwitchTarget> targets) {
    targets[1].bytes /= 2;
    return targets;
  };
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  switcher->finish();
  const auto records = switcher->candidates();
  const auto ratio = [&](const std::string& format) {
    const CandidateRecord &now = of(records, format), &then = of(records, format + " in order rcm");
    return then.predicted_product /
           (now.predicted_product > 0 ? now.predicted_product : now.measured_product);
  };
  EXPECT_NEAR(ratio("csr"), live.forecast.product_ratio, 1e-6);
  EXPECT_NEAR(ratio("fast"), live.forecast.ratio(live.forecast.csr_bytes / 2), 1e-6);
  EXPECT_LT(ratio("fast"), ratio("csr") - 0.02);
}

TEST(AutoSwitcher, WhereNoRowsAreNearEachOtherTheOrderStays) {
  Shuffled live;
  live.set_forecast(5, 4.95);
  const auto switcher = live.switcher({});
  live.solve(*switcher);
  switcher->finish();
  EXPECT_TRUE(live.A.history().empty());
  EXPECT_EQ(live.searches, 0);
  EXPECT_EQ(switcher->candidates().size(), 1U);
  const std::string why = why_order_stays(*switcher);
  EXPECT_NE(why.find("rows now read 5 lines of x each, and with near rows together 5"), std::string::npos)
      << why;
}

// The forecast itself, on a random graph: nothing is near.
TEST(AutoSwitcher, TheForecastOfARandomGraphPromisesNothing) {
  const ContextPtr context = Context::host(1);
  const CsrMatrix<double> csr = generate(context, "random-spd", {{"n", 40000.0}, {"degree", 8.0}});
  Live live(context, csr, {.clock = simulated_time});
  live.options.cached_x = 0, live.options.policy.overlapped = false;
  live.order_price = 5;
  live.options.goal = 1e-300;
  const auto switcher = live.switcher({});
  for (std::int64_t k = 0; k < 40; ++k) {
    live.A.apply(live.b, live.x);
    const double residual = std::pow(0.97, static_cast<double>(k));
    EXPECT_TRUE(
        switcher->on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
  }
  EXPECT_TRUE(live.A.history().empty());
  const std::string why = why_order_stays(*switcher);
  EXPECT_NE(why.find("lines of x each"), std::string::npos) << why;
}

TEST(AutoSwitcher, WhereAnOrderIsOutOfTheQuestionTheReportSaysWhy) {
  const auto why = [](Shuffled& live) {
    const auto switcher = live.switcher({});
    live.solve(*switcher);
    switcher->finish();
    EXPECT_TRUE(live.A.history().empty());
    EXPECT_EQ(live.forecasts, 0);
    return why_order_stays(*switcher);
  };
  {
    Shuffled live(true);
    EXPECT_NE(why(live).find("in deterministic mode"), std::string::npos);
  }
  {
    Shuffled live;
    live.options.cached_x = static_cast<std::size_t>(live.csr.rows()) * sizeof(double);
    EXPECT_NE(why(live).find("x of 1600 rows is in the caches"), std::string::npos);
  }
  {
    Shuffled live;
    live.options.order = "metis";
    for (const OrderingEntry& entry : orderings())
      if (entry.id == "metis" && !entry.unavailable.empty()) {
        const auto switcher = live.switcher({});
        live.solve(*switcher);
        EXPECT_NE(switcher->decisions().front().reason.find("not in this build"), std::string::npos);
      }
  }
  {
    Shuffled live;
    live.options.order.clear();
    EXPECT_EQ(why(live), "");
  }
  {
    Shuffled live;
    ASSERT_TRUE(live.A.switch_to({.order = "rcm"}, 0));
    const auto switcher = live.switcher({});
    live.solve(*switcher);
    EXPECT_NE(why_order_stays(*switcher).find("it is rcm already"), std::string::npos);
  }
}

struct OnADevice {
  const ContextPtr device = fake_device_context(), host = Context::host(1);
  const CsrMatrix<double> csr = Shuffled::matrix(host), there = upload(device, csr);
  // A piece of the device's work takes 2 ms, in the order rcm 0.4 ms.
  const FakeDevice& works = static_cast<const FakeDevice&>(*device->simulated());
  std::atomic<bool> near{false};
  std::atomic<std::int64_t> counted{0};
  std::mutex mutex;
  double clock() {
    const std::lock_guard lock(mutex);
    const std::int64_t now = works.works();
    microseconds += (now - counted.exchange(now)) * (near ? 400 : 2000);
    return simulated_time();
  }
  Matrix<double> A{
      there, make_matrix(fake_format("csr"), there, device), {.clock = [this] { return clock(); }}};
  std::atomic<int> forecasts{0};
  double levels = 0;     // of the forecast
  bool builtin = false;  // the built-in table
  double goal = 1e-300;
  std::vector<CandidateRecord> candidates;

  // The row of an order in the machine table, in this space; 0: none.
  std::string run(Space space, double price) {
    AutoSwitchOptions options;
    options.cached_x = 0, options.goal = goal, options.max_iterations = 1'000'000;
    options.policy.overlapped = false;
    options.forecast_order = [this](const SparsityPattern& pattern, std::size_t) {
      ++forecasts;
      EXPECT_EQ(pattern.space, Space::device);
      EXPECT_EQ(pattern.nonzeros, csr.nonzeros());
      OrderForecast forecast;
      forecast.lines_now = 5, forecast.lines_reached = 0.5;
      forecast.csr_bytes = static_cast<double>(csr.bytes()) / static_cast<double>(csr.rows());
      forecast.line_bytes = 25.6, forecast.product_ratio = forecast.ratio(forecast.csr_bytes);
      forecast.levels = levels;
      return forecast;
    };
    MachineTable table{"a machine", {}};
    for (const Space each : {Space::host, Space::device}) {
      table.matrices.push_back(
          {"test", each, csr.rows(), csr.nonzeros(), {{"csr", csr.bytes(), 1e-3, 1e-4}}});
      if (each == space && price > 0)
        table.matrices.back().formats.push_back({"order-rcm", csr.bytes(), 1e-3, price * 1e-3});
    }
    AutoSwitcher<double> switcher(
        A, CostModel(builtin ? builtin_machine() : table, Space::device),
        [this] {
          SwitchTarget target;
          target.spec.entry = &fake_format("csr"), target.bytes = csr.bytes();
          return std::vector<SwitchTarget>{target};
        },
        options);
    for (std::int64_t k = 0; k < 1000 && A.order_id() == "none"; ++k) {
      microseconds += 3000;
      const double residual = std::pow(0.999, static_cast<double>(k));
      EXPECT_TRUE(
          switcher.on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
      if (k > 60) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for the forecast
      if (k > 300 && forecasts == 0) break;
    }
    switcher.finish();
    candidates = switcher.candidates();
    // The account is a part of the time that the solve has taken so far.
    for (const DecisionRecord& one : switcher.decisions())
      EXPECT_LE(one.allowed_seconds, 1.1 * (options.policy.forecast_factor - 1) * one.seconds) << one.reason;
    return why_order_stays(switcher);
  }
};

// Without a measured price on the device it follows from levels and rows; the one of the host says nothing.
TEST(AutoSwitcher, OnADeviceThePriceOfAnOrderIsEstimated) {
  for (const double levels : {0.0, 100.0, 1900.0})
    for (const Space space : {Space::host, Space::device}) {
      OnADevice live;
      live.levels = levels;
      EXPECT_EQ(live.run(space, space == Space::host ? 1e6 : 0), "");
      EXPECT_EQ(live.forecasts, 1);
      double price = -1;
      for (const CandidateRecord& one : live.candidates)
        if (one.order == "rcm") price = one.predicted_convert;
      const double expected = order_seconds_on_device(levels, live.csr.rows());
      EXPECT_GE(price, expected);
      EXPECT_LE(price, expected + 2e-3) << "the conversion is a tenth of a product";
      if (levels < 1000) { EXPECT_EQ(live.A.order_id(), "rcm"); }
    }
}

TEST(AutoSwitcher, OnADeviceAnOrderThatPaysIsTaken) {
  OnADevice live;
  EXPECT_EQ(live.run(Space::device, 5), "");
  EXPECT_EQ(live.forecasts, 1);
  EXPECT_EQ(live.A.order_id(), "rcm");
  ASSERT_EQ(live.A.history().size(), 1u);
  EXPECT_FALSE(live.A.history()[0].overlapped);
}

TEST(AutoSwitcher, OnADeviceAnOrderThatCostsTooMuchStays) {
  OnADevice live;
  EXPECT_EQ(live.run(Space::device, 1e6), "");
  EXPECT_EQ(live.forecasts, 1);
  EXPECT_EQ(live.A.order_id(), "none");
}

// A GPU goes down each level, however small it is.
TEST(AutoSwitcher, OnADeviceTheLevelsOfAnOrderAreItsPrice) {
  const auto price = [](double levels, std::string& why) {
    OnADevice live;
    live.levels = levels;
    why = live.run(Space::device, 5);
    double found = -1;
    for (const CandidateRecord& one : live.candidates)
      if (one.order == "rcm") found = one.predicted_convert;
    return found;
  };
  std::string why;
  const double few = price(10, why);
  EXPECT_EQ(why, "");
  ASSERT_GT(few, 0);
  EXPECT_LT(few, 0.03) << "five products of 2 ms, and the conversion";
  EXPECT_GE(price(1900, why), order_seconds_on_device(1900, 0));
  EXPECT_EQ(price(most_levels_on_device, why), -1);
  EXPECT_NE(why.find("suits a GPU badly"), std::string::npos) << why;
}

TEST(AutoSwitcher, OnADeviceTheBuiltInTableSuffices) {
  OnADevice live;
  live.builtin = true, live.levels = 50;
  EXPECT_EQ(live.run(Space::device, 0), "");
  EXPECT_EQ(live.forecasts, 1);
  EXPECT_EQ(live.A.order_id(), "rcm");
}

// The survey beside a solve on a device ends with the solve.
TEST(AutoSwitcher, OnADeviceTheSurveyIsCancelledWithTheSolve) {
  OnADevice live;
  std::atomic<bool> begun{false}, cancelled{false};
  AutoSwitchOptions options;
  options.order.clear(), options.goal = 1e-300;
  AutoSwitcher<double> switcher(
      live.A, CostModel({"a machine", {}}, Space::device),
      [&]() -> std::vector<SwitchTarget> {
        begun = true;
        try {
          for (int k = 0; k < 20000; ++k) {
            detail::checkpoint();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        } catch (const Cancelled&) { cancelled = true; }
        return {};
      },
      options);
  for (std::int64_t k = 0; k < 100; ++k) {
    microseconds += 3000;
    EXPECT_TRUE(switcher.on_iteration({.iteration = k, .residual = 1, .relative_residual = 1}));
  }
  while (!begun) std::this_thread::yield();
  switcher.finish();
  EXPECT_TRUE(cancelled);
}

// On a device products are timed while the solve waits: only where a change could pay for them.
TEST(AutoSwitcher, OnADeviceNoProductIsTimedWhereNoChangePays) {
  struct Solve {
    double other;  // a product in ell; it is 1 ms in csr
    std::int64_t iterations;
  };
  for (const auto& [other, iterations] :
       {Solve{2e-3, 2000}, Solve{0.5e-3, 2000}, Solve{2e-3, 150}, Solve{2e-3, 430}}) {
    OnADevice live;
    MachineTable table{"a machine", {}};
    table.matrices.push_back(
        {"test",
         Space::device,
         live.csr.rows(),
         live.csr.nonzeros(),
         {{"csr", live.csr.bytes(), 1e-3, 1e-4}, {"ell", live.csr.bytes(), other, 2e-3}}});
    AutoSwitchOptions options;
    options.order.clear(), options.goal = 1e-300, options.max_iterations = 1'000'000;
    options.policy.overlapped = false;
    AutoSwitcher<double> switcher(
        live.A, CostModel(table, Space::device),
        [&live] {
          std::vector<SwitchTarget> targets(2);
          targets[0].spec.entry = &fake_format("csr"), targets[1].spec.entry = &fake_format("ell");
          for (SwitchTarget& target : targets) target.bytes = live.csr.bytes();
          return targets;
        },
        options);
    const std::int64_t before = live.A.products();
    std::int64_t first = 0;  // iteration in which a product was timed
    for (std::int64_t k = 0; k < iterations && first == 0; ++k) {
      microseconds += 3000;
      const double residual = std::pow(0.99, static_cast<double>(k));
      EXPECT_TRUE(
          switcher.on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
      if (k > 60) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for the survey
      for (const CandidateRecord& one : switcher.candidates())
        if (one.measured_product > 0 && first == 0) first = k;
    }
    switcher.finish();
    if (iterations < 438) {  // in which it looks next; nor after the solve
      EXPECT_FALSE(switcher.candidates().empty());
      for (const CandidateRecord& one : switcher.candidates()) EXPECT_EQ(one.measured_product, 0);
      continue;
    }
    EXPECT_EQ(live.A.products(), before) << "they do not count as products of the solve";
    if (other < 1e-3) {
      EXPECT_GT(first, 0);
      EXPECT_LT(first, 200);
    } else {
      EXPECT_GE(first, 400) << "ten products are then a fortieth of the solve";
      bool said = false;
      for (const DecisionRecord& one : switcher.decisions())
        said = said || one.reason.find("no change pays for the products") != std::string::npos;
      EXPECT_TRUE(said);
    }
  }
}

TEST(AutoSwitcher, GoesBackFromAnOrderThatDisappoints) {
  Shuffled live;
  near_microseconds = 2300;
  const auto switcher = live.switcher({});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 2U);
  EXPECT_EQ(live.A.history()[0].to_order, "rcm");
  EXPECT_EQ(live.A.history()[1].to_order, "none");
  EXPECT_EQ(live.A.order_id(), "none");
  EXPECT_TRUE(of(switcher->candidates(), "csr in order rcm").lost);
  EXPECT_EQ(live.searches, 1) << "the order is not tried again";
}

// In the new order the formats are predicted from what was measured there, not from the forecast: `fast` would take
// 0.2 of 0.4 ms.
TEST(AutoSwitcher, AfterAChangeOfOrderTheMeasuredProductCorrectsThePredictions) {
  Shuffled live;
  live.promise = 0.9;
  near_microseconds = 1800;  // the forecast says 1060
  live.change_survey = [&](std::vector<SwitchTarget> targets) {
    if (live.surveys == 1) targets[1].admitted = false, targets[1].why = "not in this order";
    return targets;
  };
  const auto switcher = live.switcher({&slower});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_GE(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to_order, "rcm");
  EXPECT_EQ(live.surveys, 2) << "formats need other bytes in another order";
  const auto records = switcher->candidates();
  EXPECT_FALSE(of(records, "slower").admitted);
  EXPECT_TRUE(of(records, "slower in order rcm").admitted);
  EXPECT_NEAR(of(records, "slower in order rcm").predicted_product, 0.9 * 1.8e-3, 1e-5);
}

// The formats of the first order stay as they were predicted there.
TEST(AutoSwitcher, AfterAChangeOfOrderPredictionsForTheFirstOneStay) {
  Shuffled live;
  live.promise = 0.9, live.convert = 1e5;
  near_microseconds = 1800;
  const auto switcher = live.switcher({&slower});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1U);
  const auto records = switcher->candidates();
  EXPECT_NEAR(of(records, "slower").predicted_product, 0.9 * 2e-3, 1e-5);
  EXPECT_NEAR(of(records, "slower in order rcm").predicted_product, 0.9 * 1.8e-3, 1e-5);
}

// A change of the order may be followed by one of the format, which leaves the order as it is.
TEST(AutoSwitcher, AFormatFollowsInTheNewOrder) {
  Shuffled live;
  live.change_survey = [&](std::vector<SwitchTarget> targets) {
    if (live.surveys == 1) targets[1].admitted = false, targets[1].why = "not in this order";
    return targets;
  };
  const auto switcher = live.switcher({&fast});
  live.solve(*switcher);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 2U);
  EXPECT_EQ(live.A.history()[1].to, "fast");
  EXPECT_EQ(live.A.history()[1].from_order, "rcm");
  EXPECT_EQ(live.A.history()[1].to_order, "rcm");
  EXPECT_EQ(live.searches, 1);
  // No price of an order, but one product of csr in that order. The conversion of csr, which took much longer than
  // predicted, says nothing of others.
  EXPECT_NEAR(of(switcher->candidates(), "fast in order rcm").predicted_convert, 0.4e-3, 1e-5);
}

TEST(AutoSwitcher, AnOrderThatCannotBeFoundIsAskedForOnce) {
  for (const bool overlapped : {false, true}) {
    Shuffled live;
    live.broken_search = true;
    live.options.policy.overlapped = overlapped;
    WaitsForForecast waits(live);
    live.promise = 0.99;  // no format pays in the present order
    const auto switcher = live.switcher({&fast, &slower}, &waits);
    live.solve(*switcher);
    switcher->finish();
    EXPECT_EQ(live.searches, 1);
    EXPECT_TRUE(live.A.history().empty());
    EXPECT_EQ(live.A.failures().size(), 1U);
    for (const char* format : {"csr in order rcm", "fast in order rcm", "slower in order rcm"}) {
      EXPECT_TRUE(of(switcher->candidates(), format).lost) << format;
      EXPECT_NE(of(switcher->candidates(), format).why.find("no order found"), std::string::npos);
    }
    EXPECT_FALSE(of(switcher->candidates(), "fast").lost);
  }
}

// As with conversions: the next search is likely to be slowed down like the cancelled one.
TEST(AutoSwitcher, AfterACancelledOrderTheNextIsExpectedToTakeTwiceAsLong) {
  Shuffled live;
  live.options.policy.overlapped = true;
  live.options.forecast_order = [&](const SparsityPattern&, std::size_t) { return live.forecast; };
  live.endless_search = true;
  live.convert = 1e-3;  // next to nothing beside the order
  live.promise = 0.99;
  const auto switcher = live.switcher({&fast});
  // The one with `fast`, which is better by a little, is cancelled.
  const auto expected = [&] { return of(switcher->candidates(), "csr in order rcm").predicted_convert; };
  double before = 0, after = 0;
  for (std::int64_t k = 0; k < 400 && after == 0; ++k) {
    live.A.apply(live.b, live.x);
    if (live.A.preparation() == Preparation::running) microseconds += 10000;
    const double residual = std::pow(0.97, static_cast<double>(k));
    EXPECT_TRUE(
        switcher->on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
    while (live.A.abandoned()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (switcher->candidates().empty()) {
      continue;
    } else if (switcher->candidates().size() == 2) {  // without the order
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (live.A.failures().empty()) {
      before = expected();
    } else if (expected() != before) {
      after = expected();
    }
  }
  ASSERT_GE(live.A.failures().size(), 1U);
  EXPECT_EQ(live.A.failures()[0].failure, SwitchFailure::cancelled);
  EXPECT_EQ(live.A.failures()[0].to, "fast");
  EXPECT_GT(before, 0);
  EXPECT_NEAR(after / before, 2, 0.01);
  switcher->finish();
}

// A preconditioner that is no diagonal permutes two vectors for each product, in another order than the caller's.
TEST(AutoSwitcher, APreconditionerThatIsNoDiagonalMakesAnOrderGainLess) {
  Shuffled plain, with_M;
  plain.order_price = with_M.order_price = 1e5;
  const auto M = make_preconditioner<double>("ic0", with_M.A);
  M->ensure(with_M.A);
  with_M.M = M.get();
  const auto predicted = [](Shuffled& live) {
    const auto switcher = live.switcher({});
    live.solve(*switcher, "cg", 1e-12);
    switcher->finish();
    return of(switcher->candidates(), "csr in order rcm").predicted_product;
  };
  plain.options.goal = with_M.options.goal = 1e-12;
  plain.options.policy.worst_factor = with_M.options.policy.worst_factor =
      10;  // it looks at the first opportunity
  const double share = plain.forecast.permutation_share(sizeof(double));
  EXPECT_GT(share, 0.1);
  EXPECT_NEAR(predicted(with_M) - predicted(plain), 2 * share * 2e-3, 1e-6);
}

// Their time is measured once the order has changed. Each reading of the clock advances it by 10 us: two permutations
// seem to take that together, and a product 10 us more.
TEST(AutoSwitcher, PermutationsAreMeasuredInTheNewOrder) {
  Shuffled live;
  const auto M = make_preconditioner<double>("ic0", live.A);
  M->ensure(live.A);
  live.M = M.get();
  microseconds_a_reading = 10;
  live.options.goal = 1e-300, live.options.policy.worst_factor = 10;  // it changes at the first opportunity
  const auto switcher = live.switcher({});
  live.solve(*switcher, "cg", 1e-12);
  switcher->finish();
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.order_id(), "rcm");
  EXPECT_NEAR(of(switcher->candidates(), "csr in order rcm").measured_product, 0.42e-3, 1e-6);
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
