// `protean reproduce`: tables and figures of the papers on the formats, next to ours.
#pragma once
#include <string>

namespace protean::research {

struct ReproduceArguments {
  std::string name;            // an id, a paper (s0), or all
  std::string from;            // a JSON file of an earlier run, or a folder of them: nothing is measured
  std::string beside;          // the same of a second run, shown next to the first on one page
  std::string size = "quick";  // quick, day or full
  std::string space = "host";
  std::string matrices;  // folder of real matrices; empty: none
  std::string output = "reproduce";
  int threads = 0;
  bool list = false, quiet = false;
};

// Writes ID.json, ID.csv and ID.html for each into the output folder; for more than one also index.html with all of
// them, and README.md with the findings. Prints the table of each. Returns the exit code: 0, 1 where one of several
// could not be made (the others are), or InterruptGuard::exit_code(); what was complete then is kept.
int reproduce(const ReproduceArguments& arguments);

// The table of all ids, for people.
std::string reproduce_list();

}  // namespace protean::research
