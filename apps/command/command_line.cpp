#include "apps/command/command_line.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "apps/command/commands.hpp"
#include "apps/command/launch.hpp"

namespace protean::apps {

void end_with_a_message() noexcept {
  // The exception is not always known when the process must end, so operator new leaves a note.
  static std::atomic<bool> memory_was_missing{false};
  std::set_new_handler([] {
    memory_was_missing = true;
    throw std::bad_alloc();
  });
  std::set_terminate([] {
    if (!memory_was_missing) std::abort();  // an error of the program, whose trace is worth more
    // No memory is needed for this.
    constexpr std::string_view message =
        "protean: error: out of memory; use a smaller problem or a machine with more\n";
    (void)!::write(STDERR_FILENO, message.data(), message.size());
    _exit(no_resources);
  });
}

int run(int argc, char** argv, Entrance entrance) {
  solve_by(entrance.solve);
  Program program{
      "protean", "Solves A x = b with Krylov methods over a choice of sparse storage formats.",

      "Examples:\n"
      "  protean solve problems/quickstart.yaml\n"
      "  protean solve P.yaml --set solver.method=gmres --set operator.format=csr --report out.json\n"
      "  protean formats sell-packed\n"
      "  protean convert A.mtx.xz A.pbin\n\n"
      "Exit codes: 0 converged or done, 1 not converged, 2 bad input, 3 out of resources or device failure, "
      "130 Ctrl-C.\n"
      "`protean COMMAND --help` describes a command, `protean help problem` the problem file, `protean help "
      "solver`, matrix ... a part of it.",
      protean_commands(), entrance.rank != 0};
  const std::string_view command = argc > 1 ? argv[1] : "";
  const Launch launch = launch_of_environment();
  const bool on_ranks = !entrance.solve && launch.count > 1 && command == "solve";
  if (on_ranks) program.silent = launch.rank != 0;
  return guarded(program, [&]() -> int {
    if (on_ranks) become_ranks(argv);
    if (command == "reproduce") become_research(argv);
    try {
      return run_or_throw(program, argc, argv);
    } catch (const OtherProgram&) { become_ranks(argv); }
  });
}

}  // namespace protean::apps
