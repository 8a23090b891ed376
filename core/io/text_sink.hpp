// Private: text into an atomic file, compressed by the name's ending.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace protean::io_detail {

class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void write(std::string_view text) = 0;
  // The file is there after this, and not before.
  virtual void commit() = 0;
};

// Plain, or gzip for a path ending in .gz, xz for .xz (compressed by so many threads of its own; the bytes do
// not depend on their number). Throws Error as AtomicFile does.
std::unique_ptr<TextSink> open_sink(const std::string& path, int threads = 1);

}  // namespace protean::io_detail
