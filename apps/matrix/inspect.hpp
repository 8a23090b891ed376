// `protean inspect`: the features of a matrix, and its size in each format.
#pragma once
#include <string>
#include <vector>

namespace protean::apps {

struct InspectArguments {
  std::string input;                  // a problem file or a matrix
  std::vector<std::string> settings;  // key.path=value, of a problem file
  std::string formats;                // all, or ids separated by commas; empty: a shortlist
  bool json = false, picture = true;
  int threads = 0;
};

// Prints; returns the exit code 0. Bad input is an exception.
int inspect(const InspectArguments& arguments);

}  // namespace protean::apps
