#include "apps/command/interrupt.hpp"

namespace protean::apps {
namespace {

volatile std::sig_atomic_t interrupt_asked = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_asked = 0;
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupt_asked = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool InterruptGuard::asked() noexcept { return interrupt_asked != 0; }
int InterruptGuard::exit_code() noexcept { return 128 + interrupt_asked; }

}  // namespace protean::apps
