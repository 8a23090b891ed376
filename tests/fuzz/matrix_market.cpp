// The reader of Matrix Market text: a valid matrix, or an error of the library. That it does not depend on the number
// of threads is tested by test_fuzz.cpp.
#include "core/io/matrix_market.hpp"

#include <array>

#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  const ReadOptions options = options_of(choice_of(input));
  const auto matrix =
      read_or_refuse([&] { return read_matrix_market_text(one_thread(), "input", input, options); });
  if (matrix) require_valid(*matrix, options.allow_not_finite);
}

constexpr std::array<std::string_view, 30> words = {
    "%%MatrixMarket matrix coordinate real general\n",
    "%%MatrixMarket matrix array real general\n",
    "%%MatrixMarket matrix coordinate pattern symmetric\n",
    "%%MatrixMarket matrix coordinate integer skew-symmetric\n",
    "%%MatrixMarket matrix array integer skew-symmetric\n",
    "coordinate",
    "array",
    "real",
    "integer",
    "pattern",
    "general",
    "symmetric",
    "skew-symmetric",
    "\n",
    "\r\n",
    "% \n",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "99999999999999999999",
    "-1",
    "0",
    "+1",
    "1e400",
    "-1.5D+03",
    "nan",
    "-inf",
    "4.9e-324",
    "1 1 1\n",
    "0x1p3"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_words(data, size, most, seed, words);
}

}  // namespace

extern const Target matrix_market{"matrix_market", run, mutate};

}  // namespace protean::fuzz
