#include "core/io/text_source.hpp"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/io/foreign_file.hpp"
#include "core/io/input_file.hpp"
#include "core/words.hpp"

namespace protean::io_detail {
namespace {

class FileBytes final : public ByteSource {
 public:
  explicit FileBytes(const std::string& path) : file_(path) {}
  std::size_t read(char* to, std::size_t most) override { return file_.read(to, most); }

 private:
  InputFile file_;
};

class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(char* to, std::size_t most) override {
    const std::size_t count = std::min(most, bytes_.size());
    std::copy_n(bytes_.data(), count, to);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
};

// The bytes that were read to find out what the file is, then the rest of the file.
class Prefixed final : public ByteSource {
 public:
  Prefixed(std::string taken, std::unique_ptr<ByteSource> rest)
      : taken_(std::move(taken)), rest_(std::move(rest)) {}
  std::size_t read(char* to, std::size_t most) override {
    if (at_ == taken_.size()) return rest_->read(to, most);
    const std::size_t count = std::min(most, taken_.size() - at_);
    std::copy_n(taken_.data() + at_, count, to);
    at_ += count;
    return count;
  }

 private:
  std::string taken_;
  std::size_t at_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

// The common part of the decompressors: a buffer of compressed bytes.
class Compressed : public ByteSource {
 protected:
  Compressed(std::string name, std::unique_ptr<ByteSource> from)
      : name_(std::move(name)), from_(std::move(from)), window_(std::size_t{64} << 10) {}
  std::size_t refill() {
    const std::size_t got = from_->read(window_.data(), window_.size());
    compressed_ += got;
    return got;
  }
  // Counts what was decoded.
  std::size_t checked(std::size_t bytes) {
    decoded_ += bytes;
    if (const std::size_t most = most_decoded(compressed_); decoded_ > most)
      throw BadFile(
          name_, 0, 0,
          fmt::format("its compressed data become more than {}, from {} so far; no matrix shrinks as much. "
                      "Decompress the file first (gzip -d, xz -d) if its text is meant",
                      human_bytes(most), human_bytes(compressed_)));
    return bytes;
  }
  unsigned char* window() noexcept { return reinterpret_cast<unsigned char*>(window_.data()); }
  [[noreturn]] void broken(std::string_view what) const {
    throw BadFile(name_, 0, 0, fmt::format("{}; the file is damaged or was not copied to its end", what));
  }
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  std::unique_ptr<ByteSource> from_;
  std::vector<char> window_;
  std::size_t compressed_ = 0, decoded_ = 0;
};

class GzipBytes final : public Compressed {
 public:
  GzipBytes(const std::string& name, std::unique_ptr<ByteSource> from) : Compressed(name, std::move(from)) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw OutOfMemory("no memory for the gzip decoder", 1 << 16);
  }
  ~GzipBytes() override { inflateEnd(&stream_); }

  std::size_t read(char* to, std::size_t most) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to), stream_.avail_out = static_cast<uInt>(most);
    while (stream_.avail_out == most && !ended_) {
      if (stream_.avail_in == 0) {
        stream_.next_in = window(), stream_.avail_in = static_cast<uInt>(refill());
        if (stream_.avail_in == 0) {
          if (!between_) broken("the gzip data end too early");
          ended_ = true;
          break;
        }
      }
      if (between_) {  // a file may hold several gzip streams one after the other
        if (inflateReset(&stream_) != Z_OK) broken("the gzip data cannot be decoded");
        between_ = false;
      }
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END)
        between_ = true;
      else if (status == Z_MEM_ERROR)
        throw OutOfMemory("no memory for the gzip decoder", 1 << 16);
      else if (status != Z_OK && status != Z_BUF_ERROR)
        broken(fmt::format("the gzip data cannot be decoded ({})", stream_.msg ? stream_.msg : "unknown"));
    }
    return checked(most - stream_.avail_out);
  }

 private:
  z_stream stream_{};
  bool between_ = false, ended_ = false;
};

class XzBytes final : public Compressed {
 public:
  XzBytes(const std::string& name, std::unique_ptr<ByteSource> from, std::size_t most_memory)
      : Compressed(name, std::move(from)), most_memory_(most_memory) {
    if (lzma_stream_decoder(&stream_, most_memory, LZMA_CONCATENATED) != LZMA_OK)
      throw OutOfMemory("no memory for the xz decoder", 1 << 16);
  }
  ~XzBytes() override { lzma_end(&stream_); }

  std::size_t read(char* to, std::size_t most) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(to), stream_.avail_out = most;
    while (stream_.avail_out == most && !ended_) {
      if (stream_.avail_in == 0 && !drained_) {
        stream_.next_in = window(), stream_.avail_in = refill();
        drained_ = stream_.avail_in == 0;
      }
      switch (lzma_code(&stream_, drained_ ? LZMA_FINISH : LZMA_RUN)) {
        case LZMA_OK:
          break;
        case LZMA_STREAM_END:
          ended_ = true;
          break;
        case LZMA_MEM_ERROR:
          throw OutOfMemory("no memory for the xz decoder", std::size_t{64} << 20);
        case LZMA_MEMLIMIT_ERROR:
          throw BadFile(
              name(), 0, 0,
              fmt::format("the dictionary of the xz data takes {}; {} are allowed. Compress it with xz -9 or "
                          "less, or give the text itself (xz -d)",
                          human_bytes(static_cast<std::size_t>(lzma_memusage(&stream_))),
                          human_bytes(most_memory_)));
        case LZMA_BUF_ERROR:
          broken("the xz data end too early");
        default:
          broken("the xz data cannot be decoded");
      }
    }
    return checked(most - stream_.avail_out);
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::size_t most_memory_;
  bool drained_ = false, ended_ = false;
};

