// protean-research: formats from descriptions with generated kernels, times across devices, and tables and figures of
// the source papers.
#include <fmt/format.h>

#include <csignal>

#include "apps/command/command_line.hpp"
#include "core/error.hpp"
#include "research/commands.hpp"

namespace protean::research {

Space space_of(const std::string& word) {
  if (word == "host") return Space::host;
  if (word == "device") return Space::device;
  throw BadArgument(fmt::format("--space '{:.50}': there are host and device", word));
}

namespace {
constexpr apps::Command commands[] = {
    {"reproduce", "Regenerate tables and figures of the source papers, with our numbers next to theirs",
     add_reproduce},
    {"list", "List the built-in descriptions of formats", add_list},
    {"source", "Print the kernels that are generated from a description", add_source},
    {"run", "Compile the kernels of a description, multiply a matrix, and compare with csr", add_run},
    {"tune", "Try all sizes and strategies of a description with a matrix", add_tune},
    {"across", "Predict the times on a target device from times on a reference device", add_across},
};
}  // namespace
}  // namespace protean::research

int main(int argc, char** argv) {
  (void)std::signal(SIGXFSZ, SIG_IGN);  // a file that reaches the limit of its size has a message
  protean::apps::end_with_a_message();
  const protean::apps::Program program{"protean-research",
                                       "Systems of the literature on sparse formats, next to the library.",
                                       "Examples:\n"
                                       "  protean-research reproduce s0-table-9\n"
                                       "  protean-research run sell --matrix A.mtx\n\n"
                                       "`protean reproduce` is `protean-research reproduce`.",
                                       protean::research::commands};
  return protean::apps::guarded(program, [&] { return protean::apps::run_or_throw(program, argc, argv); });
}
