#include "distributed/simulated_parts.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "core/blas1.hpp"
#include "core/buffer.hpp"
#include "core/simulated_device.hpp"

namespace protean::detail {

// What the vector operations of a part see.
class SimulatedParts::Link final : public Communicator {
 public:
  Link(SimulatedParts& parts, int part) : parts_(parts), part_(part) {}
  int part() const noexcept override { return part_; }
  int parts() const noexcept override { return parts_.partition_->parts(); }
  std::int64_t rows() const noexcept override { return parts_.partition_->rows(); }
  std::int64_t first_row() const noexcept override { return parts_.partition_->begin(part_); }
  std::int64_t number_of(std::int64_t row) const noexcept override {
    return parts_.partition_->rows_of(part_)[static_cast<std::size_t>(row)];
  }
  void sum(const Context& context, double* values, int count) override { add(context, values, count); }
  void sum(const Context& context, float* values, int count) override { add(context, values, count); }
  void largest(const Context& context, double* value) override { find(context, value); }
  void largest(const Context& context, float* value) override { find(context, value); }
  std::vector<double> gathered(const std::vector<double>& numbers) override {
    return parts_.meeting_.gathered(part_, numbers);
  }
  std::vector<PartMessage> exchanged(std::vector<PartMessage> to) override {
    return parts_.meeting_.exchanged(part_, std::move(to));
  }

 private:
  // combine(of_all, own): own has `count` values, of_all those of each part.
  template <class T, class Combine>
  void combined(const Context& context, T* values, int count, Combine&& combine) {
    const DeviceWork work(context, {values});
    if (work.ended()) return;
    const std::vector<double> of_all = parts_.meeting_.gathered(part_, {values, values + count});
    combine(of_all);
  }
  template <class T>
  void add(const Context& context, T* values, int count) {
    combined(context, values, count, [&](const std::vector<double>& of_all) {
      for (int k = 0; k < count; ++k) {
        T sum = static_cast<T>(of_all[static_cast<std::size_t>(k)]);
        for (std::size_t p = 1; p < static_cast<std::size_t>(parts()); ++p)
          sum += static_cast<T>(of_all[p * static_cast<std::size_t>(count) + static_cast<std::size_t>(k)]);
        values[k] = sum;
      }
    });
  }
  template <class T>
  void find(const Context& context, T* value) {
    combined(context, value, 1, [&](const std::vector<double>& of_all) {
      T largest = 0;
      for (const double one : of_all)  // a NaN, once found, stays
        if (!(static_cast<T>(one) <= largest)) largest = largest != largest ? largest : static_cast<T>(one);
      *value = largest;
    });
  }

  SimulatedParts& parts_;
  const int part_;
};

template <class T>
class SimulatedParts::Exchange final : public HaloExchange<T> {
 public:
  Exchange(SimulatedParts& parts, int part, std::uint64_t number, const PartHalo& halo)
      : parts_(parts),
        context_(*parts.contexts_[static_cast<std::size_t>(part)]),
        part_(part),
        number_(number),
        halo_(halo) {
    for (Buffer<T>& place : arrived_)
      place = Buffer<T>(parts.contexts_[static_cast<std::size_t>(part)], std::ssize(halo.ghosts));
    for (auto& epochs : epochs_) epochs.assign(halo.neighbours.size(), 0);
  }

  void begin(VectorView<const T> x) override {
    const DeviceWork work(context_, {x.data});
    if (work.ended()) return;
    // After a failure all parts count anew.
    if (std::exchange(resets_, parts_.resets_) != parts_.resets_) {
      epoch_ = 0;
      for (auto& epochs : epochs_) std::fill(epochs.begin(), epochs.end(), 0);
    }
    ++epoch_;
    for (const HaloNeighbour& to : halo_.neighbours) {
      Message message{part_, number_, epoch_, 0, {}};
      for (const std::int32_t row : to.send) message.values.push_back(static_cast<double>(x.data[row]));
      parts_.send(to.part, std::move(message));
    }
  }

  void end(VectorView<T> ghosts) override {
    const DeviceWork work(context_, {ghosts.data});
    if (work.ended()) return;
    while (!complete()) store(parts_.arrive(part_, number_));
    const Buffer<T>& place = arrived_[epoch_ % 2];
    std::copy_n(place.data(), ghosts.size, ghosts.data);
  }

