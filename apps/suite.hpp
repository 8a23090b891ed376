// A list of problem files to be run one after another.
#pragma once
#include <string>
#include <vector>

namespace protean::apps {

struct SuiteProblem {
  std::string file;
  std::vector<std::string> settings;  // key.path=value, those of the suite and of the command line
};

struct Suite {
  bool several = false;  // false: `file` was a problem file itself, with this text
  std::string text;      // read once, since a pipe cannot be read again
  std::vector<SuiteProblem> problems;
};

// A suite is a YAML file with one key, `suite`: a list of problem files (paths begin at its folder), each a
// path or {problem: P.yaml, set: {solver.relative_tolerance: 1e-4}}. Any other file is taken as a problem.
// `settings` apply to all. Throws BadFile.
Suite read_suite(const std::string& file, const std::vector<std::string>& settings);

}  // namespace protean::apps
