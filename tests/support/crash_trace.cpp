// When a test ends in a fault of the processor, prints which test ran, the address and the calls that led there. Linked
// into every test binary. The sanitizers print more, so this is left out with them.
#include <execinfo.h>
#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace protean::test {
namespace {

std::array<char, 1 << 16> stack;

std::array<char, 4096> program;        // its path
std::uintptr_t begin = 0, length = 0;  // its place in memory

void print(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

// "0x" and 16 digits
using Hexadecimal = std::array<char, 19>;
Hexadecimal hexadecimal(std::uintptr_t number) {
  Hexadecimal text{};
  for (std::size_t digit = 18; digit-- > 2; number /= 16) text[digit] = "0123456789abcdef"[number % 16];
  text[0] = '0', text[1] = 'x';
  return text;
}

// The names of functions of this program, hidden ones too, which backtrace_symbols_fd() does not know.
void print_names(void* const* calls, int count) {
  std::array<Hexadecimal, 64> addresses;
  std::array<char*, 70> words{};
  std::size_t n = 0;
  for (const char* word : {"addr2line", "-Cfpse"}) words[n++] = const_cast<char*>(word);
  words[n++] = program.data();
  for (int i = 0; i < count; ++i) {
    // A return address is behind its call.
    const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(calls[i]) - begin - 1;
    if (place < length) words[n++] = (addresses[i] = hexadecimal(place)).data();
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(words[0], words.data());
    _exit(0);  // no addr2line: the lines above must do
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

void on_fault(int signal, siginfo_t* info, void*) {
  print("\nfault: "), print(strsignal(signal)), print(" at ");
  print(hexadecimal(reinterpret_cast<std::uintptr_t>(info->si_addr)).data());
  if (const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info())
    print(" in "), print(test->test_suite_name()), print("."), print(test->name());
  print("\n");
  std::array<void*, 64> calls{};
  const int count = backtrace(calls.data(), calls.size());
  backtrace_symbols_fd(calls.data(), count, STDERR_FILENO);
  print_names(calls.data(), count);
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
  (void)!readlink("/proc/self/exe", program.data(), program.size() - 1);
  // The program is the first that is listed.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        begin = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_LOAD)
            length =
                std::max<std::uintptr_t>(length, info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        return 1;
      },
      nullptr);
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
