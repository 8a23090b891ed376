// A list of problem files that are run one after the other.
#pragma once
#include <string>
#include <vector>

namespace protean::apps {

struct SuiteProblem {
  std::string file;
  std::vector<std::string> settings;  // key.path=value, from the suite and from the command line
};

struct Suite {
  bool several = false;  // false: the file is itself a problem file
  std::string text;      // of the file; it may be a pipe, which cannot be read again
  std::vector<SuiteProblem> problems;
};

// A suite is a YAML file with one key, `suite`: a list of problem files (paths begin at its folder), each a
// path or {problem: P.yaml, set: {solver.relative_tolerance: 1e-4}}. Any other file is taken as a problem.
// `settings` apply to all. Throws BadFile.
Suite read_suite(const std::string& file, const std::vector<std::string>& settings);

}  // namespace protean::apps
