// The recorded residual histories of tests/operators/traces.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace protean::test {

struct Trace {
  std::string name;
  std::vector<double> residual;  // relative, after 0, 1, 2, ... iterations

  // The first iteration at which the residual is at most this; -1 when it never is.
  std::int64_t reaches(double goal) const {
    for (std::size_t k = 0; k < residual.size(); ++k)
      if (residual[k] <= goal) return static_cast<std::int64_t>(k);
    return -1;
  }
};

// Reads all traces; throws if there are none.
inline std::vector<Trace> read_traces() {
  std::vector<Trace> traces;
  for (const auto& file : std::filesystem::directory_iterator(PROTEAN_TRACES)) {
    if (file.path().extension() != ".txt") continue;
    Trace trace{file.path().stem().string(), {}};
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);)
      if (!line.empty() && line[0] != '#') trace.residual.push_back(std::stod(line));
    traces.push_back(std::move(trace));
  }
  if (traces.empty()) throw std::runtime_error("no traces in " PROTEAN_TRACES);
  return traces;
}

}  // namespace protean::test
