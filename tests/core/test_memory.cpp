// Memory that a process may still take: control groups of both versions, nested and in containers, resource
// limits, and the borders of require_memory().
#include "core/memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "support/folder.hpp"

namespace protean::test {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

// System files that are made up, below a folder. 1000 MiB are available to the machine.
class AvailableMemory : public testing::Test {
 protected:
  void SetUp() override { file("/proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable: 1024000 kB\n"); }
  void file(const std::string& path, const std::string& text) {
    const std::string full = folder_ / path.substr(1);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }
  void number(const std::string& path, std::size_t mib) { file(path, std::to_string(mib * MiB) + "\n"); }
  // A group of version 2. Limits of 0 are written as "max".
  void group(const std::string& path, std::size_t limit, std::size_t used, std::size_t cache,
             std::size_t high = 0) {
    limit > 0 ? number(path + "/memory.max", limit) : file(path + "/memory.max", "max\n");
    high > 0 ? number(path + "/memory.high", high) : file(path + "/memory.high", "max\n");
    number(path + "/memory.current", used);
    file(path + "/memory.stat",
         "anon 5\nfile 7\ninactive_anon 3\ninactive_file " + std::to_string(cache * MiB) + "\n");
  }
  void group_of_version_1(const std::string& path, std::size_t limit, std::size_t used, std::size_t cache,
                          bool inherits = true) {
    limit > 0 ? number(path + "/memory.limit_in_bytes", limit)
              : file(path + "/memory.limit_in_bytes", "9223372036854771712\n");
    number(path + "/memory.usage_in_bytes", used);
    file(path + "/memory.use_hierarchy", inherits ? "1\n" : "0\n");
    file(path + "/memory.stat",
         "cache 1\ninactive_file 1\ntotal_inactive_file " + std::to_string(cache * MiB) + "\n");
  }
  void mounted(const std::string& line) {
    file("/proc/self/mountinfo", "22 1 8:1 / / rw,relatime - ext4 /dev/root rw\n" + line + "\n");
  }
  std::size_t available(const detail::ProcessLimits& limits = {}) const {
    return available_memory(folder_ / "", limits);
  }

