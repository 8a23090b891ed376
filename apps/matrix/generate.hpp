// `protean generate`: writes a generated matrix to a file.
#pragma once
#include <string>
#include <vector>

namespace protean::apps {

struct GenerateArguments {
  std::string spec;                   // a problem file whose matrix is generated, or a kind; or else
  std::string preset;                 // a name of presets.hpp
  std::vector<std::string> settings;  // key.path=value
  std::string output;                 // .mtx, .mtx.gz, .mtx.xz or .pbin
  int threads = 0;
  bool quiet = false;
};

// Makes and writes the matrix block of rows by block of rows; the file is complete or not there. Prints the
// size of the matrix. For an artificial matrix it also prints each feature next to the value asked for, and
// names the features that differ by more than 5 %. Returns the exit code 0.
int generate_file(const GenerateArguments& arguments);

}  // namespace protean::apps
