// The policy with values in float: when it changes to them, what it counts, and when it goes back. The clock is
// simulated, or residuals are given: nothing depends on the speed of the machine.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "operators/narrow_values.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/live_switcher.hpp"
#include "solvers/solver.hpp"
#include "support/multi.hpp"
#include "support/rounded_systems.hpp"

namespace protean::test {
namespace {

// csr with a parameter `values`. A product takes 2000 simulated microseconds, and fewer with values in float.
constexpr std::int64_t in_double = 2000, in_float = 1000;
class Narrow final : public AssembledMatrix<double> {
 public:
  explicit Narrow(const BuildRequest<double>& request)
      : AssembledMatrix<double>(request),
        csr_(make_matrix(find_format("csr"), request.csr, request.context,
                         {{"values", request.float_values ? "float" : "double"}})) {
    microseconds += build_microseconds;
  }
  CsrMatrix<double> to_csr() const override { return csr_->to_csr(); }
  std::size_t bytes() const noexcept override { return csr_->bytes(); }
  void diagonal(VectorView<double> d) const override { csr_->diagonal(d); }

 protected:
  void do_update_values(const CsrMatrix<double>& csr) override { csr_->update_values(csr); }
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    microseconds += float_values() ? in_float : in_double;
    csr_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> csr_;
};

Made make_narrow(const BuildRequest<double>& request) { return std::make_unique<Narrow>(request); }
constexpr Kernel narrow_kernels[] = {
    {.name = "native", .host = true, .make_f64 = make_narrow, .ordered = true, .params = values_params}};
const FormatEntry& narrow() {
  static const FormatEntry one = [] {
    FormatEntry made = entry("narrow", narrow_kernels);
    made.transposed = &find_format("csr");
    return made;
  }();
  return one;
}

// A copy whose diagonal is so many times as large.
CsrMatrix<double> with_diagonal(const CsrMatrix<double>& csr, double factor) {
  const CsrMatrix<double> copy = deep_copy(test_context(), csr);
  for (std::int64_t row = 0; row < copy.rows(); ++row)
    for (std::int64_t k = copy.pattern.row_ptr[row]; k < copy.pattern.row_ptr[row + 1]; ++k)
      if (copy.pattern.col[k] == row) const_cast<double*>(copy.values)[k] *= factor;
  return copy;
}

// A policy whose survey finds `narrow` with values in float, at the bytes that these take.
struct InFloat : Live {
  explicit InFloat(const CsrMatrix<double>& matrix)
      : Live(Context::host(1), matrix, {.clock = simulated_time}) {
    promise = 1;
    options.policy.overlapped = false, options.rounding = true;
    change_survey = [this](std::vector<SwitchTarget> found) {
      for (SwitchTarget& target : found) {
        if (target.spec.entry != &narrow()) continue;
        target.spec.params.set("values", "float");
        target.saved_bytes = static_cast<std::size_t>(4 * csr.nonzeros());
        target.bytes -= target.saved_bytes, target.rounds = true;
      }
      return found;
    };
  }
  bool rounded() const { return A.assembled()->rounds_values(); }
};

const DecisionRecord* first_of(const AutoSwitcher<double>& switcher, SwitchAction action) {
  for (const DecisionRecord& one : switcher.decisions())
    if (one.action == action) return &one;
  return nullptr;
}

// A solve whose residual falls by these factors in an iteration, which is one product. `jump` is seen each time that
// b - A x has been computed with the given values, which takes as long as a product in double.
struct GivenRates {
  double in_double = 0.95, in_float = 0.95, jump = 1e-5;
  std::int64_t first_correction = -1, went_back = -1;
  std::int64_t iterations_in_double = 0, iterations_in_float = 0;
  double seconds = 0;

