// The parts of a system in one process: who talks to whom, on simulated devices or on GPUs. Private.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/communicator.hpp"
#include "core/error.hpp"
#include "distributed/halo.hpp"
#include "distributed/halo_exchange.hpp"

namespace protean::detail {

// Thrown in a part because another one has failed.
class PartAbandoned : public Error {
 public:
  PartAbandoned() : Error("another part of the system has failed") {}
};

// Seconds for which parts wait for one that does not answer.
inline std::atomic<double> part_patience{10};

// Thrown in a part that waits, because another one has not answered for so long.
class PartSilent : public Error {
 public:
  // part: -1: all parts wait for each other.
  explicit PartSilent(int of) : Error("a part of the system does not answer"), part(of) {}
  int part;
};

// Which parts wait in their hosts' threads, and since when nothing has arrived.
class PartWatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit PartWatch(std::size_t parts) : waiting_(parts, false) {}
  // Before work of all parts, with this patience.
  void begin(double patience);
  // A part has told the others something.
  void progress() noexcept;
  // Code of the caller runs in a part, which may take any time.
  void away(bool away) noexcept;
  // Until done(), which changes under the lock. Throws PartSilent if nothing has arrived for as long as patience lasts;
  // the first part that does not wait is the one that does not answer.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, int part, Done&& done) {
    set_waiting(part, true);
    while (!done()) {
      (void)changed.wait_until(lock, deadline());
      if (done() || Clock::now() < deadline()) continue;
      const int silent = first_at_work();
      set_waiting(part, false);
      throw PartSilent(silent);
    }
    set_waiting(part, false);
  }

 private:
  void set_waiting(int part, bool waiting);
  Clock::time_point deadline() const;
  int first_at_work() const;

  mutable std::mutex mutex_;
  std::vector<bool> waiting_;
  Clock::time_point last_ = Clock::now();
  Clock::duration patience_ = std::chrono::seconds(10);
  bool away_ = false;
};

// While an object of this class lives, dots and norms of its contexts are sums over all parts.
class Parts {
 public:
  virtual ~Parts() = default;
  // An exchange of a part, which must not outlive this, nor the halo. All parts make it together; each of them may wait
  // for the others. No kernel of a part may be waiting meanwhile.
  virtual std::unique_ptr<HaloExchange<double>> exchange(int part, const PartHalo& halo, double) = 0;
  virtual std::unique_ptr<HaloExchange<float>> exchange(int part, const PartHalo& halo, float) = 0;
  // A part has failed: all others throw PartAbandoned where they wait for it.
  virtual void abandon() noexcept = 0;
  // Before work of all parts: if a part has failed before, forgets what was under way. No part works.
  virtual void begin() = 0;
  virtual PartWatch& watch() noexcept = 0;
  // Throws PartSilent if devices have given up waiting for a part.
  virtual void require_answers() const {}
};

// Where the hosts' threads of all parts exchange numbers.
class HostMeeting {
 public:
  HostMeeting(std::size_t parts, PartWatch& watch);
  // The numbers of all parts, one after another.
  std::vector<double> gathered(int part, const std::vector<double>& numbers);
  // What each part tells this one; to: what this one tells each part.
  std::vector<PartMessage> exchanged(int part, std::vector<PartMessage> to);
  void abandon() noexcept;
  // Returns whether it had been abandoned.
  bool begin();

 private:
  // Says that a part has come to its next meeting, and waits for all parts. Returns the number of the meeting.
  template <class Post>
  std::uint64_t meet(std::unique_lock<std::mutex>& lock, int part, Post&& post);

  PartWatch& watch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool abandoned_ = false;
  // Nobody can be two meetings ahead of another one, so two places are enough.
  std::vector<std::vector<double>> slots_[2];
  std::vector<std::vector<PartMessage>> messages_[2];  // of a part, to each part
  std::vector<std::uint64_t> posted_;
};

}  // namespace protean::detail
