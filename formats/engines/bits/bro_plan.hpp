// What admission finds of a matrix with coded columns and rows (bro.hpp), and walks along the entries of its source.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "formats/engines/bits/bro.hpp"

namespace protean::formats {

// What admit() finds: the widths of all fields, and where streams begin.
struct BroPlan {
  BroSizes sizes;
  std::vector<std::int32_t> perm;
  std::vector<std::int64_t> col_ptr, symbol_ptr;  // of slices
  std::vector<std::uint8_t> bit_alloc;
  std::vector<std::uint8_t> width;  // of rows or intervals
  std::vector<std::int32_t> base;
  std::vector<std::int64_t> interval_symbol;
};

// The entries of a row that lie in the slices, and the entries of its tail.
struct RowOfSource {
  std::int64_t begin, middle, end;
};
inline RowOfSource row_of_source(const SparsityPattern& pattern, const BroShape& shape,
                                 const std::int32_t* perm, std::int64_t p) {
  const std::int64_t r = perm ? perm[p] : p, begin = pattern.row_ptr[r], end = pattern.row_ptr[r + 1];
  return {begin, begin + std::min(end - begin, shape.K), end};
}

// The symbols of row p of the tail.
inline std::int64_t row_symbols(std::int64_t length, int width) {
  return length == 0 ? 0 : 1 + symbols_of((length - 1) * width);
}

// Walks along the rows of the entries of the tail, from one that is counted from 0.
class TailRows {
 public:
  TailRows(const SparsityPattern& pattern, const BroShape& shape, std::int64_t entry,
           const std::vector<std::int64_t>& before)
      : pattern_(pattern), shape_(shape), entry_(entry) {
    row_ = std::upper_bound(before.begin(), before.end() - 1, entry) - before.begin() - 1;
    end_ = before[static_cast<std::size_t>(row_)] + length();
  }
  // The row of the entry, and the next entry.
  std::int64_t next() {
    while (entry_ == end_) ++row_, end_ += length();
    ++entry_;
    return row_;
  }

 private:
  std::int64_t length() const {
    const RowOfSource its = row_of_source(pattern_, shape_, nullptr, row_);
    return its.end - its.middle;
  }
  const SparsityPattern& pattern_;
  const BroShape& shape_;
  std::int64_t entry_, row_ = 0, end_ = 0;
};

// Entries of the tail before each row, and one more for the whole.
std::vector<std::int64_t> tail_pointers(const SparsityPattern& pattern, const BroShape& shape,
                                        const std::int32_t* perm);

// Calls f(entry of the interval, row) for the entries of interval i, and for its padding with the last row.
template <class F>
void for_interval(const BroSizes& sizes, std::int64_t i, TailRows& rows, F&& f) {
  const std::int64_t first = i * sizes.interval();
  std::int64_t row = 0;
  for (std::int64_t k = 0; k < sizes.interval(); ++k) {
    if (first + k < sizes.tail_entries) row = rows.next();
    f(k, static_cast<std::int32_t>(row));
  }
}

}  // namespace protean::formats
