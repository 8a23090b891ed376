// Allocations that fail while the command runs, inside this process: the exit code is right, there is one
// message, and no file is written.
#include <atomic>
#include <filesystem>

#include "apps/command/command_line.hpp"
#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "gtest/gtest.h"
#include "support/folder.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

int run(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return apps::run(static_cast<int>(words.size()), argv.data());
}

std::atomic<std::int64_t> seen{0}, fails_at{0};

class CommandFaults : public testing::Test {
 protected:
  std::vector<std::string> command(const char* space) const {
    return {"protean",
            "solve",
            PROTEAN_SOURCE "/problems/poisson.yaml",
            "--quiet",
            "--set",
            "matrix.generate.n=12",
            "--set",
            std::string("operator.space=") + space,
            "--report",
            report()};
  }
  std::string report() const { return folder_ / "r.json"; }
  void TearDown() override { detail::allocation_hook = nullptr; }

  // Lets each allocation fail in turn and expects exit code 3 and no report. Returns the number of
  // allocations.
  std::int64_t each(const char* space, detail::AllocationHook hook) {
    for (std::int64_t n = 1; n < 1000; ++n) {
      seen = 0, fails_at = n;
      detail::allocation_hook = hook;
      testing::internal::CaptureStderr();
      const int code = run(command(space));
      const std::string text = testing::internal::GetCapturedStderr();
      detail::allocation_hook = nullptr;
      if (code == 0) return n - 1;
      EXPECT_EQ(code, 3) << text;
      EXPECT_NE(text.find("protean: error: a fault of the test"), std::string::npos) << text;
      EXPECT_FALSE(std::filesystem::exists(report()));
      if (HasFailure()) return n;
    }
    return 1000;
  }

  Folder folder_;
};

TEST_F(CommandFaults, OutOfMemoryIsExit3) {
  EXPECT_GT(each("host",
                 [](Space, std::size_t bytes) {
                   if (++seen == fails_at) throw OutOfMemory("a fault of the test", bytes);
                 }),
            10);
}

TEST_F(CommandFaults, AFailingDeviceIsExit3) {
  EXPECT_GT(each("host",
                 [](Space, std::size_t) {
                   if (++seen == fails_at) throw DeviceError("a fault of the test");
                 }),
            10);
}

TEST_F(CommandFaults, OutOfDeviceMemoryIsExit3) {
  if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  EXPECT_GT(each("device",
                 [](Space, std::size_t bytes) {
                   if (++seen == fails_at) throw OutOfMemory("a fault of the test", bytes);
                 }),
            10);
}

}  // namespace
}  // namespace protean::test
