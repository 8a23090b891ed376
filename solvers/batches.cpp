#include "solvers/batches.hpp"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <utility>

#include "core/simulated_device.hpp"
#include "operators/multi_product.hpp"

namespace protean::detail {
namespace {

// Of one system in one set of lanes: the positions of a method, and the pieces of a long cycle.
constexpr std::size_t most_known = 24;

// A simulated device records nothing, and does the work of each batch. A recording is the list of the addresses that
// the work has used, and a replay must use the same.
template <class T>
class SimulatedBatches final : public Batches<T> {
 public:
  SimulatedBatches(const ContextPtr& context, std::int64_t steps) : Batches<T>(steps), context_(context) {}
  std::string_view name() const noexcept override { return "simulated"; }

 protected:
  using typename Batches<T>::Recorded;

  void send(std::span<const LaneJudgement> lanes) override {
    judgement_.assign(lanes.begin(), lanes.end()), copies_.clear();
  }
  void judge(MultiMethod<T>& method, int step) override {
    const DeviceWork work(*context_, {method.running(), method.scalars(method.residual_scalar())});
    const LaneTests<T> tests(method);
    for (std::size_t l = 0; l < judgement_.size(); ++l)
      tests.judge(static_cast<int>(l), step, judgement_[l], method.running());
  }
  void expect() override { copies_.push_back(judgement_); }
  std::span<const LaneJudgement> receive() override {
    if (copies_.empty()) throw std::logic_error("judgements were to be received that nothing has sent");
    read_ = std::move(copies_.front());
    copies_.pop_front();
    return read_;
  }
  bool replay(std::unique_ptr<Recorded>& recorded, const std::function<void()>& queue) override {
    struct Addresses final : Recorded {
      std::vector<const void*> used;
    };
    struct Noted {
      Noted(SimulatedDevice& of, std::vector<const void*>& to) : device(of) { device.note_addresses(&to); }
      ~Noted() { device.note_addresses(nullptr); }
      SimulatedDevice& device;
    };
    auto work = std::make_unique<Addresses>();
    {
      const Noted noted(*context_->simulated(), work->used);
      queue();
    }
    if (!recorded)
      recorded = std::move(work);
    else if (static_cast<const Addresses&>(*recorded).used != work->used)
      throw std::logic_error("steps were to be replayed whose work has changed since they were recorded");
    return true;
  }

 private:
  const ContextPtr context_;
  std::vector<LaneJudgement> judgement_, read_;
  std::deque<std::vector<LaneJudgement>> copies_;
};

}  // namespace

template <class T>
void Batches<T>::attach(const MultiSystem<T>& system) {
  recorded_ = replayed_ = 0;
  if (!RecordedSystem<T>(system).serves_next_solve())
    while (!known_.empty()) forget(known_.size() - 1);
}

template <class T>
void Batches<T>::start(const std::vector<Limits>& limits) {
  while (batches_ > 0) (void)receive_oldest();
  forgotten_.clear();
  ahead_ = 0, lanes_ = limits.size();
  std::vector<LaneJudgement> judgement(lanes_, LaneJudgement{});
  for (std::size_t l = 0; l < lanes_; ++l)
    judgement[l].goal = limits[l].goal, judgement[l].too_large = limits[l].too_large,
    judgement[l].left = limits[l].left;
  send(judgement);
}

template <class T>
void Batches<T>::next(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
                      std::int64_t room, Done& done) {
  done.reset(lanes_);
  // A cycle ends with a shorter batch, and so does a stop of the observer: what follows is the driver's.
  while (batches_ < in_flight_.size() && ahead_ < room && method.position() < method.period())
    queue(system, method, lanes, room - ahead_);
  take(done);
}

template <class T>
void Batches<T>::settle(Done& done) {
  done.reset(lanes_);
  while (batches_ > 0) take(done);
}

// A batch that was received is in flight no more, also when memory runs out with its numbers.
template <class T>
std::span<const LaneJudgement> Batches<T>::receive_oldest() {
  const std::span<const LaneJudgement> lanes = receive();
  ahead_ -= std::exchange(in_flight_[0], in_flight_[1]);
  --batches_;
  return lanes;
}

template <class T>
void Batches<T>::take(Done& done) {
  const std::span<const LaneJudgement> lanes = receive_oldest();
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const LaneJudgement& lane = lanes[l];
    for (int s = 0; s < lane.steps; ++s) done.residual_squared[l].push_back(lane.residual_squared[s]);
    if (lane.steps > 0)
      for (int s = 0; s < most_lane_scalars; ++s)
        done.last[l][static_cast<std::size_t>(s)] = static_cast<T>(lane.last[s]);
  }
}

