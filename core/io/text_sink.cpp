#include "core/io/text_sink.hpp"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/io/atomic_file.hpp"

namespace protean::io_detail {
namespace {

class PlainSink final : public TextSink {
 public:
  explicit PlainSink(const std::string& path) : file_(path) {}
  void write(std::string_view text) override { file_.write(text); }
  void commit() override { file_.commit(); }

 private:
  AtomicFile file_;
};

class GzipSink final : public TextSink {
 public:
  explicit GzipSink(const std::string& path) : file_(path), window_(std::size_t{64} << 10) {
    if (deflateInit2(&stream_, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw OutOfMemory("no memory for the gzip encoder", 1 << 18);
  }
  ~GzipSink() override { deflateEnd(&stream_); }
  void write(std::string_view text) override {
    // The sizes of zlib have 32 bits.
    for (constexpr std::size_t most = std::size_t{1} << 30; text.size() > most; text.remove_prefix(most))
      code(text.substr(0, most), Z_NO_FLUSH);
    code(text, Z_NO_FLUSH);
  }
  void commit() override {
    code({}, Z_FINISH);
    file_.commit();
  }

 private:
  void code(std::string_view text, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(window_.data());
      stream_.avail_out = static_cast<uInt>(window_.size());
      if (deflate(&stream_, flush) == Z_STREAM_ERROR) throw Error("the gzip encoder failed");
      file_.write(window_.data(), window_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }
  AtomicFile file_;
  std::vector<char> window_;
  z_stream stream_{};
};

class XzSink final : public TextSink {
 public:
  XzSink(const std::string& path, int threads) : file_(path), window_(std::size_t{64} << 10) {
    lzma_mt options{};
    options.threads = static_cast<std::uint32_t>(std::clamp(threads, 1, 64));
    // For digits preset 6 takes 20 times as long; its files are a fifth smaller.
    options.preset = 1, options.check = LZMA_CHECK_CRC64;
    options.block_size = std::uint64_t{8}
                         << 20;  // fixed, so that the file does not depend on the version of the library
    if (lzma_stream_encoder_mt(&stream_, &options) != LZMA_OK)
      throw OutOfMemory("no memory for the xz encoder",
                        static_cast<std::size_t>(options.threads) * (40u << 20));
  }
  ~XzSink() override { lzma_end(&stream_); }
  void write(std::string_view text) override { code(text, LZMA_RUN); }
  void commit() override {
    code({}, LZMA_FINISH);
    file_.commit();
  }

 private:
  void code(std::string_view text, lzma_action action) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(text.data()), stream_.avail_in = text.size();
    while (true) {
      stream_.next_out = reinterpret_cast<std::uint8_t*>(window_.data()), stream_.avail_out = window_.size();
      const lzma_ret status = lzma_code(&stream_, action);
      if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
        throw Error("the xz encoder failed (code " + std::to_string(status) + ")");
      file_.write(window_.data(), window_.size() - stream_.avail_out);
      if (action == LZMA_RUN ? stream_.avail_in == 0 && stream_.avail_out > 0 : status == LZMA_STREAM_END)
        return;
    }
  }
  AtomicFile file_;
  std::vector<char> window_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

std::unique_ptr<TextSink> open_sink(const std::string& path, int threads) {
  if (path.ends_with(".gz")) return std::make_unique<GzipSink>(path);
  if (path.ends_with(".xz")) return std::make_unique<XzSink>(path, threads);
  return std::make_unique<PlainSink>(path);
}

}  // namespace protean::io_detail
