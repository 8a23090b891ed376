// The reader of Harwell-Boeing and Rutherford-Boeing files: a valid matrix, its right-hand sides, or an error of the
// library.
#include <array>

#include "core/io/vector_file.hpp"
#include "fuzz/memory_file.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  const std::uint32_t choice = choice_of(input);
  const ReadOptions options = options_of(choice);
  // The name says what the file should be, even if its first lines are broken.
  const auto matrix =
      read_or_refuse([&] { return read_matrix_market_text(one_thread(), "input.rua", input, options); });
  if (matrix) require_valid(*matrix, options.allow_not_finite);
  if ((choice & 4) == 0) return;
  static MemoryFile file;
  file.fill(input);
  const auto vectors = read_or_refuse([&] { return read_vectors(one_thread(), file.path(), options); });
  if (vectors && (vectors->columns < 1 || vectors->entries.size() % vectors->columns != 0))
    broken("columns of different lengths");
}

constexpr std::array<std::string_view, 36> words = {"RUA",
                                                    "rsa",
                                                    "RZA",
                                                    "PSA",
                                                    "PUA",
                                                    "ISA",
                                                    "RRA",
                                                    "RSE",
                                                    "CSA",
                                                    "(10I6)",
                                                    "(40I1)",
                                                    "(5E15.8)",
                                                    "(1P5E16.9)",
                                                    "(1P,4D20.12)",
                                                    "(3(1X,E25.16))",
                                                    "(2X,8F8.3)",
                                                    "(99999I99999)",
                                                    "(((((((",
                                                    "-99P",
                                                    "\n",
                                                    "\r\n",
                                                    "\t",
                                                    "     1",
                                                    "     2",
                                                    "0",
                                                    "-1",
                                                    "2147483647",
                                                    "2147483648",
                                                    "9223372036854775807",
                                                    "99999999999999999999",
                                                    " 1.50000000E+00",
                                                    "-1.5D+03",
                                                    "1.5-103",
                                                    "1E999",
                                                    "NaN",
                                                    "FGX"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_words(data, size, most, seed, words);
}

}  // namespace

extern const Target harwell_boeing{"harwell_boeing", run, mutate};

}  // namespace protean::fuzz
