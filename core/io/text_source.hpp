// Private: text of a file or of memory, plain or compressed, handed out in pieces of whole lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace protean::io_detail {

// Bytes in order. read() returns how many were written to `to`, 0 only at the end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::size_t read(char* to, std::size_t most) = 0;
};

// The file's bytes, decompressed where its first bytes are those of gzip or xz. `name` is for messages.
// Throws BadFile with the system's text (no such file, no permission, a folder) or when the compressed data
// are broken.
std::unique_ptr<ByteSource> open_file(const std::string& path);
// The same of bytes in memory, which must outlive the source.
std::unique_ptr<ByteSource> open_memory(const std::string& name, std::string_view bytes);

// A piece of text: whole lines, each ended by '\n', also the last of the file; followed by a '\0' that is not
// part of it, so that a scanner needs no test for the end.
struct Piece {
  std::vector<char> storage;
  std::size_t size = 0;
  std::int64_t number = -1;  // pieces count from 0
  const char* begin() const noexcept { return storage.data(); }
  const char* end() const noexcept { return storage.data() + size; }
};

// Cuts a source into pieces. next() may be called from several threads; the storage of `piece` is used again.
class LineSource {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{512} << 10;  // also the longest line

  LineSource(std::string name, std::unique_ptr<ByteSource> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const noexcept { return name_; }
  // False at the end. Throws BadFile for a line that is too long.
  bool next(Piece& piece);
  // The first piece again as the next one, from `offset` on: for a reader that has taken the header out of
  // it.
  void put_back(const Piece& piece, std::size_t offset);

 private:
  std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  std::mutex mutex_;
  std::vector<char> rest_;  // read but not handed out
  std::int64_t number_ = 0;
  bool ended_ = false;
};

}  // namespace protean::io_detail
