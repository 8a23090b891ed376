// The terms of the hash of a pattern, on the host and on a device. Private.
//
// Each term depends on its place, and the hash is the sum of all terms modulo 2^64. So threads may add them in any
// order, and a device and the host make the same sum.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"

namespace protean::detail {

// The product of 128 bits, its halves combined: every bit of the result depends on every bit of both factors.
PROTEAN_HOST_DEVICE inline std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return a * b ^ __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#endif
}

PROTEAN_HOST_DEVICE inline std::uint64_t word_of(std::int32_t low, std::int32_t high) {
  return static_cast<std::uint32_t>(low) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32;
}

// The terms of four columns, 4 place and the next three, in words of two; 0 if there are none.
constexpr std::int64_t columns_of_term = 4;
PROTEAN_HOST_DEVICE inline std::uint64_t columns_term(std::uint64_t first, std::uint64_t second,
                                                      std::int64_t place) {
  return folded_product(
      first ^ 0x9e3779b97f4a7c15u,
      second ^ (static_cast<std::uint64_t>(place) * 0xbf58476d1ce4e5b9u) ^ 0x94d049bb133111ebu);
}

// The terms of two row pointers of either width, 2 place and the next one; 0 if there is none.
constexpr std::int64_t row_pointers_of_term = 2;
PROTEAN_HOST_DEVICE inline std::uint64_t row_pointers_term(std::int64_t first, std::int64_t second,
                                                           std::int64_t place) {
  return folded_product(static_cast<std::uint64_t>(first) ^ 0xd6e8feb86659fd93u,
                        static_cast<std::uint64_t>(second) ^
                            (static_cast<std::uint64_t>(place) * 0xff51afd7ed558ccdu) ^ 0xc4ceb9fe1a85ec53u);
}

// The sum of the terms place = first, first + step ... of an array of `count` columns.
template <class Word>
PROTEAN_HOST_DEVICE inline std::uint64_t sum_of_columns(const std::int32_t* col, std::int64_t count,
                                                        std::int64_t first, std::int64_t end,
                                                        std::int64_t step, Word word) {
  std::uint64_t sum = 0;
  for (std::int64_t i = first; i < end; i += step) {
    const std::int64_t k = columns_of_term * i;
    const auto at = [&](std::int64_t j) { return j < count ? col[j] : 0; };
    sum += k + columns_of_term <= count
               ? columns_term(word(col + k), word(col + k + 2), i)
               : columns_term(word_of(at(k), at(k + 1)), word_of(at(k + 2), at(k + 3)), i);
  }
  return sum;
}
template <class P>
PROTEAN_HOST_DEVICE inline std::uint64_t sum_of_row_pointers(const P* row_ptr, std::int64_t count,
                                                             std::int64_t first, std::int64_t end,
                                                             std::int64_t step) {
  std::uint64_t sum = 0;
  for (std::int64_t i = first; i < end; i += step) {
    const std::int64_t r = row_pointers_of_term * i;
    sum += row_pointers_term(row_ptr[r], r + 1 < count ? row_ptr[r + 1] : 0, i);
  }
  return sum;
}

// Terms of that many items.
constexpr std::int64_t terms_of(std::int64_t items, std::int64_t of_term) {
  return (items + of_term - 1) / of_term;
}

}  // namespace protean::detail
