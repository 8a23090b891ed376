// parallel(): every part runs once whoever runs it, whatever else happens to the threads.
#include "core/parallel.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/background.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "gtest/gtest.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace protean::test {
namespace {

long thread_number() { return syscall(SYS_gettid); }

std::set<long> threads_of_this_process() {
  std::set<long> numbers;
  DIR* const folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') numbers.insert(std::stol(entry->d_name));
  closedir(folder);
  return numbers;
}

// f in a separate thread, which has its own workers and ends with them.
template <class F>
void in_thread(F f) {
  std::thread(f).join();
}

// Waits until a worker has begun the last part, so that at least one worker runs.
void call_a_worker(int parts) {
  std::atomic<bool> begun{false};
  parallel(parts, [&](int part, int) {
    if (part > 0) begun = true;
    while (part == 0 && !begun) std::this_thread::yield();
  });
}

TEST(Parallel, EachPartRunsOnce) {
  for (const int parts : {1, 2, 3, 7, 16, 70, 5, 2, 1, 33}) {
    std::vector<int> runs(static_cast<std::size_t>(parts));
    parallel(parts, [&](int part, int count) {
      EXPECT_EQ(count, parts);
      ++runs[static_cast<std::size_t>(part)];
    });
    EXPECT_EQ(runs, std::vector<int>(static_cast<std::size_t>(parts), 1));
  }
}

TEST(Parallel, WhatAPartWroteIsSeenByTheNextRegion) {
  constexpr int parts = 5;
  std::vector<int> now(parts, 0), next(parts);
  for (int step = 0; step < 2000; ++step) {
    parallel(parts, [&](int part, int) { next[part] = now[(part + 1) % parts] + 1; });
    now.swap(next);
  }
  EXPECT_EQ(now, std::vector<int>(parts, 2000));
}

TEST(Parallel, ARegionInsideOfAnotherIsSerial) {
  std::atomic<int> wrong{0};
  for (int repeat = 0; repeat < 50; ++repeat)
    parallel(4, [&](int, int) {
      const long self = thread_number();
      std::vector<int> order;
      parallel(6, [&](int part, int) {
        if (thread_number() != self) ++wrong;
        order.push_back(part);
        parallel(2, [&](int, int) { wrong += thread_number() != self; });
      });
      wrong += order != std::vector<int>{0, 1, 2, 3, 4, 5};
    });
  EXPECT_EQ(wrong, 0);
  call_a_worker(4);  // regions are parallel again
}

TEST(Parallel, TheExceptionOfTheLowestPartIsThrownWhenAllHaveFinished) {
  std::atomic<int> finished{0};
  for (int repeat = 0; repeat < 200; ++repeat) {
    finished = 0;
    try {
      parallel(6, [&](int part, int) {
        ++finished;
        if (part == 2 || part == 3 || part == 5) throw std::runtime_error(std::to_string(part));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "2"); }
    EXPECT_EQ(finished, 6);
    parallel(6, [&](int, int) { ++finished; });
    EXPECT_EQ(finished, 12) << "after an exception";
  }
}

TEST(Parallel, WorkersEndWithTheThreadThatCalledThem) {
  const auto before = threads_of_this_process();
  in_thread([&] {
    for (const int parts : {3, 9, 4}) call_a_worker(parts);
    EXPECT_GT(threads_of_this_process().size(), before.size() + 2);
  });
  EXPECT_LE(threads_of_this_process().size(), before.size());
}

TEST(Parallel, WorkersLeaveSignalsToTheProgram) {
  std::atomic<int> blocked{-1}, fault_blocked{-1};
  in_thread([&] {
    std::atomic<bool> begun{false};
    parallel(2, [&](int part, int) {
      if (part == 1) {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        blocked = sigismember(&mask, SIGINT), fault_blocked = sigismember(&mask, SIGSEGV);
        begun = true;
      }
      while (part == 0 && !begun) std::this_thread::yield();
    });
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, nullptr, &mine);
    EXPECT_EQ(sigismember(&mine, SIGINT), 0);
  });
  EXPECT_EQ(blocked, 1);
  EXPECT_EQ(fault_blocked, 0);
}

// The sanitizer hands signals on only at calls it knows, and allows no threads after fork().
#if !defined(__SANITIZE_THREAD__)

std::atomic<int> frozen{0};
std::atomic<bool> frozen_may_go{false};

// Keeps the workers of the calling thread from running, as a busy system does, while it lives.
class FrozenWorkers {
 public:
  explicit FrozenWorkers(const std::set<long>& others) {
    frozen = 0, frozen_may_go = false;
    struct sigaction action {};
    action.sa_handler = [](int) {
      ++frozen;
      while (!frozen_may_go) usleep(100);
      --frozen;
    };
    sigaction(SIGPROF, &action, &before_);
    int workers = 0;
    for (const long number : threads_of_this_process())
      if (!others.contains(number)) ++workers, syscall(SYS_tgkill, getpid(), number, SIGPROF);
    EXPECT_GT(workers, 0);
    while (frozen < workers) usleep(100);
  }
  ~FrozenWorkers() {
    frozen_may_go = true;
    while (frozen > 0) usleep(100);
    sigaction(SIGPROF, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

TEST(Parallel, ARegionDoesNotWaitForAThreadThatDoesNotRun) {
  const auto others = threads_of_this_process();
  in_thread([&] {
    auto all_others = others;
    all_others.insert(thread_number());
    const auto context = Context::host(4);
    std::vector<double> x(100'000);
    std::iota(x.begin(), x.end(), 0.1);
    const VectorView<const double> view{x.data(), 100'000, Space::host};
    double with_workers = 0, alone = 0;
    call_a_worker(4);
    dot<double>(*context, view, view, &with_workers);
    {
      const FrozenWorkers frozen_workers(all_others);
      for (int repeat = 0; repeat < 100; ++repeat) {
        const long self = thread_number();
        std::vector<int> order;
        parallel(*context, [&](int part, int) {
          EXPECT_EQ(thread_number(), self);
          order.push_back(part);
        });
        EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
      }
      dot<double>(*context, view, view, &alone);
    }
    EXPECT_EQ(with_workers, alone) << "the sum depends on who ran the parts";
    call_a_worker(4);
  });
}

TEST(Parallel, AChildAfterForkHasWorkersOfItsOwn) {
  call_a_worker(3);
  for (int repeat = 0; repeat < 3; ++repeat) {
    fflush(nullptr);  // so that the child does not write it again
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);
      int sum = 0;
      call_a_worker(3);
      parallel(1, [&](int, int) { ++sum; });
      // Ends the new workers as the end of a thread does, and does not wait for those left behind.
      in_thread([] { call_a_worker(2); });
      exit(sum == 1 ? 7 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 7);
  }
  call_a_worker(3);
}

#if defined(_OPENMP)
TEST(Parallel, IsSerialInsideOfAParallelRegionOfOpenMP) {
  std::atomic<int> wrong{0}, regions{0};
#pragma omp parallel num_threads(3)
  {
    const long self = thread_number();
    parallel(4, [&](int, int) { wrong += thread_number() != self; });
    ++regions;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(regions, 3);
  call_a_worker(3);
}
#endif

#endif  // !__SANITIZE_THREAD__

TEST(Parallel, ALibraryMayBeClosedWhileItsWorkersLive) {
  in_thread([] {
    void* const module = dlopen(PROTEAN_PARALLEL_MODULE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(module) << dlerror();
    const auto sum = reinterpret_cast<int (*)(int)>(dlsym(module, "sum_of_parts"));
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum(4), 6);
    dlclose(module);
    usleep(1000);  // the workers spin, and fall asleep
  });
}

// Regions after the threads of the program have ended: run when the program ends, after main().
struct RegionAtTheEnd {
  ~RegionAtTheEnd() {
    int parts = 0;
    parallel(4, [&](int, int) { ++parts; });
    if (parts != 4) abort();
  }
} region_at_the_end;

TEST(Parallel, BackgroundWorkStaysOnItsThreadsInATeamThatHasMore) {
  const ContextPtr context = Context::host(6);
  in_thread([&] {
    call_a_worker(6);
    const std::atomic<bool> cancel{false};
    const BackgroundWork behind(context, cancel, 2);
    for (int repeat = 0; repeat < 300; ++repeat) {
      std::mutex mutex;
      std::set<long> threads;
      std::set<int> parts;
      parallel(*context, [&](int part, int) {
        const std::lock_guard lock(mutex);
        threads.insert(thread_number()), parts.insert(part);
      });
      ASSERT_LE(threads.size(), 2u);
      ASSERT_EQ(parts.size(), 6u);
    }
  });
}

TEST(Parallel, PartsOfBackgroundWorkAreBackgroundWorkOnEveryThread) {
  const ContextPtr context = Context::host(2);
  in_thread([&] {
    std::atomic<bool> cancel{false}, begun{false};
    std::atomic<std::size_t> allocated{0};
    const BackgroundWork behind(context, cancel, 2, &allocated);
    EXPECT_THROW(parallel(*context,
                          [&](int part, int) {
                            if (part == 1) {
                              const Buffer<char> counted(context, 1000);
                              cancel = begun = true;
                              detail::checkpoint();
                              ADD_FAILURE() << "a worker's part was not cancelled";
                            }
                            while (!begun) std::this_thread::yield();
                          }),
                 Cancelled);
    EXPECT_EQ(allocated, 1000u);
  });
}

// One caller's random sequence of regions; returns what went wrong.
int random_regions(unsigned seed, int steps) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int wrong = 0;
  std::vector<std::int64_t> data(64, 0);
  std::int64_t expected = 0;
  for (int step = 0; step < steps; ++step) {
    const int parts = 1 + draw(9), kind = draw(8), thrower = draw(parts);
    std::atomic<int> runs{0};
    const auto body = [&](int part, int count) {
      const Range range = even_range(64, part, count);
      for (std::int64_t i = range.begin; i < range.end; ++i) ++data[i];
      if (kind == 1)
        parallel(3, [&](int, int) { ++runs; });
      else
        runs += 3;
      if (kind == 2 && part >= thrower) throw part;
      if (kind == 3 && part == thrower) std::this_thread::yield();
      if (kind == 4 && part == thrower) usleep(100);
    };
    ++expected;
    try {
      parallel(parts, body);
      wrong += kind == 2;
    } catch (int part) { wrong += kind != 2 || part != thrower; }
    wrong += runs != 3 * parts;
    if (kind == 5) usleep(static_cast<useconds_t>(draw(200)));  // the workers fall asleep, or are about to
  }
  for (const std::int64_t count : data) wrong += count != expected;
  return wrong;
}

TEST(Parallel, RandomRegionsOfSeveralCallersOnABusyMachine) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers, loops;
  for (unsigned k = 0; k < 3; ++k)
    loops.emplace_back([&] {
      while (!stop) {}
    });
  for (unsigned k = 0; k < 5; ++k) callers.emplace_back([&, k] { wrong += random_regions(seed + k, 400); });
  const auto context = Context::host(3);
  callers.emplace_back([&] {
    const std::atomic<bool> cancel{false};
    const BackgroundWork behind(context, cancel, 2);
    wrong += random_regions(seed + 100, 400);
  });
  for (std::thread& caller : callers) caller.join();
  stop = true;
  for (std::thread& loop : loops) loop.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace protean::test
