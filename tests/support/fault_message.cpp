#include "support/fault_message.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace protean::test {
namespace {

struct Watched {
  std::atomic<bool> taken{false}, ready{false};
  const char* begin = nullptr;
  std::size_t size = 0;
  FaultMessage::Explain explain = nullptr;
  void* object = nullptr;
  FaultMessage::Allow allow = nullptr;
};
std::array<Watched, 256> all;

struct sigaction before;

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto* const address = static_cast<const char*>(info->si_addr);
  for (const Watched& one : all) {
    if (!one.ready || address < one.begin || address >= one.begin + one.size) continue;
    if (one.allow && one.allow(one.object, address)) return;
    char text[1024] = {};
    one.explain(one.object, address, text, sizeof text - 1);
    (void)!write(2, text, std::strlen(text));
    std::abort();
  }
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  sigaction(signal, &before, nullptr);  // the instruction is run again and ends the program
}

void catch_faults() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
    return true;
  }();
  (void)once;
}

}  // namespace

FaultMessage::FaultMessage(const char* begin, std::size_t size, Explain explain, void* object, Allow allow) {
  catch_faults();
  for (place_ = 0; place_ < all.size(); ++place_) {
    Watched& one = all[place_];
    if (one.taken.exchange(true)) continue;
    one.begin = begin, one.size = size, one.explain = explain, one.object = object, one.allow = allow;
    one.ready = true;
    return;
  }
  throw std::length_error("more than 256 ranges of memory with a message for faults");
}

FaultMessage::~FaultMessage() { all[place_].ready = false, all[place_].taken = false; }

}  // namespace protean::test