std::unique_ptr<ByteSource> decoded(const std::string& name, std::unique_ptr<ByteSource> raw, bool matrix,
                                    std::size_t memory_limit) {
  std::string first(foreign_bytes, '\0');
  std::size_t have = 0;
  while (have < first.size()) {
    const std::size_t got = raw->read(first.data() + have, first.size() - have);
    if (got == 0) break;
    have += got;
  }
  first.resize(have);
  const bool gzip = first.starts_with("\x1f\x8b"), xz = first.starts_with(std::string_view("\xfd"
                                                                                           "7zXZ\0",
                                                                                           6));
  if (const std::string why = matrix ? foreign_file(first, name) : std::string(); !why.empty())
    throw BadFile(name, 0, 0, why);
  auto whole = std::make_unique<Prefixed>(std::move(first), std::move(raw));
  if (gzip) return std::make_unique<GzipBytes>(name, std::move(whole));
  if (xz)
    return std::make_unique<XzBytes>(
        name, std::move(whole), memory_limit > 0 ? std::min(memory_limit, most_xz_memory) : most_xz_memory);
  return whole;
}

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, std::size_t memory_limit) {
  return decoded(path, std::make_unique<FileBytes>(path), true, memory_limit);
}
std::unique_ptr<ByteSource> open_memory(const std::string& name, std::string_view bytes,
                                        std::size_t memory_limit) {
  return decoded(name, std::make_unique<MemoryBytes>(bytes), true, memory_limit);
}
std::unique_ptr<ByteSource> open_text(const std::string& path) {
  return decoded(path, std::make_unique<FileBytes>(path), false, 0);
}

// Takes the mark away with which the text of some editors begins. Returns how many bytes are left.
std::size_t LineSource::without_mark(char* text, std::size_t size) const {
  const std::string_view begin(text, size);
  if (const std::string why = wide_text(begin, name_); !why.empty()) throw BadFile(name_, 0, 0, why);
  if (!begin.starts_with(byte_order_mark)) return size;
  std::copy(text + byte_order_mark.size(), text + size, text);
  return size - byte_order_mark.size();
}

bool LineSource::next(Piece& piece) {
  const std::lock_guard lock(mutex_);
  // It grows with the text, since most files are small. There is space for a missing last newline and the '\0'.
  constexpr std::size_t at_first = std::size_t{8} << 10, more = 2;
  std::size_t have = rest_.size();
  if (piece.storage.size() < have + at_first)
    piece.storage.resize(std::min(have + at_first, piece_bytes) + more);
  std::copy(rest_.begin(), rest_.end(), piece.storage.begin());
  rest_.clear();
  while (!ended_ && have < piece_bytes) {
    const std::size_t space = piece.storage.size() - more;
    if (have == space) {
      piece.storage.resize(std::min(2 * space, piece_bytes) + more);
      continue;
    }
    const std::size_t got = bytes_->read(piece.storage.data() + have, std::min(space, piece_bytes) - have);
    if (got == 0) ended_ = true;
    have += got;
  }
  if (!begun_) have = without_mark(piece.storage.data(), have);
  begun_ = true;
  if (have == 0) return false;
  char* const text = piece.storage.data();
  std::size_t size = have;
  if (ended_) {
    if (text[have - 1] != '\n') text[size++] = '\n', added_line_end_ = true;
  } else {
    const void* last = memrchr(text, '\n', have);
    if (!last)
      throw BadFile(
          name_, 0, 0,
          fmt::format("a line of more than {} bytes; the lines of a text that is read here are shorter",
                      piece_bytes));
    size = static_cast<std::size_t>(static_cast<const char*>(last) - text) + 1;
    rest_.assign(text + size, text + have);
  }
  given_ += size;
  if (given_ > allowed_)
    throw BadFile(
        name_, 0, 0,
        fmt::format(
            "more than {} of text {}; most of it must be comments, empty lines or blanks. Remove them",
            human_bytes(allowed_), why_));
  text[size] = '\0';
  piece.size = size;
  piece.number = number_++;
  return true;
}

void LineSource::allow(std::size_t bytes, std::string why) {
  const std::lock_guard lock(mutex_);
  allowed_ = bytes, why_ = std::move(why);
}

void LineSource::put_back(const Piece& piece, std::size_t offset) {
  const std::lock_guard lock(mutex_);
  rest_.insert(rest_.begin(), piece.begin() + offset, piece.end());
  given_ -= std::min(given_, piece.size - offset);
  number_ = 0;
}

}  // namespace protean::io_detail