template <class T>
void Batches<T>::queue(const MultiSystem<T>& system, MultiMethod<T>& method,
                       std::span<const ColumnPair> lanes, std::int64_t room) {
  const std::int64_t position = method.position(), before = method.steps(), products = system.A.products();
  // Of whole rounds of positions if one is short, so that there are few kinds of batches.
  const std::int64_t round = method.recurrence(), whole = round <= steps_ ? steps_ / round * round : steps_;
  const std::int64_t usual = std::min(whole, method.period() - position), steps = std::min(usual, room);
  const auto work = [&] {
    system.count_products(products - system.A.products());
    method.set_position(position, before);
    for (std::int64_t step = 0; step < steps; ++step) {
      method.step(system, lanes);
      judge(method, static_cast<int>(step));
    }
  };
  Known* const again = steps == usual ? known(system, method, lanes) : nullptr;
  const bool anew = again && !again->recorded;
  if (again && !again->refused && replay(again->recorded, work)) {
    if (anew) {
      again->position_after = method.position(), again->products = system.A.products() - products;
      ++recorded_;
    }
    ++replayed_;
    method.set_position(again->position_after, before + steps);
    system.count_products(products + again->products - system.A.products());
  } else {
    if (again) again->refused = true;
    work();
  }
  expect();
  in_flight_[batches_++] = steps, ahead_ += steps;
}

template <class T>
auto Batches<T>::known(const MultiSystem<T>& system, MultiMethod<T>& method,
                       std::span<const ColumnPair> lanes) -> Known* {
  Known now{
      .system = RecordedSystem<T>(system), .addresses = method.addresses(), .position = method.position()};
  if (!now.system.allowed()) return nullptr;
  if (!column_by_column(system.A).empty() ||
      (system.general_preconditioner() && !column_by_column<T>(*system.M).empty()))
    for (const ColumnPair lane : lanes) now.lanes.push_back(lane.to);
  for (Known& one : known_)
    if (one.position == now.position && one.beside(now)) return ++one.times > 2 ? &one : nullptr;
  if (known_.size() == most_known) {
    const auto other =
        std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return !one.beside(now); });
    if (other == known_.end()) return nullptr;
    forget(static_cast<std::size_t>(other - known_.begin()));
  }
  known_.push_back(std::move(now));
  return nullptr;
}

template <class T>
void Batches<T>::forget(std::size_t which) {
  const auto one = known_.begin() + static_cast<std::ptrdiff_t>(which);
  if (one->recorded) forgotten_.push_back(std::move(one->recorded));
  known_.erase(one);
}

template <class T>
std::unique_ptr<Batches<T>> make_batches(const ContextPtr& context, std::int64_t most) {
  if (context->space() == Space::host) return nullptr;
  if (const SimulatedDevice* const simulated = context->simulated()) {
    if (simulated->steps_ahead() == 0) return nullptr;
    return std::make_unique<SimulatedBatches<T>>(
        context, std::min<std::int64_t>(most_batch, 1 + simulated->steps_ahead()));
  }
#if defined(PROTEAN_HAVE_CUDA)
  return make_device_batches<T>(context, most);
#else
  (void)most;
  return nullptr;
#endif
}

#define PROTEAN_INSTANTIATE(T) \
  template class Batches<T>;   \
  template std::unique_ptr<Batches<T>> make_batches<T>(const ContextPtr&, std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
