// Ctrl-C as a request to stop at the next iteration.
#pragma once
#include <csignal>

namespace protean::apps {

// While an object exists, the first SIGINT or SIGTERM only sets a flag. The second one ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool asked() noexcept;
  // The exit code of a command that was ended so: 128 and the number of the signal, 130 for Ctrl-C, as shells have it.
  static int exit_code() noexcept;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

}  // namespace protean::apps