  Folder folder_;
  const std::string v2_ = "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
  const std::string v1_ = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
};

TEST_F(AvailableMemory, OfTheMachineWhereNoGroupLimits) {
  EXPECT_EQ(available(), 1000 * MiB);
  mounted(v2_);
  file("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(available(), 1000 * MiB) << "the root group has no files of limits";
  group("/sys/fs/cgroup", 0, 400, 0);
  EXPECT_EQ(available(), 1000 * MiB) << "the limit is \"max\"";
  std::filesystem::remove(folder_ / "proc/meminfo");
  EXPECT_EQ(available(), unlimited_memory);
}

TEST_F(AvailableMemory, AContainerOfVersion2SeesItsOwnGroupAtTheMount) {
  mounted(v2_);
  file("/proc/self/cgroup", "0::/\n");
  group("/sys/fs/cgroup", 600, 400, 0);
  EXPECT_EQ(available(), 200 * MiB);
  group("/sys/fs/cgroup", 600, 400, 150);
  EXPECT_EQ(available(), 350 * MiB) << "inactive page cache is given back when it is needed";
  group("/sys/fs/cgroup", 600, 700, 20);
  EXPECT_EQ(available(), 0u) << "more in use than the limit, which was lowered";
  group("/sys/fs/cgroup", 600, 100, 200);
  EXPECT_EQ(available(), 600 * MiB) << "more cache than memory in use, as the two are not read at once";
}

TEST_F(AvailableMemory, AboveMemoryHighTheProcessIsSlowedDown) {
  mounted(v2_);
  file("/proc/self/cgroup", "0::/\n");
  group("/sys/fs/cgroup", 600, 100, 0, 300);
  EXPECT_EQ(available(), 200 * MiB);
  group("/sys/fs/cgroup", 0, 100, 0, 300);
  EXPECT_EQ(available(), 200 * MiB);
}

TEST_F(AvailableMemory, TheTightestOfNestedGroupsOfVersion2Counts) {
  mounted(v2_);
  file("/proc/self/cgroup", "0::/jobs.slice/job-7.scope/step\n");
  group("/sys/fs/cgroup/jobs.slice", 900, 500, 0);
  group("/sys/fs/cgroup/jobs.slice/job-7.scope", 800, 300, 0);
  group("/sys/fs/cgroup/jobs.slice/job-7.scope/step", 0, 300, 0);
  group("/sys/fs/cgroup/jobs.slice/another.scope", 10, 10, 0);
  EXPECT_EQ(available(), 400 * MiB) << "jobs.slice, whose other jobs use memory, too";
  group("/sys/fs/cgroup/jobs.slice/job-7.scope", 400, 300, 50);
  EXPECT_EQ(available(), 150 * MiB) << "job-7.scope";
  group("/sys/fs/cgroup/jobs.slice/job-7.scope/step", 310, 300, 0);
  EXPECT_EQ(available(), 10 * MiB) << "the group of the process";
}

TEST_F(AvailableMemory, NestedGroupsOfVersion1) {
  mounted(v1_ + "\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  file("/proc/self/cgroup", "9:name=systemd:/\n5:cpu,cpuacct:/other\n4:memory:/batch/job\n0::/\n");
  group_of_version_1("/sys/fs/cgroup/memory", 0, 5000, 0);
  group_of_version_1("/sys/fs/cgroup/memory/batch", 500, 300, 50);
  group_of_version_1("/sys/fs/cgroup/memory/batch/job", 0, 100, 0);
  EXPECT_EQ(available(), 250 * MiB);
  group_of_version_1("/sys/fs/cgroup/memory/batch/job", 150, 100, 7);
  EXPECT_EQ(available(), 57 * MiB);
  group_of_version_1("/sys/fs/cgroup/memory/batch", 120, 119, 0, false);
  EXPECT_EQ(available(), 57 * MiB) << "the parent's limit does not hold for its children";
}

// Without a namespace of groups the path is the path on the host, and the mount begins at the container's group.
TEST_F(AvailableMemory, ContainersWhosePathIsTheHosts) {
  mounted("35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
  file("/proc/self/cgroup", "4:memory:/docker/abc\n");
  group_of_version_1("/sys/fs/cgroup/memory", 300, 100, 0);
  EXPECT_EQ(available(), 200 * MiB);
  file("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  group_of_version_1("/sys/fs/cgroup/memory/inner", 110, 100, 0);
  EXPECT_EQ(available(), 10 * MiB);
  file("/proc/self/cgroup", "4:memory:/docker/abcdef\n");
  EXPECT_EQ(available(), 200 * MiB) << "another group: what the mount shows";

  mounted(R"(30 22 0:26 /docker/abc /sys/fs/my\040groups ro - cgroup2 cgroup2 rw)");
  file("/proc/self/cgroup", "0::/docker/abc\n");
  group("/sys/fs/my groups", 300, 60, 0);
  EXPECT_EQ(available(), 240 * MiB);
}

TEST_F(AvailableMemory, LimitsOfTheProcess) {
  file("/proc/self/status", "Name:\tx\nVmPeak:\t  900000 kB\nVmSize:\t  204800 kB\nVmData:\t   51200 kB\n");
  EXPECT_EQ(available({.address_space = 300 * MiB}), 100 * MiB);
  EXPECT_EQ(available({.data = 300 * MiB}), 250 * MiB);
  EXPECT_EQ(available({.address_space = 100 * MiB, .data = 300 * MiB}), 0u);
  EXPECT_EQ(available({.address_space = 5000 * MiB, .data = 5000 * MiB}), 1000 * MiB);
}

TEST(Memory, TheRunningSystemHasSome) {
  EXPECT_GT(available_memory(), MiB);
  EXPECT_LE(available_memory(), std::size_t{1} << 50);
}

TEST(Memory, ALimitIsReachedByNothingBelowItsBorder) {
  EXPECT_NO_THROW(detail::require_memory(100, "a matrix", 100));
  EXPECT_THROW(detail::require_memory(101, "a matrix", 100), OutOfMemory);
  EXPECT_NO_THROW(detail::require_memory(101, "a matrix", 0)) << "0 is no limit";
  EXPECT_THROW(detail::require_memory(std::size_t{1} << 62, "a matrix"), OutOfMemory);
}

}  // namespace
}  // namespace protean::test
