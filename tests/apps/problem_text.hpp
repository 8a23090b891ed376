// Problems from a text.
#pragma once
#include <string>
#include <vector>

#include "apps/problem/problem_file.hpp"

namespace protean::apps {

inline Problem problem_of(const std::string& text, std::vector<std::string> settings = {}) {
  return parse_problem(text, "folder/p.yaml", settings);
}

inline const std::string minimal = "matrix: {file: A.mtx}\n";

}  // namespace protean::apps
