// The policy in solves with several right-hand sides: products count for all columns, and there is one account, however
// many columns a solve has. The clock is simulated: only the products and builds of these tests advance it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/generate/generate.hpp"
#include "core/locality.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "operators/policy/cost_model.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/multi_method.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/steering_observer.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

std::atomic<std::int64_t> column_microseconds{1'000'000'000'000};
double column_time() { return 1e-6 * static_cast<double>(column_microseconds.load()); }

// csr on a host or a simulated device. A product takes `matrix` simulated microseconds and `vector` for each vector: in
// one pass, or for each vector alone.
struct Times {
  std::int64_t matrix, vector;
  bool one_pass;
  std::int64_t of(std::int64_t columns) const {
    return one_pass ? matrix + vector * columns : columns * (matrix + vector);
  }
};
constexpr Times csr_times{2000, 100, true}, fast_times{500, 100, true}, slower_times{2300, 100, true},
    slow_times{9000, 100, true}, lone_times{1000, 100, false}, quick_lone_times{60, 10, false};
constexpr std::int64_t build_time = 1500;

// Divides the time of each product in an order of small bandwidth, where it is not 1.
std::int64_t gain_of_order = 1;
bool is_narrow(const SparsityPattern& pattern) {
  std::int64_t widest = 0;
  for (std::int64_t i = 0; i < pattern.rows; ++i)
    for (const std::int32_t j : pattern.row(i)) widest = std::max(widest, std::abs(i - j));
  return widest < pattern.rows / 8;
}

class Timed final : public AssembledMatrix<double>, public HasMultiProduct<double> {
 public:
  Timed(const BuildRequest<double>& request, const Times& times)
      : AssembledMatrix<double>(request),
        csr_(make_matrix(request.context->simulated() ? fake_format("csr") : find_format("csr"), request.csr,
                         request.context)),
        times_(times),
        gain_(gain_of_order > 1 && is_narrow(request.csr.pattern) ? gain_of_order : 1) {
    column_microseconds += build_time;
  }
  CsrMatrix<double> to_csr() const override { return csr_->to_csr(); }
  std::size_t bytes() const noexcept override { return csr_->bytes(); }
  void diagonal(VectorView<double> d) const override { csr_->diagonal(d); }
  std::string_view no_multi_product() const noexcept override {
    return times_.one_pass ? std::string_view() : "it multiplies one vector";
  }
  void do_multi_apply(double alpha, MultiVectorView<const double> X, double beta,
                      MultiVectorView<double> Y) const override {
    column_microseconds += times_.of(X.columns) / gain_;
    multi_apply<double>(*csr_, alpha, X, beta, Y);
  }

 protected:
  void do_update_values(const CsrMatrix<double>& csr) override { csr_->update_values(csr); }
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    column_microseconds += times_.of(1) / gain_;
    csr_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> csr_;
  const Times times_;
  const std::int64_t gain_;
};

template <const Times& times>
std::unique_ptr<AssembledMatrix<double>> make_timed(const BuildRequest<double>& request) {
  return std::make_unique<Timed>(request, times);
}
Admission admit_timed(const Context&, const SparsityPattern& p, const FormatParams&,
                      std::size_t value_bytes) {
  return Admission::accept(p.bytes() + static_cast<std::size_t>(p.nonzeros) * value_bytes, p.nonzeros);
}
template <const Times& times>
constexpr Kernel timed_kernels[] = {
    {.name = "native", .host = true, .device = true, .make_f64 = make_timed<times>, .ordered = true}};
template <const Times& times>
constinit const DeviceCode timed_device{timed_kernels<times>, admit_timed, true};

struct TimedFormat {
  FormatEntry entry;
  const Times& times;
};
template <const Times& times>
TimedFormat timed_format(std::string_view id) {
  return {{.family = "test",
           .id = id,
           .title = "for tests",
           .source = "",
           .traits = {},
           .params = {},
           .kernels = timed_kernels<times>,
           .admit = admit_timed,
           .device = &timed_device<times>},
          times};
}
const TimedFormat start_of_columns = timed_format<csr_times>("csr"),
                  fast_of_columns = timed_format<fast_times>("fast"),
                  slower_of_columns = timed_format<slower_times>("slower"),
                  slow_of_columns = timed_format<slow_times>("slow"), lone = timed_format<lone_times>("lone"),
                  quick_lone = timed_format<quick_lone_times>("quick-lone");

