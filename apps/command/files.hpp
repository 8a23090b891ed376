// The files that a command reads and writes, checked before anything large is read.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/problem_file.hpp"

namespace protean::apps {

// The absolute path after all links have been followed. The file need not exist.
std::filesystem::path real_path(const std::string& path);

// Every command adds all its files and then calls the checks. An empty path is not a file. `name` is what the user
// calls the file ("matrix.file", "--report"). `place` is where its path was given; every message about the file begins
// with it.
class CommandFiles {
 public:
  void reads(std::string name, const std::string& path, const Place& place = {});
  void writes(std::string name, const std::string& path, const Place& place = {});
  // All files that are read for a problem: the problem file itself, the files it names, and the machine
  // table of the environment variable PROTEAN_MACHINE.
  void reads(const Problem& problem);

  // Throws BadFile or BadArgument for an input that is missing or not an ordinary file.
  void require_inputs() const;
  // Throws BadFile or BadArgument for an output that is also an input, for two outputs that are one file, and
  // for an output that cannot be written.
  void require_outputs() const;

 private:
  void require_one_reader_of_each_pipe() const;

  struct File {
    std::string name, path;
    Place place;
    bool checked = true;  // by require_inputs(); false for what is opened elsewhere, or only sometimes
  };
  std::vector<File> inputs_, outputs_;
};

// Removes what an earlier run left under the name of a report, so that nobody takes it for the report of a run that
// has written none. A link stays, and what it points to becomes empty. Other kinds of files are left alone. True if
// there was something.
bool remove_old_report(const std::string& path) noexcept;

// Writes the files of a run one by one. One that fails does not keep the others from being written.
class OutputWriter {
 public:
  struct Failure {
    std::string name, path, why;
  };

  // Calls `write`, which writes the file, unless the path is empty. An error of it is kept. `is_report`: where it
  // fails, no older file remains under this name.
  void write(const std::string& name, const std::string& path, const std::function<void()>& write,
             bool is_report = false);

  const std::vector<Failure>& failures() const noexcept { return failures_; }
  // Throws WriteFailed, which names each file that could not be written, if there is one. `more` ends the message.
  void require_all(const std::string& more = {}) const;

 private:
  std::vector<Failure> failures_;
};

}  // namespace protean::apps
