// Private: reads the text of a file or of memory, plain or compressed, in pieces of whole lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace protean::io_detail {

// A sequence of bytes. read() returns how many it has written to `to`; 0 only at the end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::size_t read(char* to, std::size_t most) = 0;
};

// Reads a file, decompressed if its first bytes are those of gzip or xz. Throws BadFile when it cannot be
// read (see InputFile) or when the compressed data are broken.
std::unique_ptr<ByteSource> open_file(const std::string& path);
// Reads bytes in memory, which must outlive the source. Messages show `name`.
std::unique_ptr<ByteSource> open_memory(const std::string& name, std::string_view bytes);

// A piece of text: whole lines, each of which ends in '\n', also the last line of the file. A '\0' that is
// not part of the piece follows, so that a scanner needs no test for the end.
struct Piece {
  std::vector<char> storage;
  std::size_t size = 0;
  std::int64_t number = -1;  // counted from 0
  const char* begin() const noexcept { return storage.data(); }
  const char* end() const noexcept { return storage.data() + size; }
};

// Divides a source into pieces. Several threads may call next() at the same time. It reuses the storage of
// `piece`.
class LineSource {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{512} << 10;  // also the longest line

  LineSource(std::string name, std::unique_ptr<ByteSource> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const noexcept { return name_; }
  // False at the end. Throws BadFile for a line that is too long.
  bool next(Piece& piece);
  // The next piece will be the first one again, from `offset` on. For a reader that has read the header.
  void put_back(const Piece& piece, std::size_t offset);

 private:
  std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  std::mutex mutex_;
  std::vector<char> rest_;  // read, but not yet part of a piece
  std::int64_t number_ = 0;
  bool ended_ = false;
};

}  // namespace protean::io_detail
