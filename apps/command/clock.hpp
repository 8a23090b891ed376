// Measures the seconds of each stage of a command.
#pragma once
#include <chrono>
#include <utility>

namespace protean::apps {

class Clock {
 public:
  // lap(): seconds since the last call of it. total(): seconds since the start.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return seconds(std::exchange(last_, now), now);
  }
  double total() const { return seconds(start_, std::chrono::steady_clock::now()); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static double seconds(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }
  Time start_ = std::chrono::steady_clock::now(), last_ = start_;
};

}  // namespace protean::apps
