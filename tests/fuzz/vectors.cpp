// Files of vectors: Matrix Market and NumPy's .npy, one vector or several.
#include <array>

#include "core/io/vector_file.hpp"
#include "fuzz/memory_file.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  static MemoryFile file;
  file.fill(input);
  const std::uint32_t choice = choice_of(input);
  const ReadOptions options = options_of(choice);
  if ((choice & 4) != 0) {
    (void)read_or_refuse([&] { return read_vector(one_thread(), file.path(), options); });
    return;
  }
  const auto vectors = read_or_refuse([&] { return read_vectors(one_thread(), file.path(), options); });
  if (!vectors) return;
  if (vectors->columns < 0 || (vectors->columns == 0 && vectors->entries.size() != 0) ||
      (vectors->columns > 0 && vectors->entries.size() % vectors->columns != 0))
    broken("columns of different lengths");
}

constexpr std::array<std::string_view, 24> words = {"%%MatrixMarket matrix array real general\n",
                                                    "%%MatrixMarket matrix coordinate real general\n",
                                                    "'<f8'",
                                                    "'<f4'",
                                                    "'<i8'",
                                                    "'<i4'",
                                                    "'>f8'",
                                                    "(3,)",
                                                    "(3, 1)",
                                                    "(1, 3)",
                                                    "(2, 2)",
                                                    "()",
                                                    "(0,)",
                                                    "(281474976710656, 281474976710656)",
                                                    "(4294967296, 4294967296)",
                                                    "(9223372036854775807,)",
                                                    "True",
                                                    "False",
                                                    "'shape': ",
                                                    "'descr': ",
                                                    "'fortran_order': ",
                                                    "3 1\n",
                                                    "1 3\n",
                                                    "1\n"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  size = mutate_words(data, size, most, seed, words);
  // The length of the header follows its text, so that a changed one is still found.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n', 10);
  if (seed % 4 != 0 && text.starts_with("\x93NUMPY\x01") && size > 10 && end != std::string_view::npos) {
    const std::size_t length = end + 1 - 10;
    data[8] = static_cast<std::uint8_t>(length), data[9] = static_cast<std::uint8_t>(length >> 8);
  }
  return size;
}

}  // namespace

extern const Target vectors{"vectors", run, mutate};

}  // namespace protean::fuzz
