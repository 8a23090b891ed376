// The history of a solve as a CSV file that grows while the solve runs.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "solvers/solver.hpp"

namespace protean::apps {

// The file appears one second after the begin of the solve, whole lines at a time, and then grows every second, so that
// other programs can follow it. finish() writes what is missing; a solve that is shorter writes the whole file there,
// complete or not at all. A solve that is killed leaves the lines until then.
class HistoryFile {
 public:
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}
  ~HistoryFile();
  HistoryFile(const HistoryFile&) = delete;
  HistoryFile& operator=(const HistoryFile&) = delete;

  // An error of the file system does not end the solve: finish() tries again, and then throws it.
  void add(const IterationInfo& info);
  // Throws Error.
  void finish();

 private:
  void grow();
  void append();
  bool can_be_replaced() const;

  std::string path_;
  std::vector<IterationInfo> lines_;
  std::size_t written_ = 0;  // lines
  double next_ = 1;          // the second from which on the file grows again
  int file_ = -1;            // while it grows
  bool failed_ = false;
};

}  // namespace protean::apps
