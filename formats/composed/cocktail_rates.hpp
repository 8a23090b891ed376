// Rates of formats on dense matrices: the offline stage of clSpMV, section 3.2. Private to formats/.
//
//   rate = stored values a second of a format / entries a second of csr, in one matrix and with one thread
//
// Measured on dense bands of 4,080 and 131,040 rows (the latter with fewer rows where they would have more than four
// million entries) with 8, 32 and 128 entries a row; in the formats of blocks on dense blocks along the diagonal.
// benchmarks/cocktail_rates.cpp measures them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "operators/policy/builtin_machine.hpp"

namespace protean::formats {

// The rate in a matrix of so many rows and stored values a row, interpolated in the logarithms of both; at the ends of
// the table it stays. R and C are 1 for diagonals. 0: not measured.
inline double cocktail_rate(BuiltinHost host, std::size_t value_bytes, std::string_view format,
                            std::int64_t R, std::int64_t C, double rows, double length) {
  constexpr int lengths = 3;
  struct Row {
    BuiltinHost host;
    std::size_t value_bytes;
    std::string_view format;
    std::int64_t R, C;
    double rates[2 * lengths];  // first the three of few rows
  };
  static constexpr Row table[] = {
#define PROTEAN_COCKTAIL_RATE(host, value_bytes, format, R, C, a, b, c, d, e, f) \
  {BuiltinHost::host, value_bytes, format, R, C, {a, b, c, d, e, f}},
#include "formats/composed/cocktail_rates.def"
#undef PROTEAN_COCKTAIL_RATE
  };
  // Rates of AMD and of Intel were not told apart.
  if (host == BuiltinHost::amd_avx512) host = BuiltinHost::avx512;
  const auto found = std::find_if(std::begin(table), std::end(table), [&](const Row& row) {
    return row.host == host && row.value_bytes == value_bytes && row.format == format && row.R == R &&
           row.C == C;
  });
  if (found == std::end(table)) return 0;
  const double across = std::clamp(std::log2(rows / 4080) / std::log2(131040.0 / 4080), 0.0, 1.0),
               along = std::clamp(std::log2(length / 8) / 2, 0.0, lengths - 1.0);
  const int left = std::min(static_cast<int>(along), lengths - 2);
  const auto between = [&](const double* rates) {
    return rates[left] + (along - left) * (rates[left + 1] - rates[left]);
  };
  const double few = between(found->rates), many = between(found->rates + lengths);
  return few + across * (many - few);
}

}  // namespace protean::formats
