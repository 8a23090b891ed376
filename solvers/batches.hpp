// Steps of several columns on a device, which runs ahead of the host. Some steps are a batch. The device judges each of
// them, lane by lane (lane_judge.hpp): a lane that has ended is marked as not running, and later steps leave its
// vectors and scalars as they are. The host queues the next batch before it reads the judgements of the last one, so it
// never waits between two steps. A batch that comes the third time is recorded, and from then on it is replayed: two
// batches are queued before the host knows whether the solve has ended, and a short solve does not pay for a recording.
// Private to solvers/.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "solvers/lane_judge.hpp"
#include "solvers/multi_method.hpp"
#include "solvers/recorded_system.hpp"

namespace protean::detail {

template <class T>
class Batches {
 public:
  struct Limits {
    double goal = 0, too_large = 0;
    std::int64_t left = 0;
  };
  // What was computed since the last call: the squared residual of each step of each lane, and the last scalars.
  struct Done {
    std::vector<std::vector<double>> residual_squared;
    std::vector<LaneScalars<T>> last;
    void reset(std::size_t lanes) { residual_squared.assign(lanes, {}), last.assign(lanes, {}); }
  };
  virtual ~Batches() = default;
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // A new solve begins, of this system.
  void attach(const MultiSystem<T>& system);
  // Nothing is in flight, except of a solve that an exception has ended. One for each lane, running or not.
  void start(const std::vector<Limits>& limits);
  // The next steps, of which some more may be in flight when it returns. No more than `room` steps, at least 1, are
  // computed beyond the steps that were returned before.
  void next(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
            std::int64_t room, Done& done);
  // Waits for all that is in flight, and returns it in the same way.
  void settle(Done& done);

  // The value of MultiSolveReport::steps.
  virtual std::string_view name() const noexcept = 0;
  // How often this solve has recorded a batch, and how often it has replayed one.
  std::int64_t recorded() const noexcept { return recorded_; }
  std::int64_t replayed() const noexcept { return replayed_; }

 protected:
  struct Recorded {
    virtual ~Recorded() = default;
  };

  explicit Batches(std::int64_t steps) : steps_(steps) {}

  // Sends the judgements of all lanes to the device. Nothing is in flight.
  virtual void send(std::span<const LaneJudgement> lanes) = 0;
  // Queues the judgement of step number `step` of a batch.
  virtual void judge(MultiMethod<T>& method, int step) = 0;
  // Queues what brings the judgements back after a batch.
  virtual void expect() = 0;
  // Waits for the oldest judgements that were expected. They are read before the next call.
  virtual std::span<const LaneJudgement> receive() = 0;
  // Queues what is recorded; without a recording, first records what queue() queues. queue() may be called several
  // times, and begins anew each time. False: it could not be recorded, and nothing was queued.
  virtual bool replay(std::unique_ptr<Recorded>& recorded, const std::function<void()>& queue) = 0;

  std::size_t lanes() const noexcept { return lanes_; }

 private:
  // A batch of the usual length, and what its work depends on.
  struct Known {
    RecordedSystem<T> system;
    typename MultiMethod<T>::Addresses addresses;
    std::vector<std::int32_t> lanes = {};  // if products go column by column, else empty
    std::int64_t position = 0;
    std::int64_t times = 1;
    std::unique_ptr<Recorded> recorded = {};
    bool refused = false;
    std::int64_t position_after = 0, products = 0;

    // Whether both belong to the same system in the same lanes.
    bool beside(const Known& other) const {
      return system == other.system && addresses == other.addresses && lanes == other.lanes;
    }
  };

  void queue(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes,
             std::int64_t room);
  std::span<const LaneJudgement> receive_oldest();
  void take(Done& done);
  // Null if such a batch has not come twice yet, or cannot be recorded.
  Known* known(const MultiSystem<T>& system, MultiMethod<T>& method, std::span<const ColumnPair> lanes);
  void forget(std::size_t which);

  const std::int64_t steps_;
  std::size_t lanes_ = 0;
  std::array<std::int64_t, 2> in_flight_{};  // steps of batches, the oldest first
  std::size_t batches_ = 0;                  // how many are in flight
  std::int64_t ahead_ = 0;                   // the sum of their steps
  std::int64_t recorded_ = 0, replayed_ = 0;
  std::vector<Known> known_;                          // the oldest first
  std::vector<std::unique_ptr<Recorded>> forgotten_;  // and perhaps in flight
};

// For up to `most` lanes. Null if the steps of the context are not computed ahead: of a host, and of a simulated device
// without SimulatedDevice::steps_ahead().
template <class T>
std::unique_ptr<Batches<T>> make_batches(const ContextPtr& context, std::int64_t most);
// Of a GPU: batches_device.cu.
template <class T>
std::unique_ptr<Batches<T>> make_device_batches(const ContextPtr& context, std::int64_t most);

}  // namespace protean::detail
