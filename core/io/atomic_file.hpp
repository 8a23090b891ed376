// Files that are written completely or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <protean/core/error.hpp>

namespace protean {

// The system did not take what was written, though nothing is wrong with the path: the disk is full, a quota or a limit
// of the process is reached, or the disk has failed.
class WriteFailed : public Error {
 public:
  explicit WriteFailed(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// Writes to a file without a name in the folder of `path`. commit() flushes it to the disk, calls it
// path.PROCESS.NUMBER.tmp and renames that to `path`. Without commit() nothing remains, even when the process is
// killed, and `path` is the old file or the new one at each moment. A process that is killed between the last two steps
// leaves the file with the other name; if the file system has no files without a name, a process that is killed earlier
// leaves it, too. The next AtomicFile of the same `path` removes it, on file systems that have locks (flock): a process
// holds a lock on what it writes. A file that is replaced keeps its permissions, and a link keeps pointing to it. A
// device (/dev/stdout) or a pipe of the shell is written to directly. The path `-` is the standard output of the
// process, whatever that is; a file of this name is `./-`. Throws WriteFailed for a full disk, and Error, with the
// system's text and what to do, when the folder is missing or nothing may be written there, and for a folder, a
// read-only file, a named pipe, and a link whose target does not exist.
class AtomicFile {
 public:
  static constexpr std::string_view standard_output = "-";

  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Buffered: an error may be thrown by a later write() or by commit().
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Writes from this byte of the file on, without a buffer. A file that is written out of order uses this
  // function alone. Bytes that were never written are 0. Throws Error when `path` is a pipe or a device.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  // Must be the last call, and called once only.
  void commit();

 private:
  template <class WriteSome>
  void write_all(const char* data, std::size_t bytes, WriteSome&& write_some);
  void write_through(const char* data, std::size_t bytes);
  void discard() noexcept;

  std::string path_;
  std::string target_;     // the file that is replaced: path_, or the target of a link
  std::string folder_;     // that it is in
  std::string temporary_;  // the name of the file being written; empty while it has none
  bool direct_ = false;    // path_ itself is written to
  std::string buffer_;
  int file_ = -1;
};

// Writes the whole text as one AtomicFile.
void write_file(const std::string& path, std::string_view text);

}  // namespace protean
