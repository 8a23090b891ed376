// A program with subcommands, one for each measurement.
#pragma once
#include <string>
#include <vector>

#include "benchmarks/common/options.hpp"

namespace protean::bench {

struct Subcommand {
  const char* name;
  int (*run)(Arguments&);  // returns the exit code; null: not in this build
  const char* about;
  const char* needs = "";  // what a build must have, such as CUDA
};

// Runs the subcommand that the first word names. --list prints the names of this build's subcommands, one a line, and
// behind a name what it needs. Exit code 2: wrong words, with the usage, or an error.
int run_program(const std::string& program, const std::vector<Subcommand>& subcommands, int argc,
                char** argv);

}  // namespace protean::bench
