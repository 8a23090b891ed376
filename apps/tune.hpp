// `protean tune`: measures this machine, so that formats can be chosen for it.
#pragma once
#include <string>
#include <vector>

#include "core/generate/generate.hpp"

namespace protean::apps {

struct TuneArguments {
  std::string output = "machine.yaml";
  double budget = 120;  // seconds
  int threads = 0;      // 0: what OMP_NUM_THREADS says, or all
  bool quiet = false;
  std::string spaces = {};  // as of --spaces; empty: the host, and a GPU where there is one
};

// A matrix that is measured.
struct TuneCase {
  std::string name, kind;
  GeneratorParams params;
};
// Small ones of all kinds first, so that a part of them is of use already.
std::vector<TuneCase> tune_cases();

// Products and conversions of every format and kernel of this build, on the host and on a GPU where there is
// one, over the cases. The file is written whole after each matrix; what a file of the same machine has is
// not measured again. Ends after the budget (which each single measurement is cut to fit) or at Ctrl-C, with
// what is done kept. Returns the exit code: 0, 1 when it was interrupted. Throws BadFile for a file of
// another machine.
int tune(const TuneArguments& arguments);

}  // namespace protean::apps