  void run(InFloat& live, AutoSwitcher<double>& switcher, std::int64_t most = 100000) {
    const double begin = simulated_time();
    double level = 0, corrected_at = 0;
    std::int64_t corrections = 0;
    const double goal = std::log10(live.options.goal);
    for (std::int64_t k = 0; level > goal && k < most; ++k) {
      const bool rounded = live.rounded();
      live.A.apply(live.b, live.x);
      if (k > 0) {
        level += std::log10(rounded ? in_float : in_double);
        ++(rounded ? iterations_in_float : iterations_in_double);
      }
      if (!rounded) corrected_at = level;
      if (rounded && level <= corrected_at - 1) {
        corrected_at = level, ++corrections, microseconds += test::in_double;
        if (first_correction < 0) first_correction = k;
      }
      const double residual = std::pow(10, level);
      EXPECT_TRUE(switcher.on_iteration({.iteration = k,
                                         .residual = residual,
                                         .relative_residual = residual,
                                         .corrections = corrections,
                                         .jump = corrections > 0 ? jump : 0}));
      if (rounded && !live.rounded()) went_back = k;
    }
    seconds = simulated_time() - begin;
    switcher.finish();
  }
};

TEST(PolicyInFloat, GoesToFloatByItsBytesAndStays) {
  InFloat live(diffusion(40));
  const auto switcher = live.switcher({&narrow()});
  GivenRates rates;
  rates.run(live, *switcher);
  EXPECT_TRUE(live.rounded());
  EXPECT_EQ(rates.went_back, -1);
  ASSERT_EQ(live.A.history().size(), 1u);
  const SwitchRecord& change = live.A.history()[0];
  EXPECT_EQ(change.to, "narrow");
  EXPECT_EQ(change.from_values, "double");
  EXPECT_EQ(change.to_values, "float (rounded)");
  const DecisionRecord* const begun = first_of(*switcher, SwitchAction::begin);
  ASSERT_NE(begun, nullptr);
  EXPECT_EQ(begun->format, "narrow in float");
  EXPECT_LE(begun->excess_seconds + begun->worst_seconds, begun->allowed_seconds);
  // The table knows narrow in double, which is as fast as csr. Float is forecast by the bytes.
  const auto records = switcher->candidates();
  const CandidateRecord &seen = of(records, "narrow in float"), &csr = of(records, "csr");
  const auto traffic = [&](std::size_t bytes) {
    return static_cast<double>(bytes) + 16.0 * static_cast<double>(live.csr.rows());
  };
  const std::size_t bytes = live.csr.bytes();
  const double product = csr.measured_product;
  EXPECT_NEAR(seen.predicted_product / product,
              traffic(bytes - static_cast<std::size_t>(4 * live.csr.nonzeros())) / traffic(bytes), 0.001);
  EXPECT_NEAR(seen.measured_product / product, 0.5, 0.001);
  // What an iteration gains is less the share of the products in double, one each time that the residual has fallen to
  // a tenth, in 45 iterations, and less the iterations that are expected to be too many.
  EXPECT_NEAR(begun->gain_seconds / product, 1 - 1.1 * (seen.predicted_product / product + 1 / 44.9), 0.01);
}

TEST(PolicyInFloat, IsUndoneForGoodWhereTheResidualFallsTooSlowly) {
  for (const double slower : {1.3, 2.5}) {
    InFloat live(diffusion(40));
    const auto switcher = live.switcher({&narrow()});
    GivenRates rates{.in_float = std::pow(0.95, 1 / slower)};
    rates.run(live, *switcher);
    ASSERT_FALSE(live.A.history().empty());
    EXPECT_EQ(live.A.history()[0].to_values, "float (rounded)");
    const double in_first = 2e-3 * (static_cast<double>(rates.iterations_in_double) +
                                    static_cast<double>(rates.iterations_in_float) / slower);
    EXPECT_LE(rates.seconds, live.options.policy.forecast_factor * in_first);
    if (slower < 2) {
      EXPECT_TRUE(live.rounded()) << "1.3 times as many iterations of half the time";
      EXPECT_LT(rates.seconds, in_first);
      continue;
    }
    EXPECT_FALSE(live.rounded());
    ASSERT_EQ(live.A.history().size(), 2u);
    EXPECT_EQ(live.A.history()[1].to_values, "double");
    const DecisionRecord* const back = first_of(*switcher, SwitchAction::go_back);
    ASSERT_NE(back, nullptr);
    EXPECT_EQ(back->why.reason, Reason::rounding_slows);
    EXPECT_NEAR(back->why.share, slower, 0.1 * slower);
    EXPECT_TRUE(of(switcher->candidates(), "narrow in float").lost);
    EXPECT_NE(of(switcher->candidates(), "narrow in float").why.find("undone"), std::string::npos);
    // The excess counts the iterations that were too many.
    const double counted =
        2e-3 * (static_cast<double>(live.A.history()[0].iteration) +
                static_cast<double>(back->iteration - live.A.history()[0].iteration) / slower);
    EXPECT_NEAR(back->excess_seconds, back->seconds - counted, 0.05 * counted);
  }
}

// At once, at the first b - A x with the given values that shows it, also before anything is known of the rate.
TEST(PolicyInFloat, IsUndoneAtTheFirstCorrectionWhereTheResidualWasWrong) {
  InFloat live(diffusion(40));
  const auto switcher = live.switcher({&narrow()});
  GivenRates rates{.jump = 0.1};
  rates.run(live, *switcher);
  EXPECT_GT(rates.first_correction, 0);
  EXPECT_EQ(rates.went_back, rates.first_correction);
  const DecisionRecord* const back = first_of(*switcher, SwitchAction::go_back);
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->why.reason, Reason::rounding_jumps);
  EXPECT_EQ(back->why.share, 0.1);
  EXPECT_EQ(live.A.history().size(), 2u) << "for good";
}

TEST(PolicyInFloat, IsUndoneWhereTheSolveHasLeftIt) {
  InFloat live(diffusion(40));
  struct Leaves final : SolveObserver {
    Matrix<double>& A;
    int rounded = 0;
    std::int64_t left = -2;
    explicit Leaves(Matrix<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo& info) override {
      if (A.assembled()->rounds_values() && ++rounded == 20)
        A.leave_rounding("breakdown, as the driver says it"), left = info.iteration;
      return true;
    }
  } leaves(live.A);
  const auto switcher = live.switcher({&narrow()}, &leaves);
  GivenRates rates;
  rates.run(live, *switcher);
  EXPECT_EQ(rates.went_back, leaves.left);
  const DecisionRecord* const back = first_of(*switcher, SwitchAction::go_back);
  ASSERT_NE(back, nullptr);
  EXPECT_NE(back->reason.find("breakdown, as the driver says it"), std::string::npos) << back->reason;
}

// Another solve of a method without reliable updates goes back before its first iteration, and is not changed again;
// nothing is lost for the one after it.
TEST(PolicyInFloat, IsLeftInASolveThatMayNotRound) {
  InFloat live(diffusion(40));
  const auto switcher = live.switcher({&narrow()});
  GivenRates().run(live, *switcher);
  ASSERT_TRUE(live.rounded());
  live.options.no_rounding = "method gmres has no reliable updates";
  switcher->begin(live.options);
  GivenRates second;
  second.run(live, *switcher);
  EXPECT_EQ(second.went_back, 0);
  EXPECT_EQ(second.iterations_in_float, 0);
  bool told = false;
  for (const DecisionRecord& one : switcher->decisions())
    told =
        told || (one.why.reason == Reason::rounding_refused && one.reason.find("gmres") != std::string::npos);
  EXPECT_TRUE(told);
  EXPECT_FALSE(of(switcher->candidates(), "narrow in float").lost);
  live.options.no_rounding.clear();
  switcher->begin(live.options);
  GivenRates third;
  third.run(live, *switcher);
  EXPECT_TRUE(live.rounded());
}

TEST(PolicyInFloat, StaysInDoubleWithoutAForecast) {
  InFloat live(diffusion(40));
  const auto switcher = live.switcher({&narrow()});
  GivenRates rates{.in_double = 1};
  rates.run(live, *switcher, 1000);
  EXPECT_TRUE(live.A.history().empty()) << "how long a trial takes is not known";
}

TEST(PolicyInFloat, StaysInDoubleWhereFloatCannotHoldAValue) {
  CsrMatrix<double> csr = deep_copy(test_context(), diffusion(40));
  const_cast<double*>(csr.values)[7] = 1e-50;
  InFloat live(csr);
  const auto switcher = live.switcher({&narrow()});
  GivenRates().run(live, *switcher);
  EXPECT_TRUE(live.A.history().empty());
  const CandidateRecord record = of(switcher->candidates(), "narrow in float");
  EXPECT_TRUE(record.lost);
  EXPECT_NE(record.why.find("1e-50"), std::string::npos) << record.why;
}

// Real solves by cg: the answer is right by the matrix that was given, and a well conditioned system takes hardly more
// iterations than in double.
TEST(PolicyInFloat, AWellConditionedSystemStaysInFloat) {
  const CsrMatrix<double> csr = with_diagonal(diffusion(60, 0, 0.5), 1.02);
  Live alone(Context::host(1), csr, {.clock = simulated_time});
  alone.promise = 0.99;
  const auto none = alone.switcher({&fast});
  const SolveReport whole = alone.solve(*none);
  ASSERT_TRUE(alone.A.history().empty());
  InFloat live(csr);
  live.options.following_iterations = 5000;
  const auto switcher = live.switcher({&narrow()});
  const SolveReport report = live.solve(*switcher);
  switcher->finish();
  EXPECT_TRUE(live.rounded());
  EXPECT_EQ(live.A.history().size(), 1u);
  EXPECT_EQ(report.restarts, 0);
  EXPECT_GE(report.corrections, 3);
  EXPECT_LE(static_cast<double>(report.iterations), 1.1 * static_cast<double>(whole.iterations));
}

// As 1138_bus: float makes it another matrix. The policy tries, and goes back for good; the answer is right all the
// same.
TEST(PolicyInFloat, ABadlyConditionedSystemIsTriedAndUndone) {
  for (const double fixed : {1e-7, 1e-9}) {
    SCOPED_TRACE(fixed);
    constexpr double tolerance = 1e-5;
    const CsrMatrix<double> csr = barely_definite(300, fixed);
    InFloat live(csr);
    live.options.following_iterations = 5000, live.options.goal = tolerance;
    const auto switcher = live.switcher({&narrow()});
    const SolveReport report = live.solve(*switcher, "cg", tolerance);
    switcher->finish();
    ASSERT_EQ(live.A.history().size(), 2u) << "tried once, and never again";
    EXPECT_EQ(live.A.history()[0].to_values, "float (rounded)");
    EXPECT_EQ(live.A.history()[1].to_values, "double");
    EXPECT_FALSE(live.rounded());
    const DecisionRecord* const back = first_of(*switcher, SwitchAction::go_back);
    ASSERT_NE(back, nullptr);
    EXPECT_EQ(back->reason.find("undone"), 0u) << back->reason;
    EXPECT_EQ(back->iteration, live.A.history()[1].iteration);
    EXPECT_TRUE(of(switcher->candidates(), "narrow in float").lost);
    EXPECT_GE(report.corrections, 1);
    // A later solve does not try it, either.
    switcher->begin(live.options);
    (void)live.solve(*switcher, "cg", tolerance);
    switcher->finish();
    EXPECT_EQ(live.A.history().size(), 2u);
  }
}

// A kept system: the next solves begin in float, with new values, too, and have the answers of systems that know
// nothing of float.
TEST(PolicyInFloat, KeptSystemsGoOnInFloatWithNewValues) {
  const CsrMatrix<double> csr = diffusion(40, 0, 0.5);
  InFloat live(csr);
  live.options.following_iterations = 5000;
  const auto switcher = live.switcher({&narrow()});
  std::vector<CsrMatrix<double>> kept;
  for (int step = 0; step < 4; ++step) {
    if (step > 0) {
      const CsrMatrix<double> next = with_diagonal(csr, 1 + 0.01 * step / 3);
      kept.push_back(next);
      live.A.update_values(next);
      live.csr = next;
      switcher->begin(live.options);
    }
    const SolveReport report = live.solve(*switcher);
    switcher->finish();
    EXPECT_TRUE(live.rounded()) << step;
    EXPECT_EQ(live.A.history().size(), 1u) << step;
    EXPECT_GE(report.corrections, 3) << step;
    // By a system of its own, in double.
    const auto now = make_matrix(find_format("csr"), live.csr, live.context);
    Vector<double> x(live.context, live.csr.rows());
    for (std::int64_t i = 0; i < x.size(); ++i) x[i] = 0;
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-10;
    ASSERT_TRUE(make_solver<double>("cg", options)->solve(*now, live.b, x, nullptr).converged());
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < x.size(); ++i)
      difference = std::max(difference, std::abs(x[i] - live.x[i])), norm = std::max(norm, std::abs(x[i]));
    EXPECT_LE(difference, 1e-7 * norm) << step;
  }
}

}  // namespace
}  // namespace protean::test
