// The policy on a device: surveys and forecasts run beside the solve, and a change of order has a price of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/background.hpp"
#include "core/ordering.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "operators/policy/cost_model.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/live_switcher.hpp"
#include "support/fake_device.hpp"

namespace protean::test {
namespace {

struct OnADevice {
  const ContextPtr device = fake_device_context(), host = Context::host(1);
  const CsrMatrix<double> csr = shuffled_mesh(host), there = upload(device, csr);
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
      iterate(switcher, k, 0.999);
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
      iterate(switcher, k, 0.99);
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

}  // namespace
}  // namespace protean::test
