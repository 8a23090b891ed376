// The policy changes the order of the rows if their numbering costs time, and goes back from an order that disappoints.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/live_switcher.hpp"

namespace protean::test {
namespace {

// A mesh in a random numbering, whose products in csr take 2 ms there and 0.4 ms in an order of small bandwidth. The
// forecast says so. Finding an order takes `finding` simulated microseconds.
struct Shuffled : Live {
  explicit Shuffled(bool deterministic = false)
      : Shuffled(deterministic ? Context::host(1, {.deterministic = true}) : Context::host(1)) {}
  explicit Shuffled(const ContextPtr& host)
      : Live(host, shuffled_mesh(host),
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

// Waits for what other threads compute: the forecast, if builds are overlapped, and builds.
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
    iterate(*switcher, k, 0.97);
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
    iterate(*switcher, k, 0.97);
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

}  // namespace
}  // namespace protean::test
