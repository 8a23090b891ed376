// Calls of CUDA that fail, at each step of each public call on a GPU: scenarios.hpp has the calls. And a device that
// disappears: from some call on every one fails. What fails is made by the test (cuda_faults.hpp), so the GPU itself
// stays well; a kernel that really faults is in tests/apps/device_kernel_fault.cpp.
#include <unistd.h>

#include <cstdio>

#include "core/error.hpp"
#include "faults/cuda_faults.hpp"
#include "faults/scenarios.hpp"
#include "gtest/gtest.h"
#include "support/space.hpp"

namespace protean::test {
namespace {

constexpr unsigned most_seconds = 60;  // of one trial: a call that hangs ends the program

bool is_about_the_device(const std::exception& error) {
  return dynamic_cast<const DeviceError*>(&error) || dynamic_cast<const OutOfMemory*>(&error) ||
         dynamic_cast<const NotAvailable*>(&error);
}

class Calls final : public Faults {
 public:
  const char* name() const override { return "call of CUDA"; }
  void arm(std::int64_t n) override {
    alarm(most_seconds);
    fail_cuda_call(n);
  }
  bool disarm() override {
    const bool fired = cuda_call_has_failed();
    last_ = failed_cuda_call();
    fail_cuda_call(0);
    alarm(0);
    return fired;
  }
  bool names(const std::exception& error) const override {
    if (is_about_the_device(error)) return true;
    std::printf("the call that failed: %s\n", last_.c_str());
    return false;
  }
  bool every() const override { return false; }

 private:
  std::string last_;
};

struct Group {
  const char* name;
  std::vector<Scenario> (*scenarios)(Where where);
};
constexpr Group groups[] = {{"matrices", matrix_scenarios},
                            {"solves", solve_scenarios},
                            {"changes", change_scenarios},
                            {"systems", system_scenarios}};

class CudaCalls : public testing::TestWithParam<Group> {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  }
};

TEST_P(CudaCalls, FailOneByOne) {
  Calls calls;
  std::int64_t failed = 0;
  const std::vector<Scenario> scenarios = GetParam().scenarios(Where::device);
  for (const Scenario& scenario : scenarios) {
    const std::int64_t of_this = fail_each(scenario, calls);
    if (!scenario.may_be_empty) { EXPECT_GT(of_this, 0) << scenario.name << " calls nothing of CUDA"; }
    failed += of_this;
  }
  std::printf("%zu calls, %lld calls of CUDA failed\n", scenarios.size(), static_cast<long long>(failed));
}

// Every call fails from one on. The call of the library says so, so does the same call again, and all objects can be
// destroyed. A changed format may be the only thing that fails if the rest of the solve needs no more calls.
TEST_P(CudaCalls, OfADeviceThatDisappears) {
  std::int64_t lost = 0;
  for (const Scenario& scenario : GetParam().scenarios(Where::device)) {
    const Trial whole = scenario.make();
    whole.call();
    const std::vector<double> answer = whole.again();
    for (std::int64_t n = 1;; n = all_faults_are_wanted() || n < 4 ? n + 1 : 2 * n) {
      SCOPED_TRACE(scenario.name + ": lost from call " + std::to_string(n) + " on");
      bool fired = false;
      {
        const Trial trial = scenario.make();
        alarm(most_seconds);
        fail_cuda_call(n, true);
        int thrown = 0;
        const auto attempt = [&] {
          try {
            trial.call();
          } catch (const std::exception& error) {
            ++thrown;
            EXPECT_TRUE(is_about_the_device(error)) << error.what() << ", after " << failed_cuda_call();
          }
        };
        for (int round = 0; round < 2; ++round) attempt();
        fired = cuda_call_has_failed();
        // If all that failed is the release of memory at the end of the second call, the next one says so, unless it
        // has nothing more to do on the device.
        if (fired && thrown == 0) attempt();
        if (fired && !only_releases_have_failed()) {
          EXPECT_GT(thrown, 0) << "nobody has noticed that " << failed_cuda_call() << " failed";
        }
      }
      fail_cuda_call(0);
      alarm(0);
      if (!fired) break;
      ++lost;
      // The device is there again; so is the context, since nothing was wrong with it.
      const Trial next = scenario.make();
      next.call();
      EXPECT_EQ(difference(scenario, next.again(), answer), "") << "afterwards";
      if (HasFailure()) return;
    }
  }
  std::printf("%lld times lost\n", static_cast<long long>(lost));
}

INSTANTIATE_TEST_SUITE_P(All, CudaCalls, testing::ValuesIn(groups),
                         [](const auto& instance) { return std::string(instance.param.name); });

// The wrappers are what the library calls, which a machine without a GPU shows, too.
TEST(CudaCallsAreWrapped, InThisProgram) {
  fail_cuda_call(1);
  EXPECT_EQ(Context::device_count(), 0);
  EXPECT_TRUE(cuda_call_has_failed());
  EXPECT_EQ(failed_cuda_call(), "cudaGetDeviceCount");
  fail_cuda_call(0);
  (void)Context::device_count();
  EXPECT_FALSE(cuda_call_has_failed());
}

// A new context: each call of its creation fails, and then it is made.
TEST(CudaCallsOfAContext, FailOneByOne) {
  if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  std::int64_t failed = 0;
  for (std::int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    fail_cuda_call(n);
    bool made = false;
    try {
      const ContextPtr context = Context::device();
      context->synchronize();
      made = true;
    } catch (const std::exception& error) {
      EXPECT_TRUE(is_about_the_device(error)) << error.what() << ", after " << failed_cuda_call();
    }
    const bool fired = cuda_call_has_failed();
    fail_cuda_call(0);
    if (!fired) {
      EXPECT_TRUE(made);
      break;
    }
    ++failed;
    EXPECT_NO_THROW(Context::device()->synchronize());
  }
  EXPECT_GT(failed, 5);
}

}  // namespace
}  // namespace protean::test
