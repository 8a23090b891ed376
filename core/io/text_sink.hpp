// Private: writes text into an atomic file, compressed if the ending of its name says so.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace protean::io_detail {

class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void write(std::string_view text) = 0;
  // Only after this call does the file exist under its name.
  virtual void commit() = 0;
};

// Plain text, gzip for a path that ends in .gz, xz for .xz. The xz encoder uses `threads` threads; the bytes
// do not depend on their number. Throws Error as AtomicFile does.
std::unique_ptr<TextSink> open_sink(const std::string& path, int threads = 1);

}  // namespace protean::io_detail
