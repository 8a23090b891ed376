// Threads of the library leave signals to the program. Private.
#pragma once
#include <signal.h>

namespace protean::detail {

// The calling thread, and threads that it starts, block signals while an object of this class lives: signals sent to
// the process go to threads of the program, whose handlers may rely on that. Signals that a thread causes itself, and
// signals of profilers, stay.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t signals;
    sigfillset(&signals);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      sigdelset(&signals, own);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalsBlocked() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace protean::detail
