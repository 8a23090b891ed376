// The rule that divides rows between a GPU and a host.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/generate/generate.hpp"
#include "formats/engines/split/split.hpp"
#include "gtest/gtest.h"
#include "operators/policy/cost_model.hpp"
#include "support/battery.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using formats::SplitBalance;
using formats::SplitSpeed;

using formats::SplitTimes;

// A machine of known speeds.
struct Machine {
  SplitSpeed device, host;
  double joining = 0;
  std::int64_t entries = 0;
  SplitTimes product(std::int64_t on_device) const {
    SplitTimes times;
    if (on_device > 0) times.device = device.seconds(on_device);
    if (on_device < entries) times.host = host.seconds(entries - on_device);
    times.total = std::max(times.device, times.host) + (on_device < entries ? joining : 0);
    return times;
  }
  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (int k = 0; k <= 2000; ++k)
      least = std::min(least, product(std::llround(static_cast<double>(entries) * k / 2000)).total);
    return least;
  }
};

// Runs products until the cut is settled. Returns how many.
int run(
    SplitBalance& balance, const Machine& machine,
    const std::function<double()>& noise = [] { return 1.0; }) {
  balance.divided(balance.wanted());
  std::int64_t now = balance.wanted();
  int count = 0;
  for (; !balance.settled() && count < 1000; ++count) {
    SplitTimes times = machine.product(now);
    times.device *= noise(), times.host *= noise();
    times.total = std::max({times.total, times.device, times.host});
    if (balance.measured(times)) balance.divided(now = balance.wanted());
  }
  EXPECT_TRUE(balance.settled());
  EXPECT_EQ(balance.wanted(), now);
  return count;
}

constexpr int trial = SplitBalance::warm_up + SplitBalance::products;

TEST(SplitBalance, WithoutFixedTimesTheShareIsCorrectedAsTheSourceDoes) {
  // f' = (f / T_gpu) / (f / T_gpu + (1 - f) / T_host)
  const Machine machine{{0, 2e-9}, {0, 6e-9}, 0, 8'000'000};
  SplitBalance balance(machine.entries, {0, 4e-9}, {0, 4e-9}, {}, 3);
  EXPECT_EQ(balance.wanted(), 4'000'000) << "equal speeds as predicted";
  const double f = 0.5, T_gpu = machine.product(4'000'000).device, T_host = machine.product(4'000'000).host;
  const double next = (f / T_gpu) / (f / T_gpu + (1 - f) / T_host);
  EXPECT_EQ(run(balance, machine), 2 * trial);
  EXPECT_NEAR(static_cast<double>(balance.wanted()), next * 8e6, 1);
  EXPECT_EQ(balance.corrections(), 1);
  EXPECT_NEAR(balance.predicted_seconds(), machine.best(), 1e-3 * machine.best());
  EXPECT_NEAR(balance.measured_seconds(), balance.predicted_seconds(), 1e-6 * machine.best());
}

TEST(SplitBalance, AFastGpuGetsAllRowsAndASlowOneNone) {
  const Machine fast{{2e-6, 4e-12}, {3e-5, 1e-9}, 2e-6, 1'000'000};
  SplitBalance balance(fast.entries, {2e-6, 4e-12}, {3e-5, 1e-9}, {}, 3);
  EXPECT_EQ(balance.wanted(), fast.entries - (fast.entries / 64 + 1)) << "the host's speed is measured, too";
  run(balance, fast);
  EXPECT_EQ(balance.wanted(), fast.entries);
  EXPECT_NEAR(balance.predicted_seconds(), fast.product(fast.entries).total, 1e-9);
  const Machine slow{{1e-2, 4e-12}, {0, 1e-9}, 0, 1'000'000};
  SplitBalance other(slow.entries, {2e-6, 4e-12}, {3e-5, 1e-9}, {}, 3);
  run(other, slow);
  EXPECT_EQ(other.wanted(), 0);
}

