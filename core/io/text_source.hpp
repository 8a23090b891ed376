// Private: reads the text of a file or of memory, plain or compressed, in pieces of whole lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/limits.hpp"

namespace protean::io_detail {

// A sequence of bytes. read() returns how many it has written to `to`; 0 only at the end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::size_t read(char* to, std::size_t most) = 0;
};

// Reads the text of a matrix, decompressed if it begins as gzip or xz data do. read() throws BadFile when the
// compressed data are broken, and if they become more than most_decoded(). `memory_limit` (0: none) and
// most_xz_memory bound the memory of the xz decoder. Throws BadFile for a file that cannot be read (see InputFile), and
// for matrices of other programs.
std::unique_ptr<ByteSource> open_file(const std::string& path, std::size_t memory_limit = 0);
// Reads bytes in memory, which must outlive the source. Messages show `name`.
std::unique_ptr<ByteSource> open_memory(const std::string& name, std::string_view bytes,
                                        std::size_t memory_limit = 0);
// The same for a text that is not a matrix.
std::unique_ptr<ByteSource> open_text(const std::string& path);

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
  static constexpr std::size_t piece_bytes = longest_line;

  LineSource(std::string name, std::unique_ptr<ByteSource> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const noexcept { return name_; }
  // False at the end. The mark of UTF-8 at the begin of the text is left out. Throws BadFile for UTF-16, for a line
  // that is too long, and at the end of the text that is allowed.
  bool next(Piece& piece);
  // Allows that many bytes of text in all; at the beginning it is most_text(0). `why` ends the sentence "more than 5
  // MiB of text ...".
  void allow(std::size_t bytes, std::string why);
  // The next piece will be the first one again, from `offset` on. For a reader that has read the header.
  void put_back(const Piece& piece, std::size_t offset);
  // Whether the last piece was given, and its last line had no line end.
  bool added_line_end() const noexcept { return added_line_end_; }

 private:
  std::size_t without_mark(char* text, std::size_t size) const;

  std::string name_;
  std::unique_ptr<ByteSource> bytes_;
  std::mutex mutex_;
  std::vector<char> rest_;  // read, but not yet part of a piece
  std::int64_t number_ = 0;
  bool begun_ = false, ended_ = false, added_line_end_ = false;
  std::size_t given_ = 0, allowed_ = most_text(0);  // bytes
  std::string why_ = "before the line with the sizes";
};

}  // namespace protean::io_detail
