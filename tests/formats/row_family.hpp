// Matrices for the formats of rows, and what is read of their arrays.
#pragma once
#include <optional>
#include <vector>

#include "operators/assembled_matrix.hpp"
#include "operators/layout.hpp"
#include "support/battery.hpp"
#include "support/space.hpp"

namespace protean::test {

using Numbers = std::vector<double>;

// An array of the layout; empty if the format has no array of this name.
inline std::optional<Numbers> array_of(const AssembledMatrix<double>& matrix, std::string_view name) {
  const auto* shown = dynamic_cast<const HasLayout*>(&matrix);
  if (!shown) return std::nullopt;
  for (const LayoutArray& array : shown->layout())
    if (array.name == name) return array.numbers;
  return std::nullopt;
}

// Rows of these lengths; row r begins at column r modulo the space that is left.
inline CsrMatrix<double> of_lengths(const std::vector<std::int64_t>& lengths, std::int64_t cols) {
  std::int64_t nonzeros = 0;
  for (const std::int64_t length : lengths) nonzeros += length;
  const auto rows = static_cast<std::int64_t>(lengths.size());
  CsrBuilder<double> builder(test_context(), rows, cols, nonzeros);
  std::int64_t k = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t length = lengths[static_cast<std::size_t>(r)], first = r % (cols - length + 1);
    for (std::int64_t i = 0; i < length; ++i, ++k)
      builder.col()[k] = static_cast<std::int32_t>(first + i),
      builder.values()[k] = 0.25 * static_cast<double>(1 + (r + 3 * i) % 7);
    builder.set_row_ptr(r + 1, k);
  }
  return builder.freeze();
}

inline CsrMatrix<double> equal_rows(std::int64_t length) {
  return of_lengths(std::vector<std::int64_t>(64, length), 300);
}

// 600 short rows of varying length, many without entries, and two that hold most of the entries.
inline CsrMatrix<double> two_giant_rows() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t r = 0; r < 600; ++r)
    lengths.push_back(r == 17 ? 30000 : r == 400 ? 9000 : r % 7 * (r % 3));
  return of_lengths(lengths, 31000);
}

// A matrix of 20000 rows whose lengths vary, some of them long.
inline CsrMatrix<double> varied() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t r = 0; r < 20000; ++r)
    lengths.push_back(r % 1000 == 7 ? 1500 : (r * 37 + r * r / 3) % 41 * (r % 3));
  return of_lengths(lengths, 1600);
}

// ---- Products ------------------------------------------------------------------------------------------------------

struct Form {
  const char* format;
  FormatParams params;
};

inline const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"csr-guo-gropp", {}},
      {"acsr", {}},
      {"acsr", {{"bin_max", "1"}}},
      {"acsr", {{"bin_max", "4"}}},
      {"lightspmv", {}},
      {"csr-adaptive", {}},
      {"csr-adaptive", {{"S", "1"}}},
      {"csr-adaptive", {{"S", "100"}}},
      {"balanced-csr", {{"parts", "9"}}},
      {"vectorized-csr", {{"parts", "9"}}},
      {"csr-wang", {}},
  };
  return all;
}

}  // namespace protean::test
