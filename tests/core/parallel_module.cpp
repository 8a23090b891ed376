// A library that a test loads and closes: parallel() inside of it has workers that run its code.
#include <atomic>

#include "core/parallel.hpp"

extern "C" __attribute__((visibility("default"))) int sum_of_parts(int parts) {
  std::atomic<int> sum{0};
  protean::parallel(parts, [&](int part, int) { sum += part; });
  return sum;
}
