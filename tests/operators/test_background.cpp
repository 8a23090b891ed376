// Background work: it runs all parts in its own threads and can be cancelled.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "core/background.hpp"
#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"

namespace protean::test {
namespace {

// Runs f in a separate thread, because a thread keeps the low priority after background work.
template <class F>
void in_thread(F f) {
  std::thread(f).join();
}

TEST(Background, AllPartsRunOnTheCallingThread) {
  const ContextPtr context = Context::host(4);
  std::atomic<bool> cancel{false};
  in_thread([&] {
    const std::thread::id self = std::this_thread::get_id();
    const BackgroundWork behind(context, cancel);
    std::vector<int> parts;
    parallel(*context, [&](int part, int count) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(count, 4);
      parts.push_back(part);
    });
    EXPECT_EQ(parts, (std::vector<int>{0, 1, 2, 3}));
  });
}

TEST(Background, TwoWorkersShareTheParts) {
  const ContextPtr context = Context::host(8);
  std::atomic<bool> cancel{false};
  in_thread([&] {
    const BackgroundWork behind(context, cancel, 2);
    std::mutex mutex;
    std::set<int> parts;
    std::set<std::thread::id> threads;
    parallel(*context, [&](int part, int count) {
      EXPECT_EQ(count, 8);
      const std::lock_guard lock(mutex);
      parts.insert(part), threads.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(parts.size(), 8u);
    EXPECT_LE(threads.size(), 2u);
  });
}

TEST(Background, EndsAtTheNextRegionOrAllocation) {
  const ContextPtr context = Context::host(2);
  std::atomic<bool> cancel{false};
  const std::size_t before = allocated_bytes();
  in_thread([&] {
    const BackgroundWork behind(context, cancel);
    EXPECT_NO_THROW(Buffer<double>(context, 10));
    int run = 0;
    EXPECT_THROW(parallel(*context,
                          [&](int, int) {
                            ++run;
                            cancel = true;
                          }),
                 Cancelled);
    EXPECT_EQ(run, 1);
    EXPECT_THROW(parallel(*context, [&](int, int) { ++run; }), Cancelled);
    EXPECT_THROW(parallel(1, [&](int, int) { ++run; }), Cancelled);
    EXPECT_EQ(run, 1);
    EXPECT_THROW(Buffer<double>(context, 10), Cancelled);
    EXPECT_THROW(Buffer<double>(context, 10 << 20), Cancelled);
  });
  EXPECT_EQ(allocated_bytes(), before);
}

TEST(Background, OtherThreadsAreAsEver) {
  const ContextPtr context = Context::host(2);
  std::atomic<bool> cancel{true};
  in_thread([&] {
    {
      const BackgroundWork behind(context, cancel);
      in_thread([&] {
        std::atomic<int> run{0};
        EXPECT_NO_THROW(parallel(*context, [&](int, int) { ++run; }));
        EXPECT_EQ(run, 2);
      });
    }
    EXPECT_NO_THROW(Buffer<double>(context, 10)) << "after the background work";
  });
}

TEST(Background, LowersThePriorityOfItsThreadOnly) {
  const ContextPtr context = Context::host(2);
  std::atomic<bool> cancel{false};
  const auto priority = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))); };
  const int mine = priority();
  in_thread([&] {
    const BackgroundWork behind(context, cancel);
    EXPECT_GE(priority(), std::min(mine, 10));
    EXPECT_GE(priority(), 10);
  });
  EXPECT_EQ(priority(), mine);
}

TEST(Background, RefusesToBeNestedAndToHaveNoWorkers) {
  const ContextPtr context = Context::host(2);
  std::atomic<bool> cancel{false};
  in_thread([&] {
    EXPECT_THROW(BackgroundWork(context, cancel, 0), BadArgument);
    const BackgroundWork behind(context, cancel);
    EXPECT_THROW(BackgroundWork(context, cancel), BadArgument);
  });
}

}  // namespace
}  // namespace protean::test
