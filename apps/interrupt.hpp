// Ctrl-C as a wish, not a death.
#pragma once
#include <csignal>

namespace protean::apps {

// While it lives the first SIGINT or SIGTERM only raises a flag; the second one ends the process as ever.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool asked() noexcept;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

}  // namespace protean::apps
