#include <csignal>

#include "apps/command/command_line.hpp"

int main(int argc, char** argv) {
  // A file that reaches the limit of its size (ulimit -f) is an error of the write, which has a message.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  protean::apps::end_with_a_message();
  return protean::apps::run(argc, argv);
}