// What it is judged by: after at most three corrections the predicted time is within 10 percent of the measured one,
// and the cut is nearly the best. Predictions before the solve are wrong by up to five times.
TEST(SplitBalance, ThreeCorrectionsAreEnoughForRandomMachines) {
  std::mt19937 random(7);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(random));
  };
  const auto wrong = [&](SplitSpeed speed) {
    return SplitSpeed{speed.fixed * between(0.2, 5), speed.per_entry * between(0.2, 5)};
  };
  int off = 0, slow = 0;
  constexpr int machines = 3000;
  for (int k = 0; k < machines; ++k) {
    const Machine machine{{between(1e-6, 1e-5), between(5e-12, 2e-10)},
                          {between(5e-6, 1e-4), between(5e-11, 2e-9)},
                          between(1e-6, 5e-6),
                          std::llround(between(1e4, 1e9))};
    SplitBalance balance(machine.entries, wrong(machine.device), wrong(machine.host), {}, 3);
    run(balance, machine, [&] { return std::uniform_real_distribution<>(0.98, 1.02)(random); });
    EXPECT_LE(balance.corrections(), 3);
    EXPECT_LE(balance.measurements(), 4 * SplitBalance::products);
    const double measured = balance.measured_seconds();
    off += std::fabs(balance.predicted_seconds() - measured) > 0.1 * measured;
    slow += machine.product(balance.wanted()).total > 1.05 * machine.best();
  }
  EXPECT_LE(off, machines / 500);
  EXPECT_LE(slow, machines / 100);
}

TEST(SplitBalance, AShareThatIsAskedForStays) {
  const Machine machine{{0, 2e-9}, {0, 6e-9}, 0, 1000};
  for (const double share : {0.0, 0.3, 1.0}) {
    SplitBalance balance(machine.entries, {0, 1e-9}, {0, 1e-9}, share, 3);
    EXPECT_EQ(run(balance, machine), trial);
    EXPECT_EQ(balance.wanted(), std::llround(1000 * share));
    EXPECT_EQ(balance.corrections(), 0);
    EXPECT_NEAR(balance.measured_seconds(), machine.product(balance.wanted()).total, 1e-12);
  }
}

TEST(SplitBalance, OneSlowProductChangesNothing) {
  const Machine machine{{0, 2e-9}, {0, 2e-9}, 0, 1000};
  SplitBalance balance(machine.entries, machine.device, machine.host, {}, 3);
  balance.divided(balance.wanted());
  for (int k = 0; k < trial; ++k) {
    SplitTimes times = machine.product(500);
    if (k % 3 == 0) times.host *= 100, times.total *= 100;  // three of nine, the first of them not measured
    EXPECT_FALSE(balance.measured(times));
  }
  EXPECT_TRUE(balance.settled());
  EXPECT_EQ(balance.corrections(), 0);
  EXPECT_NEAR(balance.measured_seconds(), 1e-6, 1e-12);
}

TEST(SplitBalance, NothingToDivide) {
  for (const std::int64_t entries : {0, 1, 2}) {
    SplitBalance balance(entries, {1e-6, 1e-9}, {1e-6, 1e-9}, {}, 3);
    EXPECT_GE(balance.wanted(), 0);
    EXPECT_LE(balance.wanted(), entries);
  }
}

// The forecast follows the built-in table: times that are its own are reproduced.
TEST(SplitForecast, IsThatOfTheTableAndTheLink) {
  const auto csr = generate(test_context(), "poisson-3d", {{"n", 40}});
  const auto slow = formats::split_forecast({1e-5, 1e9}, csr.pattern, 8),
             quick = formats::split_forecast({1e-6, 1e12}, csr.pattern, 8);
  for (const auto& [space, speed] :
       {std::pair{Space::device, quick.device}, std::pair{Space::host, quick.host}}) {
    const double table = CostModel(space).csr_seconds({csr.rows(), csr.nonzeros(), csr.bytes()});
    EXPECT_GT(table, 0);
    EXPECT_GE(speed.per_entry, 0);
    EXPECT_GE(speed.fixed, 0);
    EXPECT_NEAR(speed.seconds(csr.nonzeros()), table, 0.01 * table + 1e-5);
  }
  const double copies = 16.0 * static_cast<double>(csr.rows());
  EXPECT_NEAR(slow.host.seconds(csr.nonzeros()) - quick.host.seconds(csr.nonzeros()),
              2e-5 - 2e-6 + copies * (1e-9 - 1e-12), 1e-9);
}

}  // namespace
}  // namespace protean::test
