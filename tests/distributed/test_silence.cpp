// A part that does not answer is named.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/generate/generate.hpp"
#include "distributed/parts.hpp"
#include "gtest/gtest.h"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/text.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Patience {
  explicit Patience(double seconds) { detail::part_patience = seconds; }
  ~Patience() { detail::part_patience = 10; }
};

// Systems over three devices, of which device 1 sleeps once when its work number `at` begins.
struct Sleeper {
  std::atomic<double> seconds{0};
  std::atomic<std::int64_t> works{0}, at{-1};
  void work() {
    if (works++ == at) std::this_thread::sleep_for(std::chrono::duration<double>(seconds.load()));
  }
};
SolveSettings settings_of(const std::shared_ptr<Sleeper>& sleeper) {
  SolveSettings settings;
  settings.method = "cg", settings.preconditioner = "jacobi", settings.format = "csr";
  settings.solver.stopping.relative_tolerance = 1e-8;
  FakeDeviceOptions sleeps;
  sleeps.at_work = [sleeper] { sleeper->work(); };
  settings.distribution.contexts = {fake_device_context(), fake_device_context(sleeps),
                                    fake_device_context()};
  return settings;
}

struct Fixture {
  CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  std::vector<double> b = sample_vector<double>(csr.rows(), 5), x = std::vector<double>(b.size(), 0.0);
  std::shared_ptr<Sleeper> sleeper = std::make_shared<Sleeper>();
  std::int64_t of_a_solve = 0;  // works of device 1
  LinearSystem<double> system{csr, settings_of(sleeper)};
  Fixture() {
    (void)system.solve(b, x);
    const std::int64_t before = sleeper->works;
    std::fill(x.begin(), x.end(), 0.0);
    (void)system.solve(b, x);
    of_a_solve = sleeper->works - before;
    std::fill(x.begin(), x.end(), 0.0);
  }
  void sleep_in_the_middle(double seconds) {
    sleeper->seconds = seconds, sleeper->at = sleeper->works + of_a_solve / 2;
  }
};

// A part that answers late, but then does, ends with the others, and the system goes on.
TEST(SilentPart, IsNamedAndTheSystemGoesOn) {
  Fixture of;
  const Patience patience(10);
  // The others stop waiting after 10 s, and give it 2 s more to end.
  of.sleep_in_the_middle(10.7);
  const auto begin = Clock::now();
  const std::string text = message_of<DeviceError>([&] { (void)of.system.solve(of.b, of.x); });
  EXPECT_TRUE(text.starts_with("part 1 of 3 (on device 1) has not answered for 10 s")) << text;
  EXPECT_TRUE(has(text, "can be used again")) << text;
  EXPECT_GE(seconds_since(begin), 10);
  EXPECT_EQ(of.x, std::vector<double>(of.x.size(), 0.0));
  EXPECT_TRUE(of.system.solve(of.b, of.x).converged());
  EXPECT_LE(relative_residual_of<double>(of.csr, of.b, of.x), 1.01e-8);
}

// Nobody waits for a part that does not come back; it may do so after the system has gone.
TEST(SilentPart, IsLeftBehindIfItDoesNotComeBack) {
  const auto sleeper = [] {
    Fixture of;
    const Patience patience(1);
    of.sleep_in_the_middle(9);
    const auto begin = Clock::now();
    const std::string text = message_of<DeviceError>([&] { (void)of.system.solve(of.b, of.x); });
    EXPECT_LT(seconds_since(begin), 8.5) << "it was waited for";
    EXPECT_TRUE(text.starts_with("part 1 of 3 (on device 1) has not answered for 1 s")) << text;
    EXPECT_TRUE(has(text, "cannot be used any more")) << text;
    EXPECT_EQ(of.x, std::vector<double>(of.x.size(), 0.0));
    EXPECT_EQ(message_of<DeviceError>([&] { (void)of.system.solve(of.b, of.x); }), text);
    EXPECT_EQ(message_of<DeviceError>([&] { of.system.update_values(of.csr.values); }), text);
    EXPECT_FALSE(of.system.describe().empty());
    return of.sleeper;
  }();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  // It has come back, and ended where it would have waited for the others.
  const std::int64_t works = sleeper->works;
  EXPECT_GT(works, sleeper->at);
}

// The caller's observer may take longer.
TEST(SilentPart, IsNotTheOneWhoseObserverThinks) {
  Fixture of;
  const Patience patience(1);
  struct Thinks final : SolveObserver {
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration == 3) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return true;
    }
  } thinks;
  EXPECT_TRUE(of.system.solve(of.b, of.x, &thinks).converged());
}

}  // namespace
}  // namespace protean::test
