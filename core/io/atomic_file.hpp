// Files that are there whole or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace protean {

// Writes to a file without a name in the folder of `path`; commit() flushes it to the disk, names it and
// renames it over `path`. Without commit() nothing is left, even when the process is killed (on file systems
// that know no files without a name, one called path.PROCESS.NUMBER.tmp is used, and removed). The
// permissions of a file that is replaced are kept; a link is followed. Where `path` is no ordinary file
// (/dev/stdout, a pipe) it is written to directly. Errors (no folder, no permission, disk full) throw Error
// with the system's text and what to do.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Buffered: an error may be thrown by a later write() or by commit().
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // At this byte of the file, unbuffered; for files written out of order, which use nothing else. What was
  // never written is 0. Throws Error where `path` is a pipe or a device, which have no places.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  // Once, as the last call.
  void commit();

 private:
  void write_through(const char* data, std::size_t bytes);
  void discard() noexcept;

  std::string path_;
  std::string target_;     // the file that is replaced: path_, or where a link leads to
  std::string temporary_;  // the name of what is written, where it has one
  bool direct_ = false;    // path_ itself is written to
  std::string buffer_;
  int file_ = -1;
};

// The whole text, atomically.
void write_file(const std::string& path, std::string_view text);

}  // namespace protean
