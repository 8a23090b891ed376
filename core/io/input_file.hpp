// Private: files opened for reading.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace protean::io_detail {

// What a path stands for. A named pipe (mkfifo) is a separate file: opening it waits until another program opens the
// other end. A pipe of the shell (a | b, <(a), >(a)) has both ends open already.
// unreachable: the system does not say, for example when a folder of the path may not be entered; opening it says why.
enum class FileKind : unsigned char {
  missing,
  unreachable,
  ordinary,
  folder,
  pipe,
  named_pipe,
  device,
  other
};
FileKind kind_of(const std::string& path) noexcept;

// An ordinary file, or a pipe of the shell, which can be read once only. For everything else the constructor
// throws BadFile with the reason and what to do. It never waits for another program to open a pipe.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const noexcept { return file_; }
  bool ordinary() const noexcept { return ordinary_; }
  std::int64_t size() const noexcept { return size_; }  // bytes; 0 for a pipe
  // Returns how many bytes were written to `to`; 0 only at the end of the file. Throws BadFile.
  std::size_t read(char* to, std::size_t most);
  // Reads from this byte of an ordinary file on. Returns how many bytes there were, fewer than `bytes` only at the
  // end of the file. Throws BadFile.
  std::size_t read_at(std::uint64_t offset, void* to, std::size_t bytes) const;

 private:
  std::string path_;
  int file_ = -1;
  bool ordinary_ = true;
  std::int64_t size_ = 0;
};

// The first bytes of a file, at most `most`. They remain in a pipe, so that it can be read afterwards; the call waits
// until the other end has written that many or has been closed. Throws BadFile.
std::string first_bytes(const std::string& path, std::size_t most);

// If there is no file `path`: an existing file whose name differs only in its ending, such as A.mtx.xz for A.mtx or for
// A. Empty if there is none.
std::string with_other_ending(const std::string& path);

// The whole text of a file of at most `most` bytes. Throws BadFile.
std::string read_text(const std::string& path, std::size_t most);

}  // namespace protean::io_detail
