// Processors that this process may use: affinity, control groups, OMP_NUM_THREADS.
#include "core/processors.hpp"

#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/context.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "support/folder.hpp"

namespace protean::test {
namespace {

using detail::quota_processors;

// System files below a separate folder.
class Files {
 public:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return folder_.path().string(); }

 private:
  Folder folder_;
};

constexpr const char* mount_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

TEST(Quota, IsThatOfTheGroupAndOfThoseAboveIt) {
  const Files files;
  files.write("/proc/self/mountinfo", mount_2);
  files.write("/proc/self/cgroup", "0::/batch/job\n");
  EXPECT_EQ(quota_processors(files.root()), 0) << "no file, no limit";
  files.write("/sys/fs/cgroup/batch/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_processors(files.root()), 0);
  files.write("/sys/fs/cgroup/batch/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota_processors(files.root()), 4);
  files.write("/sys/fs/cgroup/batch/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota_processors(files.root()), 2) << "1.5 processors are two threads";
  files.write("/sys/fs/cgroup/batch/job/cpu.max", "20000 100000\n");
  EXPECT_EQ(quota_processors(files.root()), 1);
}

TEST(Quota, OfVersion1) {
  const Files files;
  files.write("/proc/self/mountinfo",
              "33 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
              "34 25 0:29 / /sys/fs/cgroup/cpu\\040time rw - cgroup cgroup rw,cpu,cpuacct\n");
  files.write("/proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/other\n");
  files.write("/sys/fs/cgroup/cpu time/job/cpu.cfs_quota_us", "-1\n");
  files.write("/sys/fs/cgroup/cpu time/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota_processors(files.root()), 0);
  files.write("/sys/fs/cgroup/cpu time/job/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota_processors(files.root()), 3);
}

TEST(Quota, InAContainerThatSeesItsOwnGroupAsTheTop) {
  const Files files;
  files.write("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  files.write("/proc/self/cgroup", "0::/docker/abc\n");
  files.write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota_processors(files.root()), 3);
  files.write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota_processors(files.root()), 3);
}

TEST(Quota, WithoutSystemFilesThereIsNone) { EXPECT_EQ(quota_processors("/nonexistent"), 0); }

TEST(Processors, TheFirstNumberOfOmpNumThreads) {
  using detail::first_number_of_threads;
  EXPECT_EQ(first_number_of_threads(nullptr), 0);
  EXPECT_EQ(first_number_of_threads(""), 0);
  EXPECT_EQ(first_number_of_threads("many"), 0);
  EXPECT_EQ(first_number_of_threads("-2"), 0);
  EXPECT_EQ(first_number_of_threads("3"), 3);
  EXPECT_EQ(first_number_of_threads(" 12,4"), 12);
}

TEST(Processors, AThreadBoundToOneProcessorGetsOneThread) {
  if (std::getenv("OMP_NUM_THREADS")) unsetenv("OMP_NUM_THREADS");
  int threads = 0;
  std::thread([&] {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    threads = Context::host()->threads();
  }).join();
  EXPECT_EQ(threads, 1);
}

TEST(Processors, WorkersHaveTheProcessorsOfTheirCaller) {
  cpu_set_t mine, of_worker;
  CPU_ZERO(&of_worker);
  sched_getaffinity(0, sizeof mine, &mine);
  std::atomic<bool> begun{false};
  parallel(2, [&](int part, int) {
    if (part == 1) sched_getaffinity(0, sizeof of_worker, &of_worker), begun = true;
    while (!begun) std::this_thread::yield();
  });
  EXPECT_TRUE(CPU_EQUAL(&mine, &of_worker));
}

}  // namespace
}  // namespace protean::test
