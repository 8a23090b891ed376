// `protean generate`: a generated matrix as a file.
#pragma once
#include <string>
#include <vector>

namespace protean::apps {

struct GenerateArguments {
  std::string spec;                   // a problem file whose matrix is generated, or
  std::string preset;                 // a name of presets.hpp
  std::vector<std::string> settings;  // key.path=value
  std::string output;                 // .mtx, .mtx.gz, .mtx.xz or .pbin
  int threads = 0;
  bool quiet = false;
};

// Writes the file whole or not at all, a stretch of rows at a time, and prints what the matrix became: of
// artificial ones each feature beside what was asked for, and which of them are more than 5 % off. Returns
// the exit code 0.
int generate_file(const GenerateArguments& arguments);

}  // namespace protean::apps
