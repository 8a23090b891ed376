// Products on the host that a tuner measures while a solve runs. timed_products.cuh is the device side. Private to
// formats/.
#pragma once
#include <atomic>
#include <chrono>

#include "formats/engines/tuning/option_sweep.hpp"

namespace protean::formats {

// Several threads may multiply at once: one of them measures, and the others use the best option so far.
class TimedProducts {
 public:
  explicit TimedProducts(const OptionSweep& sweep) noexcept : sweep_(sweep) { publish(); }

  // Calls multiply(option) once.
  template <class Multiply>
  void run(Multiply&& multiply) {
    if (done_.load(std::memory_order_acquire) || busy_.exchange(true, std::memory_order_acquire))
      return multiply(best_.load(std::memory_order_relaxed));
    const Turn turn{*this};  // ends with the product, also when that throws
    if (sweep_.done()) return multiply(sweep_.best());
    const auto begin = std::chrono::steady_clock::now();
    multiply(sweep_.next());
    sweep_.measured(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    publish();
  }
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  int best() const noexcept { return best_.load(std::memory_order_relaxed); }
  int measurements() const noexcept { return measurements_.load(std::memory_order_relaxed); }

 private:
  struct Turn {
    TimedProducts& of;
    ~Turn() { of.busy_.store(false, std::memory_order_release); }
  };
  void publish() noexcept {
    best_.store(sweep_.best(), std::memory_order_relaxed);
    measurements_.store(sweep_.measurements(), std::memory_order_relaxed);
    done_.store(sweep_.done(), std::memory_order_release);
  }

  OptionSweep sweep_;  // of the thread that measures
  std::atomic<bool> busy_ = false, done_ = false;
  std::atomic<int> best_ = 0, measurements_ = 0;
};

}  // namespace protean::formats
