// Seconds of stages, one after another. Private.
#pragma once
#include <chrono>

namespace protean {

class Stopwatch {
 public:
  // Seconds since any moment, instead of the system's clock, for tests, which must not depend on that clock.
  static inline double (*other_clock)() = nullptr;

  // Seconds since the last call, or since it was made.
  double lap() {
    const double now = seconds(), passed = now - last_;
    last_ = now;
    return passed;
  }
  // The same, and the next call counts from the same moment.
  double passed() const { return seconds() - last_; }

  // Of the same clock, since any moment.
  static double seconds() {
    if (other_clock) return other_clock();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  double last_ = seconds();
};

}  // namespace protean
