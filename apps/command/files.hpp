// The files that a command reads and writes, checked before anything large is read.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/problem/problem_file.hpp"

namespace protean::apps {

// The absolute path after all links have been followed. The file need not exist.
std::filesystem::path real_path(const std::string& path);

// Every command adds all its files and then calls the checks. An empty path is no file. `name` is what the
// user calls the file ("matrix.file", "--report"). `place` is where its path was given; every message about
// the file begins with it.
class CommandFiles {
 public:
  void reads(std::string name, const std::string& path, const Place& place = {});
  void writes(std::string name, const std::string& path, const Place& place = {});
  // All files that are read for a problem: the problem file itself, the files it names, and the machine
  // table of the environment variable PROTEAN_MACHINE.
  void reads(const Problem& problem);

  // Throws BadFile or BadArgument for an input that is missing or is no ordinary file.
  void require_inputs() const;
  // Throws BadFile or BadArgument for an output that is also an input, for two outputs that are one file, and
  // for an output that cannot be written.
  void require_outputs() const;

 private:
  struct File {
    std::string name, path;
    Place place;
    bool checked = true;  // by require_inputs(); false for what is opened elsewhere, or only sometimes
  };
  std::vector<File> inputs_, outputs_;
};

}  // namespace protean::apps
