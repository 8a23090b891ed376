// The threads behind parallel(): one team for each thread that calls it. Private to core/parallel.cpp.
//
// A region has a fixed number of parts, but any thread of the team may run any part. The caller opens all parts
// and runs part 0. Worker k prefers part k; whoever has finished a part claims the next open one. So the caller
// runs the parts of a worker that is asleep or that the system has preempted, and waits only for a part that
// somebody has begun. An idle thread spins for a short time and then sleeps.
//
// A child of fork() has no workers: parallel.cpp drops the team there. A child of a fork() inside of a part must
// not return from that part, because the workers that run the other parts are in the parent.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/background.hpp"
#include "core/parallel.hpp"
#include "core/processors.hpp"

namespace protean::detail {

class ThreadTeam {
 public:
  // Starts `workers` threads next to the calling one, or fewer if the system refuses more: regions only take
  // longer then. Regions have up to `parts` parts.
  ThreadTeam(int workers, int parts);
  // Ends the threads.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  bool fits(int workers, int parts) const noexcept { return workers <= workers_ && parts <= parts_; }

  // Runs body(closure, part, parts) for all parts, on the calling thread and up to `helpers` workers, and
  // returns when all have finished. Always called by the same thread. work: the background work that the
  // parts belong to, or null. Rethrows the exception of the lowest part that threw.
  void run(ParallelBody body, void* closure, int parts, int helpers, const Background* work);

  ThreadTeam* next_dropped = nullptr;  // for parallel.cpp: in a child of fork()

 private:
  using Region = std::uint64_t;  // their number, from 1
  enum class State : std::uint64_t { open, taken, done };
  static constexpr std::uint64_t word(Region region, State state) noexcept {
    return region << 2 | static_cast<std::uint64_t>(state);
  }
  static constexpr Region region_of(std::uint64_t word) noexcept { return word >> 2; }

  // Place k belongs to part k and to worker k.
  struct alignas(64) Place {
    std::atomic<std::uint64_t> part{0};    // word(region, state)
    std::atomic<std::uint32_t> asleep{0};  // 1: the worker waits for it to become 0
  };

  void work(int number, const ProcessorSet& processors);
  Region wait_for_region(int number, Region last);
  bool fall_asleep(int number, Region last);
  void wake_sleepers(int limit);
  bool wake_worker(int number);
  void help(int number, Region region);
  bool claim(int part, Region region) noexcept;
  void run_claimed(int part, Region region) noexcept;
  void run_part(int part, int parts) noexcept;
  void wait_for_part(int part, Region region) noexcept;

  const int workers_, parts_;
  std::unique_ptr<Place[]> places_;
  std::vector<std::thread> threads_;

  // The state of the present region. Written by the caller before it opens the parts, and read by those who have
  // claimed a part, so they do not change while anybody reads them.
  ParallelBody body_ = nullptr;
  void* closure_ = nullptr;
  const Background* background_ = nullptr;
  // Also read by workers that have not claimed a part yet.
  std::atomic<int> count_{0}, helpers_{0};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  int error_part_ = 0;

  // The parts of a region are opened before its number is stored here.
  alignas(64) std::atomic<Region> region_{0};
  std::atomic<bool> end_{false};
  alignas(64) std::atomic<int> sleepers_{0};
  alignas(64) std::atomic<std::uint32_t> awaited_{0};  // the part that the caller sleeps for; 0: it is awake
};

}  // namespace protean::detail
