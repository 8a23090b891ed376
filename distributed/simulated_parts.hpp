// The parts of a system on simulated devices: each has a device and a host thread. It models what kernels on GPUs do
// with the memory of their neighbours. A message is stored into the memory of the part that needs it, into one of two
// places that are used alternately, and is complete when its number (epoch) is there. A sum is stored into a mailbox of
// each part, which adds the numbers of all in the order of the parts.
//
// Messages arrive in an order that changes from product to product: later ones may overtake earlier ones, and a message
// of the next product may arrive before one of this product. Private.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/communicator.hpp"
#include "core/context.hpp"
#include "core/error.hpp"
#include "distributed/halo.hpp"
#include "distributed/halo_exchange.hpp"
#include "distributed/partition.hpp"

namespace protean::detail {

// Thrown in a part because another one has failed.
class PartAbandoned : public Error {
 public:
  PartAbandoned() : Error("another part of the system has failed") {}
};

class SimulatedParts {
 public:
  // A context in device space, of a simulated device of its own, for each part. From here on their dots and norms are
  // sums over all parts, until the object is destroyed. Throws BadArgument for other contexts, and for one that belongs
  // to another system.
  SimulatedParts(std::vector<ContextPtr> contexts, std::shared_ptr<const Partition> partition);
  ~SimulatedParts();
  SimulatedParts(const SimulatedParts&) = delete;
  SimulatedParts& operator=(const SimulatedParts&) = delete;

  // The exchange of a part, which must not outlive this. All parts have one of each kind, and make them in the same
  // order.
  template <class T>
  std::unique_ptr<HaloExchange<T>> exchange(int part, const PartHalo& halo);

  // A part has failed: all others throw PartAbandoned where they wait for it.
  void abandon() noexcept;
  // Before work of all parts: if a part has failed before, forgets the messages that were under way. No part works.
  void begin();

  // How many messages have arrived before one that had been sent earlier to the same part.
  std::int64_t overtaken() const;

 private:
  class Link;
  template <class T>
  class Exchange;
  struct Message {
    int from = 0;
    std::uint64_t exchange = 0, epoch = 0, number = 0;  // number: in the order of sending
    std::vector<double> values;
  };
  struct Mailbox {
    std::vector<Message> under_way;
  };

  std::vector<double> gathered(int part, const std::vector<double>& numbers);
  void send(int to, Message message);
  // Takes one of the messages that are under way to this part; waits for one.
  Message arrive(int part);
  void require_going() const;

  const std::vector<ContextPtr> contexts_;
  const std::shared_ptr<const Partition> partition_;
  std::vector<std::unique_ptr<Link>> links_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool abandoned_ = false;
  std::uint64_t resets_ = 0;
  // Sums and other numbers of all: two slots a part.
  std::vector<std::vector<double>> slots_[2];
  std::vector<std::uint64_t> posted_;
  std::vector<Mailbox> mail_;
  std::vector<std::uint64_t> exchanges_;  // a part has made
  std::uint64_t sent_ = 0, arrivals_ = 0;
  std::int64_t overtaken_ = 0;
};

}  // namespace protean::detail
