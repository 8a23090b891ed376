// The limits of docs/limits.md for matrices and vectors: each ends the reading with a message, and neither memory nor
// time grows with what a small file promises.
#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>

#include <string>

#include "core/error.hpp"
#include "core/io/limits.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/text_source.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

constexpr const char* general = "%%MatrixMarket matrix coordinate real general\n";

std::string gzip_of(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data()), stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz_of(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(
      lzma_easy_buffer_encode(0, LZMA_CHECK_NONE, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                              text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
      LZMA_OK);
  out.resize(size);
  return out;
}

std::string repeated(const std::string& part, std::size_t count) {
  std::string all;
  for (std::size_t k = 0; k < count; ++k) all += part;
  return all;
}

std::string message(const std::string& bytes, const ReadOptions& options = {}) {
  return message_of<BadFile>([&] { (void)read_matrix_market_text(test_context(), "a.mtx", bytes, options); });
}

// Streams one after the other are one text, so that a bomb is made of a small one without much work.
TEST(Limits, TextWithoutEntriesEnds) {
  const std::string header = gzip_of(std::string(general) + "2 2 1\n"),
                    lines = gzip_of(repeated("\n", 1 << 20)),
                    comments = gzip_of(repeated("% a comment\n", 1 << 16));
  for (const std::string* part : {&lines, &comments}) {
    const std::size_t each = part == &lines ? 1 << 20 : std::size_t{12} << 16;
    const std::size_t count = io_detail::most_text(1) / each;
    // Nothing is wrong with the last one but that it is too much.
    EXPECT_EQ(message(header + repeated(*part, count - 1) + gzip_of("1 1 1\n")), "");
    const std::string after = message(header + repeated(*part, count + 1) + gzip_of("1 1 1\n"));
    EXPECT_NE(after.find("for the 1 entries that line 2 states"), std::string::npos) << after;
  }
  // Before the sizes, too.
  const std::string before = message(gzip_of(general) + repeated(comments, 100) + gzip_of("1 1 1\n1 1 1\n"));
  EXPECT_NE(before.find("before the line with the sizes"), std::string::npos) << before;
  // Who states entries may have text for them.
  EXPECT_GT(io_detail::most_text(1'000'000'000), std::size_t{200'000'000'000});
  EXPECT_EQ(io_detail::most_text(std::int64_t{1} << 62), SIZE_MAX);
}

// 16 MiB of zeros are 2.5 KB of xz; forty of them are 100 KB that would become 640 MiB.
TEST(Limits, DataThatGrowTooMuchEnd) {
  const std::string bomb = repeated(xz_of(std::string(std::size_t{16} << 20, '\0')), 40);
  const std::size_t most = io_detail::most_decoded(bomb.size());
  ASSERT_LT(bomb.size(), 200'000u);
  ASSERT_LT(most, std::size_t{640} << 20);
  const auto source = io_detail::open_memory("bomb.mtx.xz", bomb);
  std::string to(1 << 20, '\0');
  std::size_t decoded = 0;
  try {
    while (const std::size_t got = source->read(to.data(), to.size())) decoded += got;
    ADD_FAILURE() << "all of it was decoded";
  } catch (const BadFile& error) {
    EXPECT_NE(std::string(error.what()).find("Decompress the file first"), std::string::npos) << error.what();
  }
  EXPECT_LE(decoded, most);
  EXPECT_GT(decoded, std::size_t{256} << 20);
}

// The header of the first block begins at byte 12 with its size in words less one, and ends in its checksum. The one
// byte of the filter LZMA2 (0x21) states the dictionary: 2^(n / 2 + 12) bytes, or half as much again.
TEST(Limits, DictionariesAreBounded) {
  std::string xz = xz_of(std::string(general) + "1 1 1\n1 1 1\n");
  EXPECT_EQ(message(xz), "");
  const auto with_dictionary = [&](char code) {
    std::string changed = xz;
    const std::size_t size = (static_cast<unsigned char>(xz[12]) + std::size_t{1}) * 4,
                      at = xz.find("\x21\x01", 14);
    EXPECT_LT(at, 12 + size - 4);
    changed[at + 2] = code;
    const std::uint32_t crc =
        lzma_crc32(reinterpret_cast<const std::uint8_t*>(changed.data()) + 12, size - 4, 0);
    for (std::size_t k = 0; k < 4; ++k) changed[12 + size - 4 + k] = static_cast<char>(crc >> (8 * k));
    return changed;
  };
  constexpr char mib_64 = 28, mib_512 = 34, gib_4 = 40;
  EXPECT_EQ(message(with_dictionary(mib_64)), "") << "xz -9";
  for (const char code : {mib_512, gib_4}) {
    const std::string refused = message(with_dictionary(code));
    EXPECT_NE(refused.find("the dictionary of the xz data takes"), std::string::npos) << refused;
  }
  // A limit of the caller is for the decoder, too.
  EXPECT_NE(
      message(with_dictionary(mib_64), {.memory_limit = std::size_t{1} << 20}).find("1.0 MiB are allowed"),
      std::string::npos)
      << message(with_dictionary(mib_64), {.memory_limit = std::size_t{1} << 20});
}

// What a header promises takes no memory until the file has shown that it holds it.
TEST(Limits, PromisesTakeNoMemory) {
  const Folder folder;
  const auto vectors = [&](const std::string& text) {
    std::ofstream(folder / "b.mtx", std::ios::binary) << text;
    return message_of([&] { (void)read_vectors_market(test_context(), folder / "b.mtx"); });
  };
  // A megabyte, in which nothing that was read here fits.
  const std::size_t peak = peak_allocated_bytes(), little = std::size_t{1} << 20;
  EXPECT_NE(message(std::string(general) + "1000 1000 900000\n1 1 1\n").find("ends after 1 of the 900000"),
            std::string::npos);
  EXPECT_NE(vectors("%%MatrixMarket matrix array real general\n100000000 1\n1\n").find("ends after 1 of the"),
            std::string::npos);
  EXPECT_NE(vectors(std::string(general) + "2000000000 1 1\n7 1 1\n").find("nearly only zeros"),
            std::string::npos);
  EXPECT_LE(peak_allocated_bytes(), peak + little);
  // A load in one point is a vector all the same.
  EXPECT_EQ(vectors(std::string(general) + "2000000 1 1\n7 1 1\n"), "");
}

TEST(Limits, ALongWordIsQuotedInPart) {
  const std::string text = message(std::string(general) + "1 1 1\n1 1 " + std::string(100000, '9') + "x\n");
  EXPECT_LT(text.size(), 200u) << text;
  EXPECT_NE(text.find("..."), std::string::npos) << text;
}

}  // namespace
}  // namespace protean::test