// Follows a solve: what its iterations would have taken in csr, of a method with one product an iteration.
class InCsr final : public MultiSolveObserver {
 public:
  bool on_iteration(const MultiIterationInfo& info) override {
    // Columns that ended before these iterations are not among the running ones.
    microseconds += static_cast<double>((info.iteration - last_iteration) *
                                        csr_times.of(detail::multi_width(info.running)));
    last_iteration = info.iteration;
    return true;
  }
  void begin() { last_iteration = 0; }
  double microseconds = 0;

 private:
  std::int64_t last_iteration = 0;
};

// A grid in a random numbering.
CsrMatrix<double> shuffled_grid(double side) {
  const CsrMatrix<double> mesh = generate(test_context(), "poisson-2d", {{"n", side}});
  std::vector<std::int32_t> order(static_cast<std::size_t>(mesh.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  return PermutedMatrix<double>(test_context(), mesh, Permutation(test_context(), order)).matrix();
}

// Systems with one matrix, which begin in csr. The table promises `promise` of the products of csr for each target.
struct ColumnsLive {
  ContextPtr context;
  CsrMatrix<double> on_host, csr;
  Matrix<double> A;
  MachineTable table;
  AutoSwitchOptions options{.policy = {}, .goal = 1, .max_iterations = 10000};
  std::unique_ptr<AutoSwitcher<double>> switcher;
  double order_price = 0;                // in the table, in products of csr; 0: the table has none
  double promise = 0.25, bandwidth = 0;  // bandwidth: several_bandwidth of the targets, next to 1 of csr
  InCsr in_csr;
  MultiSolveReport report;

  explicit ColumnsLive(ContextPtr in = Context::host(1), double side = 30)
      : ColumnsLive(generate(test_context(), "poisson-2d", {{"n", side}}), std::move(in)) {}
  explicit ColumnsLive(CsrMatrix<double> matrix, ContextPtr in = Context::host(1))
      : context(std::move(in)),
        on_host(std::move(matrix)),
        csr(context->simulated() ? upload(context, on_host) : on_host),
        A(csr, make_matrix(start_of_columns.entry, csr, context), {.clock = column_time}) {
    options.policy.overlapped = false;
  }

  void offer(const std::vector<const TimedFormat*>& targets) {
    MeasuredMatrix measured{"test", context->space(), csr.rows(), csr.nonzeros(), {}};
    std::vector<SwitchTarget> offered;
    const auto add = [&](const TimedFormat& format, double share) {
      measured.formats.push_back(
          {std::string(format.entry.id), csr.bytes(), share * 1e-3, share < 1 ? 1e-3 : 0});
      SwitchTarget target;
      target.spec.entry = &format.entry, target.bytes = csr.bytes(), target.one_pass = format.times.one_pass;
      if (bandwidth > 0) target.several_bandwidth = share < 1 ? bandwidth : 1;
      offered.push_back(target);
    };
    add(start_of_columns, 1);
    for (const TimedFormat* target : targets) add(*target, promise);
    if (order_price > 0) measured.formats.push_back({"order-rcm", csr.bytes(), 1e-3, order_price * 1e-3});
    table.matrices = {measured};
    switcher = std::make_unique<AutoSwitcher<double>>(
        A, CostModel(table, context->space()), [offered] { return offered; }, options);
  }

  // As SystemSolver does it. Checks each column.
  void solve(const Columns<double>& b, std::string_view method = "cg", std::vector<StoppingRule> rules = {}) {
    options.columns = std::ssize(b);
    switcher->begin(options);
    const std::int64_t n = csr.rows();
    PlacedColumns<double> B(context, b, n, {VectorLayout::columns, 0}),
        X(context, Columns<double>(b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.0)), n,
          {VectorLayout::columns, 0});
    if (rules.empty()) rules.resize(b.size());
    in_csr.begin();
    detail::SlowestColumn slowest(*switcher, &in_csr, rules,
                                  [&](std::int64_t running) { switcher->columns_left(running); });
    MultiSolver<double> solver(method);
    report = solver.solve(A, B.read(), X.view(), nullptr, &slowest, rules);
    switcher->finish();
    EXPECT_TRUE(report.converged());
    const Columns<double> x = X.fetch();
    for (std::size_t j = 0; j < b.size(); ++j) {
      double size = 0;
      for (const double value : b[j]) size += value * value;
      EXPECT_LE(residual_of(on_host, b[j], x[j]), 1.1 * rules[j].relative_tolerance * std::sqrt(size));
    }
  }
  Columns<double> some(std::int64_t count) const { return sample_columns<double>(csr.rows(), count, 3); }
  CandidateRecord candidate(std::string_view format) const {
    for (const CandidateRecord& one : switcher->candidates())
      if (one.format == format) return one;
    ADD_FAILURE() << "there is no candidate " << format;
    return {};
  }
  double seconds_of(const Times& times, std::int64_t columns) const {
    return 1e-6 * static_cast<double>(times.of(columns));
  }
};

// Each method, also if a device computes steps ahead.
TEST(AutoColumns, EveryMethodChangesToAFormatThatPays) {
  for (const std::string_view method : multi_methods())
    for (const int ahead : {-1, 0, 5}) {
      SCOPED_TRACE(std::string(method) +
                   (ahead < 0 ? " on the host" : ", " + std::to_string(ahead) + " ahead"));
      ColumnsLive live(ahead < 0 ? Context::host(1) : fake_device_context({.steps_ahead = ahead}), 40);
      live.offer({&fast_of_columns, &lone});
      live.solve(live.some(3), method);
      ASSERT_EQ(live.A.history().size(), 1U);
      EXPECT_EQ(live.A.history()[0].to, "fast");
      EXPECT_LT(live.A.history()[0].iteration, live.report.iterations);
      // Three columns lie in four lanes.
      const CandidateRecord seen = live.candidate("fast"), first = live.candidate("csr");
      EXPECT_NEAR(first.measured_product, live.seconds_of(csr_times, 4), 1e-9);
      EXPECT_NEAR(seen.predicted_product, live.promise * first.measured_product, 1e-9);
      EXPECT_FALSE(live.candidate("lone").ran);
    }
}

// For one vector it is the fastest; the products of four take longer than products of csr.
TEST(AutoColumns, AFormatForOneVectorCostsAProductForEachColumn) {
  for (const std::int64_t columns : {1, 4}) {
    SCOPED_TRACE(columns);
    ColumnsLive live;
    live.promise = 0.5;
    live.offer({&lone});
    live.solve(live.some(columns));
    EXPECT_EQ(live.candidate("lone").ran, columns == 1);
    EXPECT_GT(live.candidate("lone").predicted_product,
              columns == 1 ? 0.0 : 4 * 0.5 * live.seconds_of(csr_times, 1));
  }
  // It is tried if even that pays, and its products are timed with the copies of columns.
  ColumnsLive live;
  live.promise = 0.02;
  live.offer({&quick_lone});
  live.solve(live.some(4));
  ASSERT_EQ(live.A.history().size(), 1U);
  EXPECT_EQ(live.A.history()[0].to, "quick-lone");
  EXPECT_NEAR(live.candidate("quick-lone").measured_product, live.seconds_of(quick_lone_times, 4), 1e-9);
  EXPECT_NE(live.report.product.find("in one pass; then column by column"), std::string::npos);
}

// What is known of products with several vectors counts, and not what the table has of one.
TEST(AutoColumns, TheBandwidthOfSeveralVectorsIsThePrediction) {
  for (const double bandwidth : {0.5, 4.0}) {
    ColumnsLive live;
    live.promise = bandwidth > 1 ? 0.9 : 0.1, live.bandwidth = bandwidth;
    live.offer({&fast_of_columns});
    live.solve(live.some(4));
    EXPECT_EQ(live.candidate("fast").ran, bandwidth > 1);
    EXPECT_NEAR(live.candidate("fast").predicted_product, live.seconds_of(csr_times, 4) / bandwidth, 1e-9);
    live.solve(live.some(1));
    EXPECT_EQ(live.candidate("fast").ran, true) << "for one column the table counts";
  }
}

TEST(AutoColumns, GoesBackFromASlowFormat) {
  for (const bool on_device : {false, true}) {
    ColumnsLive live(on_device ? fake_device_context() : Context::host(1));
    live.offer({&slow_of_columns});
    live.solve(live.some(4));
    ASSERT_EQ(live.A.history().size(), 2U);
    EXPECT_EQ(live.A.history()[0].to, "slow");
    EXPECT_EQ(live.A.history()[1].to, "csr");
    EXPECT_TRUE(live.candidate("slow").lost);
    EXPECT_NEAR(live.candidate("slow").measured_product, live.seconds_of(slow_times, 4), 1e-9);
  }
}

// The column that is furthest from its tolerance says how long the solve will last. A column that has a long way, but
// is allowed few iterations, does not hold the forecast up.
TEST(AutoColumns, TheForecastIsThatOfTheColumnWithFurthestToGo) {
  const auto begun = [](double tolerance) {
    ColumnsLive live;
    live.offer({&fast_of_columns});
    std::vector<StoppingRule> rules(3);
    rules[0].relative_tolerance = 0.5, rules[1].relative_tolerance = tolerance,
    rules[2].relative_tolerance = 0.3;
    live.solve(live.some(3), "cg", rules);
    return !live.A.history().empty();
  };
  EXPECT_FALSE(begun(0.2)) << "a solve of a few iterations";
  EXPECT_TRUE(begun(1e-10));
  // Shown residuals are multiples of the tolerance; an absolute one counts, too.
  struct Seen final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override {
      last = info;
      return true;
    }
    IterationInfo last;
  } seen;
  std::vector<StoppingRule> rules(2);
  rules[0].relative_tolerance = 1e-6, rules[1].relative_tolerance = 1e-12, rules[1].absolute_tolerance = 1e-3;
  std::int64_t left = 0;
  detail::SlowestColumn slowest(seen, nullptr, rules, [&](std::int64_t running) { left = running; });
  const std::vector<unsigned char> runs{1, 1};
  const std::vector<double> residuals{4e-3, 5e-3}, relative{2e-3, 1e-3};
  EXPECT_TRUE(slowest.on_iteration(
      {.iteration = 7, .running = 2, .residuals = residuals, .relative_residuals = relative, .runs = runs}));
  EXPECT_EQ(left, 2);
  EXPECT_DOUBLE_EQ(seen.last.relative_residual, 2e-3 / 1e-6);
  const std::vector<unsigned char> one{0, 1};
  EXPECT_TRUE(slowest.on_iteration(
      {.iteration = 8, .running = 1, .residuals = residuals, .relative_residuals = relative, .runs = one}));
  EXPECT_EQ(left, 1);
  EXPECT_DOUBLE_EQ(seen.last.relative_residual, 5e-3 / 1e-3);
}