 private:
  bool complete() const {
    const std::vector<std::uint64_t>& epochs = epochs_[epoch_ % 2];
    return std::all_of(epochs.begin(), epochs.end(), [&](std::uint64_t one) { return one == epoch_; });
  }
  // What a neighbour's kernel does: values, then the epoch.
  void store(const Message& message) {
    // Two places are enough as long as nobody is further ahead.
    if (message.epoch > epoch_ + 1)
      throw std::logic_error("a message would overwrite values that are in use");
    for (std::size_t i = 0; i < halo_.neighbours.size(); ++i) {
      const HaloNeighbour& from = halo_.neighbours[i];
      if (from.part != message.from) continue;
      T* const to = arrived_[message.epoch % 2].data() + from.first_ghost;
      for (std::int64_t k = 0; k < from.ghosts; ++k)
        to[k] = static_cast<T>(message.values[static_cast<std::size_t>(k)]);
      epochs_[message.epoch % 2][i] = message.epoch;
      return;
    }
    throw std::logic_error("a message has arrived from a part that is no neighbour");
  }

  SimulatedParts& parts_;
  const Context& context_;
  const int part_;
  const std::uint64_t number_;
  const PartHalo& halo_;
  std::array<Buffer<T>, 2> arrived_;
  std::array<std::vector<std::uint64_t>, 2> epochs_;
  std::uint64_t epoch_ = 0, resets_ = 0;
};

SimulatedParts::SimulatedParts(std::vector<ContextPtr> contexts, std::shared_ptr<const Partition> partition)
    : contexts_(std::move(contexts)),
      partition_(std::move(partition)),
      watch_(contexts_.size()),
      meeting_(contexts_.size(), watch_) {
  if (std::ssize(contexts_) != partition_->parts())
    throw BadArgument("a context is needed for each part of the partition");
  for (std::size_t p = 0; p < contexts_.size(); ++p) {
    SimulatedDevice* const device = contexts_[p] ? contexts_[p]->simulated() : nullptr;
    if (!device || contexts_[p]->space() != Space::device)
      throw BadArgument("simulated parts need contexts of simulated devices");
    if (device->communicator())
      throw BadArgument(
          "a device belongs to another distributed system, or is given twice; give each part its own");
    for (std::size_t q = 0; q < p; ++q)
      if (contexts_[q]->simulated() == device)
        throw BadArgument("a device is given twice; give each part its own");
  }
  const std::size_t count = contexts_.size();
  exchanges_.assign(count, 0), mail_.resize(count);
  for (std::size_t p = 0; p < count; ++p)
    links_.push_back(std::make_unique<Link>(*this, static_cast<int>(p)));
  for (std::size_t p = 0; p < count; ++p) contexts_[p]->simulated()->set_communicator(links_[p].get());
}

SimulatedParts::~SimulatedParts() {
  for (const ContextPtr& context : contexts_) context->simulated()->set_communicator(nullptr);
}

template <class T>
std::unique_ptr<HaloExchange<T>> SimulatedParts::made(int part, const PartHalo& halo) {
  return std::make_unique<Exchange<T>>(*this, part, ++exchanges_[static_cast<std::size_t>(part)], halo);
}
std::unique_ptr<HaloExchange<double>> SimulatedParts::exchange(int part, const PartHalo& halo, double) {
  return made<double>(part, halo);
}
std::unique_ptr<HaloExchange<float>> SimulatedParts::exchange(int part, const PartHalo& halo, float) {
  return made<float>(part, halo);
}

void SimulatedParts::require_going() const {
  if (abandoned_) throw PartAbandoned();
}

void SimulatedParts::send(int to, Message message) {
  const std::lock_guard lock(mutex_);
  require_going();
  watch_.progress();
  message.number = ++sent_;
  mail_[static_cast<std::size_t>(to)].under_way[message.exchange].push_back(std::move(message));
  changed_.notify_all();
}

SimulatedParts::Message SimulatedParts::arrive(int part, std::uint64_t exchange) {
  std::unique_lock lock(mutex_);
  std::vector<Message>& under_way = mail_[static_cast<std::size_t>(part)].under_way[exchange];
  watch_.wait(lock, changed_, part, [&] { return abandoned_ || !under_way.empty(); });
  require_going();
  // splitmix64 (Steele, Lea and Flood, OOPSLA 2014)
  std::uint64_t z = ++arrivals_ * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u, z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  const auto taken = under_way.begin() + static_cast<std::ptrdiff_t>((z ^ (z >> 31)) % under_way.size());
  for (const Message& other : under_way) overtaken_ += other.number < taken->number;
  Message message = std::move(*taken);
  under_way.erase(taken);
  return message;
}

void SimulatedParts::abandon() noexcept {
  meeting_.abandon();
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

void SimulatedParts::begin() {
  (void)meeting_.begin();
  const std::lock_guard lock(mutex_);
  if (!abandoned_) return;
  abandoned_ = false;
  for (Mailbox& box : mail_) box.under_way.clear();
  // Some parts may have made an exchange before another one failed.
  std::fill(exchanges_.begin(), exchanges_.end(), *std::max_element(exchanges_.begin(), exchanges_.end()));
  ++resets_;
}

std::int64_t SimulatedParts::overtaken() const {
  const std::lock_guard lock(mutex_);
  return overtaken_;
}

}  // namespace protean::detail
