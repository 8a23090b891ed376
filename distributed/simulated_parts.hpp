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
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/communicator.hpp"
#include "core/context.hpp"
#include "distributed/partition.hpp"
#include "distributed/parts.hpp"

namespace protean::detail {

class SimulatedParts final : public Parts {
 public:
  // A context in device space, of a simulated device of its own, for each part. From here on their dots and norms are
  // sums over all parts, until the object is destroyed. Throws BadArgument for other contexts, and for one that belongs
  // to another system.
  SimulatedParts(std::vector<ContextPtr> contexts, std::shared_ptr<const Partition> partition);
  ~SimulatedParts() override;
  SimulatedParts(const SimulatedParts&) = delete;
  SimulatedParts& operator=(const SimulatedParts&) = delete;

  std::unique_ptr<HaloExchange<double>> exchange(int part, const PartHalo& halo, double) override;
  std::unique_ptr<HaloExchange<float>> exchange(int part, const PartHalo& halo, float) override;
  void abandon() noexcept override;
  void begin() override;
  PartWatch& watch() noexcept override { return watch_; }

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
    std::map<std::uint64_t, std::vector<Message>> under_way;  // of each exchange
  };

  template <class T>
  std::unique_ptr<HaloExchange<T>> made(int part, const PartHalo& halo);
  void send(int to, Message message);
  // Takes one of the messages of the exchange that are under way to this part; waits for one.
  Message arrive(int part, std::uint64_t exchange);
  void require_going() const;

  const std::vector<ContextPtr> contexts_;
  const std::shared_ptr<const Partition> partition_;
  std::vector<std::unique_ptr<Link>> links_;

  PartWatch watch_;
  HostMeeting meeting_;       // for sums and other numbers
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool abandoned_ = false;
  std::uint64_t resets_ = 0;
  std::vector<Mailbox> mail_;
  std::vector<std::uint64_t> exchanges_;  // a part has made
  std::uint64_t sent_ = 0, arrivals_ = 0;
  std::int64_t overtaken_ = 0;
};

}  // namespace protean::detail