// When columns end, products change: they are measured again, and earlier measurements are scaled.
TEST(AutoColumns, ProductsAreMeasuredAnewWhereColumnsEnd) {
  for (const bool on_device : {false, true}) {
    ColumnsLive live(on_device ? fake_device_context() : Context::host(1));
    live.offer({&fast_of_columns});
    std::vector<StoppingRule> rules(8);
    for (std::size_t j = 0; j < 6; ++j) rules[j].relative_tolerance = 1e-5;
    live.solve(live.some(8), "cg", rules);
    ASSERT_EQ(live.A.history().size(), 1U) << "it goes back to nothing";
    EXPECT_EQ(live.A.history()[0].to, "fast");
    EXPECT_NEAR(live.candidate("fast").measured_product, live.seconds_of(fast_times, 2), 1e-9);
    // It is taken to have become as many times faster as the other one, which has as many bytes.
    ASSERT_FALSE(live.switcher->decisions().empty());
  }
}

// The order of the rows changes if that pays, and each product is one of the new order from then on.
TEST(AutoColumns, TheOrderOfTheRowsChangesIfThatPays) {
  for (const char* method : {"cg", "bicgstab", "gmres"})
    for (const bool pays : {true, false}) {
      SCOPED_TRACE(std::string(method) + (pays ? "" : ", no gain"));
      ColumnsLive live(shuffled_grid(30));
      gain_of_order = 5;
      live.options.cached_x = 0, live.options.order = "rcm", live.order_price = 5;
      double line_bytes = 0;
      live.options.forecast_order = [&](const SparsityPattern& pattern, std::size_t value_bytes) {
        OrderForecast forecast = forecast_order(pattern, value_bytes);
        forecast.lines_now = 5, forecast.lines_reached = pays ? 0.5 : 5;
        line_bytes = forecast.line_bytes;
        return forecast;
      };
      live.offer({});
      live.solve(live.some(4), method);
      gain_of_order = 1;
      EXPECT_GT(line_bytes, 0);
      ASSERT_EQ(live.A.history().size(), pays ? 1u : 0u);
      if (!pays) continue;
      EXPECT_EQ(live.A.order_id(), "rcm");
      const CandidateRecord seen = live.candidate("csr in order rcm");
      EXPECT_TRUE(seen.ran);
      // A column of gmres that begins again waits for the others, and then a product is one of fewer columns.
      if (method == std::string("gmres"))
        EXPECT_LE(seen.measured_product, live.seconds_of(csr_times, 4) / 5 + 1e-6);
      else
        EXPECT_NEAR(seen.measured_product, live.seconds_of(csr_times, 4) / 5, 1e-6);
      // A line of x has a line of each of four columns.
      const double matrix = static_cast<double>(live.csr.bytes()) / static_cast<double>(live.csr.rows());
      const double ratio = (matrix + 4 * line_bytes * 0.5) / (matrix + 4 * line_bytes * 5);
      EXPECT_NEAR(seen.predicted_product, live.seconds_of(csr_times, 4) * ratio, 1e-5);
      // The next solve, of another number of columns, begins in it.
      live.solve(live.some(2), method);
      EXPECT_EQ(live.A.order_id(), "rcm");
    }
}

