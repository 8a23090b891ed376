// A program with commands: reads its arguments, runs one command, and turns mistakes and exceptions into messages and
// exit codes.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace protean::apps {

enum Exit : int { done = 0, bad_input = 2, no_resources = 3 };

// Runs a command after its options have been read. Returns the exit code.
using Action = std::function<int()>;

struct Command {
  std::string_view name, about;
  Action (*add)(CLI::App&);  // adds its options
};

// It takes no memory: a first allocation that fails is an error with a message, too.
struct Program {
  const char *name, *about, *footer;
  std::span<const Command> commands;
  bool silent = false;  // no errors on this process: another rank prints them
};

// Throws what the command throws. Mistakes of usage are an exit code.
int run_or_throw(const Program& program, int argc, char** argv);

// Writes the message of the exception that is being handled, and returns its exit code.
int report_exception(const Program& program) noexcept;

// Calls f and turns an exception into a message and an exit code. Takes no memory itself.
template <class F>
int guarded(const Program& program, F&& f) {
  try {
    return f();
  } catch (...) { return report_exception(program); }
}

// Options that several commands have.
void add_threads(CLI::App& command, int& threads, const std::string& text);

}  // namespace protean::apps
