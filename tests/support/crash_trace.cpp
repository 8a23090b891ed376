// When a test ends in a fault of the processor, prints which test ran, the address and the calls that led there. Linked
// into every test binary. The sanitizers print more, so this is left out beside them.
#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace protean::test {
namespace {

std::array<char, 1 << 16> stack;

void print(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

void on_fault(int signal, siginfo_t* info, void*) {
  std::array<char, 64> address{};
  auto rest = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (std::size_t digit = 18; digit-- > 2; rest /= 16) address[digit] = "0123456789abcdef"[rest % 16];
  address[0] = '0', address[1] = 'x';
  print("\nfault: "), print(strsignal(signal)), print(" at "), print(address.data());
  if (const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info())
    print(" in "), print(test->test_suite_name()), print("."), print(test->name());
  print("\n");
  std::array<void*, 64> calls{};
  backtrace_symbols_fd(calls.data(), backtrace(calls.data(), calls.size()), STDERR_FILENO);
  // The instruction is run again and ends the program.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

// What is in the buffer of stdout when the program ends in a fault is lost.
class Flush final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override { std::fflush(stdout); }
};

[[maybe_unused]] const bool installed = [] {
  std::array<void*, 1> first{};
  (void)backtrace(first.data(), 1);  // the first call loads a library, which a handler may not do
  stack_t own{};
  own.ss_sp = stack.data(), own.ss_size = stack.size();
  sigaltstack(&own, nullptr);  // for a fault because the stack is full
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
  testing::UnitTest::GetInstance()->listeners().Append(new Flush);
  return true;
}();

}  // namespace
}  // namespace protean::test
#endif
