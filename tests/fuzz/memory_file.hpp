// An ordinary file in memory, for readers that take a path. Nothing is written to a disk.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzz/target.hpp"

namespace protean::fuzz {

class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("input", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(file_)) {
    if (file_ < 0) broken("memfd_create() failed");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  void fill(Bytes bytes) {
    if (ftruncate(file_, static_cast<off_t>(bytes.size())) != 0 ||
        pwrite(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      broken("a file in memory cannot be written");
  }

 private:
  int file_;
  std::string path_;
};

}  // namespace protean::fuzz
