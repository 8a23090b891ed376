// Products whose work is cut into tiles of equal size, wherever a row ends. This is the host side and what host and
// device share; runs.cuh is the device side.
//
//   entries   | 1 2 3 4 | 5 6 7 8 | 9        tiles of 4 entries
//   rows      | 0 0 0 1 | 1 1 1 1 | 2        a tile writes the rows that begin (or end) in it
//                               ^ tile 1 has a part of row 1 only: its carry
//
// The entries of a row that is cut lie in successive tiles. One of them writes the row; each of the others leaves a
// carry, the sum of its part. When all tiles are done, the carries are added to their rows in the order of the tiles.
// So the order of the sums is fixed. On the host a thread computes successive tiles, and only the first row of a thread
// is a carry. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/bisect.hpp"
#if !defined(__CUDACC__)
#include "formats/host_support.hpp"
#endif

namespace protean::formats {

// The last row from `low` to `high` that begins at or before entry k: the row of that entry, as rows without entries
// begin where the next row does. The caller guarantees that there is one.
template <class Pointers>
PROTEAN_HOST_DEVICE inline std::int64_t row_with(const Pointers& row_ptr, std::int64_t low, std::int64_t high,
                                                 std::int64_t k) {
  return first_where(low + 1, high + 1, [&](std::int64_t r) { return row_ptr[r] > k; }) - 1;
}

// The merge of row ends and entries after `step` steps: the number of rows that have ended; step minus that is the
// number of entries that have passed. A row ends as soon as its last entry has passed. So an empty row ends at once.
template <class Pointers>
PROTEAN_HOST_DEVICE inline std::int64_t merged_rows(const Pointers& row_ptr, std::int64_t rows,
                                                    std::int64_t nonzeros, std::int64_t step) {
  return first_where(step > nonzeros ? step - nonzeros : 0, step < rows ? step : rows,
                     [&](std::int64_t r) { return row_ptr[r + 1] > step - r - 1; });
}

#if !defined(__CUDACC__)
// What a part of a product leaves for a row that began in an earlier part; row -1: nothing.
template <class T>
struct RowCarry {
  std::int64_t row = -1;
  T sum = 0;
};

// Writes y := alpha A x + beta y from the products of entries, row after row. Rows without entries are written on the
// way.
template <class T>
class RowSums {
 public:
  // The part begins with an entry of `row`. If `continued`, an earlier part has begun the row and writes it. Rows from
  // `unwritten` to row - 1 have no entries and belong to this part.
  RowSums(T alpha, T beta, T* y, std::int64_t unwritten, std::int64_t row, bool continued)
      : alpha_(alpha), beta_(beta), y_(y), row_(row), continued_(continued) {
    write_empty(unwritten, row);
  }
  void add(T product) { sum_ += product; }
  // The entries from here on belong to `row`, the same row or a later one.
  void begin(std::int64_t row) {
    if (row == row_) return;
    close();
    write_empty(row_ + 1, row);
    row_ = row, sum_ = 0;
  }
  // After the last entry. The last part of a product passes the number of rows, the others 0.
  RowCarry<T> end(std::int64_t rows) {
    close();
    write_empty(row_ + 1, rows);
    return carry_;
  }

 private:
  void close() {
    if (continued_)
      carry_ = {row_, sum_};
    else
      store(alpha_, sum_, beta_, y_[row_]);
    continued_ = false;
  }
  void write_empty(std::int64_t first, std::int64_t last) {
    for (; first < last; ++first) store(alpha_, T(0), beta_, y_[first]);
  }
  const T alpha_, beta_;
  T* const y_;
  std::int64_t row_;
  T sum_ = 0;
  bool continued_;
  RowCarry<T> carry_;
};

// y := alpha A x + beta y for A with `tiles` tiles; first_entry(tile) is the first entry of a tile, and body(sums,
// range of tiles) gives the products of these tiles, of which there is at least one, to a RowSums.
template <class T, class FirstEntry, class Body>
void multiply_tiles(const Context& context, const RowPointers& row_ptr, std::int64_t rows, std::int64_t tiles,
                    T alpha, T beta, T* y, FirstEntry first_entry, Body body) {
  if (tiles == 0) {
    for (std::int64_t r = 0; r < rows; ++r) store(alpha, T(0), beta, y[r]);
    return;
  }
  const int parts = useful_parts(context, first_entry(tiles) + rows);
  PartialSums<RowCarry<T>> carries(parts);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(tiles, part, parts);
    if (range.size() == 0) return;
    const std::int64_t k = first_entry(range.begin), row = row_with(row_ptr, 0, rows - 1, k);
    const bool continued = row_ptr[row] < k;
    const std::int64_t before = k > 0 ? row_with(row_ptr, 0, row, k - 1) : -1;
    RowSums<T> sums(alpha, beta, y, before + 1, row, continued);
    body(sums, range);
    carries[part] = sums.end(range.end == tiles ? rows : 0);
  });
  for (int part = 0; part < parts; ++part)
    if (carries[part].row >= 0) y[carries[part].row] += alpha * carries[part].sum;
}
#endif

}  // namespace protean::formats