// One account for solves of any number of columns: however the formats turn out, all solves together take at most
// forecast_factor times as long as in csr.
TEST(AutoColumns, TheAccountBoundsSolvesOfAnyNumbersOfColumns) {
  std::mt19937 random(5);
  int changed = 0, back = 0;
  for (int round = 0; round < 32; ++round) {
    ColumnsLive live(round % 4 == 3 ? fake_device_context({.steps_ahead = round % 8 == 3 ? 0 : 4})
                                    : Context::host(1));
    live.promise = 0.2 + 0.1 * static_cast<double>(random() % 7);
    std::vector<const TimedFormat*> targets;
    for (const TimedFormat* one : {&fast_of_columns, &slower_of_columns, &lone, &quick_lone})
      if (random() % 2) targets.push_back(one);
    live.offer(targets);
    std::string trace = "promise " + std::to_string(live.promise);
    double extra = 0;
    const double began = column_time();
    for (int solve = 0; solve < 5; ++solve) {
      const auto columns = static_cast<std::int64_t>(1 + random() % 9);
      std::vector<StoppingRule> rules(static_cast<std::size_t>(columns));
      for (StoppingRule& rule : rules)
        rule.relative_tolerance = std::pow(10.0, -1.0 - static_cast<double>(random() % 9));
      trace += ", " + std::to_string(columns) + " columns";
      live.solve(live.some(columns), "cg", rules);
      // Products of b - A x, of one column or more at a time, and the first iterations of a burst.
      extra += 1e-6 * static_cast<double>(live.report.products - live.report.iterations + 4) *
               static_cast<double>(csr_times.of(detail::multi_width(columns)));
    }
    SCOPED_TRACE(trace);
    const double taken = column_time() - began, stay = 1e-6 * live.in_csr.microseconds + extra;
    EXPECT_LE(taken, live.options.policy.forecast_factor * stay);
    changed += !live.A.history().empty();
    for (const SwitchRecord& one : live.A.history()) back += one.to == "csr";
  }
  EXPECT_GT(changed, 20);
  EXPECT_GT(back, 3);
}

}  // namespace
}  // namespace protean::test
