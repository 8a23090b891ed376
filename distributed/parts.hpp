// The parts of a system in one process: who talks to whom, on simulated devices or on GPUs. Private.
#pragma once
#include <condition_variable>
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
};

// Where the hosts' threads of all parts exchange numbers.
class HostMeeting {
 public:
  explicit HostMeeting(std::size_t parts);
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

  std::mutex mutex_;
  std::condition_variable changed_;
  bool abandoned_ = false;
  // Nobody can be two meetings ahead of another one, so two places are enough.
  std::vector<std::vector<double>> slots_[2];
  std::vector<std::vector<PartMessage>> messages_[2];  // of a part, to each part
  std::vector<std::uint64_t> posted_;
};

}  // namespace protean::detail
