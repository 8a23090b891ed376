// The index of blsi: row and column of an entry in one integer; the same on host and device. Private to formats/.
#pragma once
#include <bit>
#include <cstdint>

#include "core/bisect.hpp"
#include "core/host_device.hpp"

namespace protean::formats {

// Bits for numbers below n.
constexpr int bits_below(std::int64_t n) {
  return n < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
}
// Bits of an index; more than 64 are not possible. Up to 32 bits take a word of four bytes, more take eight.
constexpr int index_bits(std::int64_t rows, std::int64_t cols) { return bits_below(rows) + bits_below(cols); }

// The entries, and a view of the rows in the sense of row_view.hpp. Entries of a row are found by bisection.
template <class T, class Word>
struct PackedEntries {
  const T* values;
  const Word* index;  // [size] ascending: row << shift | col
  std::int64_t rows, size;
  int shift;

  PROTEAN_HOST_DEVICE Word packed(std::int64_t row, std::int32_t col) const {
    return static_cast<Word>(row) << shift | static_cast<Word>(col);
  }
  PROTEAN_HOST_DEVICE std::int32_t row_of(Word word) const {
    return static_cast<std::int32_t>(word >> shift);
  }
  PROTEAN_HOST_DEVICE std::int32_t col_of(Word word) const {
    return static_cast<std::int32_t>(word & ((Word{1} << shift) - 1));
  }
  // The first entry of row r or of a later one. r may be the number of rows, which need not fit into a word.
  PROTEAN_HOST_DEVICE std::int64_t first_of(std::int64_t r) const {
    return first_where(std::int64_t{0}, size,
                       [&](std::int64_t k) { return (index[k] >> shift) >= static_cast<Word>(r); });
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const { return first_of(p + 1) - first_of(p); }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    for (std::int64_t k = first_of(p), end = first_of(p + 1); k < end; ++k) f(col_of(index[k]), k);
  }
};

}  // namespace protean::formats
