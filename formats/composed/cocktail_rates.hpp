// Rates of formats on dense matrices: the offline stage of clSpMV, section 3.2. Private to formats/.
//
//   rate = stored values a second of a format / entries a second of csr, in one matrix and with one thread
//
// Measured on dense bands of 4,080 and 131,040 rows (the latter with fewer rows if they would have more than four
// million entries) with 8, 32 and 128 entries a row; in the formats of blocks on dense blocks along the diagonal.
// `protean-bench-products cocktail-rates` measures them, and measures again what stands out from the sizes next to it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "operators/policy/builtin_machine.hpp"

namespace protean::formats {

constexpr int cocktail_lengths = 3;
struct CocktailRates {
  BuiltinHost host;
  std::size_t value_bytes;
  std::string_view format;
  std::int64_t R, C;                   // 1 for diagonals
  double rates[2 * cocktail_lengths];  // first the three of few rows
};
inline std::span<const CocktailRates> cocktail_table() {
  static constexpr CocktailRates table[] = {
#define PROTEAN_COCKTAIL_RATE(host, value_bytes, format, R, C, a, b, c, d, e, f) \
  {BuiltinHost::host, value_bytes, format, R, C, {a, b, c, d, e, f}},
#include "formats/composed/cocktail_rates.def"
#undef PROTEAN_COCKTAIL_RATE
  };
  return table;
}

// Whether a rate is more than 2.5 times as high (1), or as low (-1), as each one of the sizes next to it: of the
// lengths before and after, and of the other number of rows. Such a rate may come from a disturbed measurement.
inline int stands_out(const double (&rates)[2 * cocktail_lengths], int i) {
  constexpr double most = 2.5;
  const int length = i % cocktail_lengths;
  bool high = true, low = true;
  const auto beside = [&](int k) {
    high = high && rates[i] > most * rates[k], low = low && rates[k] > most * rates[i];
  };
  if (length > 0) beside(i - 1);
  if (length + 1 < cocktail_lengths) beside(i + 1);
  beside((i + cocktail_lengths) % (2 * cocktail_lengths));
  return high ? 1 : low ? -1 : 0;
}

// The rate in a matrix of that many rows and stored values a row, interpolated in the logarithms of both; at the ends
// of the table it stays. R and C are 1 for diagonals. 0: not measured.
inline double cocktail_rate(BuiltinHost host, std::size_t value_bytes, std::string_view format,
                            std::int64_t R, std::int64_t C, double rows, double length) {
  constexpr int lengths = cocktail_lengths;
  const std::span<const CocktailRates> table = cocktail_table();
  // Rates of AMD and of Intel were not distinguished.
  if (host == BuiltinHost::amd_avx512) host = BuiltinHost::avx512;
  const auto found = std::find_if(table.begin(), table.end(), [&](const CocktailRates& row) {
    return row.host == host && row.value_bytes == value_bytes && row.format == format && row.R == R &&
           row.C == C;
  });
  if (found == table.end()) return 0;
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
