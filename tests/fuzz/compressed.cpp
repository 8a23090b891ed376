// gzip and xz data before the same reader. The mutator makes whole streams with right checksums, of changed text and
// with a changed dictionary, and streams of changed bytes.
#include <lzma.h>
#include <zlib.h>

#include "core/io/matrix_market.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  ReadOptions options = options_of(choice_of(input));
  const auto matrix =
      read_or_refuse([&] { return read_matrix_market_text(one_thread(), "input.gz", input, options); });
  if (matrix) require_valid(*matrix, options.allow_not_finite);
}

// One member of a gzip file, its data stored as they are (RFC 1952, RFC 1951 section 3.2.4).
std::string gzip_of(const std::string& text) {
  const auto little = [](std::uint32_t value, int bytes) {
    std::string out;
    for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k));
    return out;
  };
  const auto size = static_cast<std::uint32_t>(text.size());
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(size));
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11) + little(size, 2) + little(~size, 2) + text +
         little(static_cast<std::uint32_t>(crc), 4) + little(size, 4);
}

std::string xz_of(const std::string& text, lzma_check check, std::uint32_t dictionary) {
  lzma_options_lzma options{};
  if (lzma_lzma_preset(&options, 0)) broken("lzma_lzma_preset() failed");
  options.dict_size = dictionary, options.mf = LZMA_MF_HC3, options.depth = 1;
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  if (lzma_stream_buffer_encode(filters, check, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                                text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size,
                                out.size()) != LZMA_OK)
    return {};
  out.resize(size);
  return out;
}

// The header of the first block begins at byte 12 with its size in words less one, and ends in its checksum. The filter
// LZMA2 (0x21) has one byte, which states its dictionary.
void change_dictionary(std::string& xz, char code) {
  const std::size_t size = (static_cast<unsigned char>(xz[12]) + std::size_t{1}) * 4,
                    at = xz.find("\x21\x01", 14);
  if (at == std::string::npos || at + 2 >= 12 + size - 4) broken("an xz stream without the filter LZMA2");
  xz[at + 2] = code;
  const std::uint32_t crc = lzma_crc32(reinterpret_cast<const std::uint8_t*>(xz.data()) + 12, size - 4, 0);
  for (std::size_t k = 0; k < 4; ++k) xz[12 + size - 4 + k] = static_cast<char>(crc >> (8 * k));
}

std::string text_of(Bytes input) {
  std::string text(4096, '\0');
  if (input.starts_with("\x1f\x8b")) {
    z_stream stream{};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) broken("inflateInit2() failed");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(text.data()),
    stream.avail_out = static_cast<uInt>(text.size());
    (void)inflate(&stream, Z_FINISH);
    text.resize(text.size() - stream.avail_out);
    inflateEnd(&stream);
    return text;
  }
  std::uint64_t limit = memory_limit;
  std::size_t from = 0, to = 0;
  const lzma_ret status = lzma_stream_buffer_decode(
      &limit, 0, nullptr, reinterpret_cast<const std::uint8_t*>(input.data()), &from, input.size(),
      reinterpret_cast<std::uint8_t*>(text.data()), &to, text.size());
  text.resize(status == LZMA_OK ? to : 0);
  return text;
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  if (below(random, 2) == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text = text_of({reinterpret_cast<const char*>(data), size});
  if (text.empty()) text = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n";
  mutate_string(text, 1000);
  constexpr lzma_check checks[] = {LZMA_CHECK_NONE, LZMA_CHECK_CRC32, LZMA_CHECK_CRC64, LZMA_CHECK_SHA256};
  // Seldom xz: its encoder takes a hundred times as long as the reader.
  std::string stream =
      below(random, 8) != 0 ? gzip_of(text) : xz_of(text, checks[below(random, 4)], 1u << 12);
  if (stream.starts_with("\xfd") && below(random, 8) == 0)
    change_dictionary(stream, static_cast<char>(below(random, 42)));
  if (below(random, 4) == 0) stream += gzip_of("1 1 2\n");
  return put(stream, data, most);
}

}  // namespace

extern const Target compressed{"compressed", run, mutate};

}  // namespace protean::fuzz
