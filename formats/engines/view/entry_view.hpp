// Conversion to CSR, the diagonal and new values, written once for formats that keep blocks of rows whose entries do
// not lie row by row: columns, and slices that are sorted by column. (Rows that lie together: row_view.hpp.) Host only.
//
//   a block of rows    |  entries as the format keeps them   (row, col, place), (row, col, place), ...
//                      |  next entry of each row             counted up while they are read
//
// A view is a small struct of pointers and numbers:
//   const T* values                                  what place counts in
//   int blocks() const
//   Range rows(int b) const                          blocks have all rows, in their order
//   void for_entries(int b, F&& f) const             calls f(std::int32_t row, std::int32_t col, std::int64_t place)
//                                                    for the entries of block b; the columns of a row ascend
// Private to formats/.
#pragma once
#include <cstdint>
#include <vector>

#include "formats/host_support.hpp"

namespace protean::formats {

// Calls body(block) for all blocks, in parallel.
template <class View, class Body>
void for_blocks_of_view(const Context& context, const View& view, std::int64_t work, Body body) {
  parallel(useful_parts(context, work), [&](int part, int parts) {
    const Range range = even_range(view.blocks(), part, parts);
    for (std::int64_t b = range.begin; b < range.end; ++b) body(static_cast<int>(b));
  });
}

// wide: 64-bit row pointers even if 32 bits would do.
template <class T, class View>
CsrMatrix<T> csr_from_entries(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                              std::int64_t nonzeros, const View& view, bool wide = false) {
  CsrBuilder<T> builder(context, rows, cols, nonzeros, wide);
  // First the lengths, in row_ptr[row + 1]; then the place of the row's next entry, which ends as the end of the row.
  for_blocks_of_view(*context, view, nonzeros + rows, [&](int b) {
    const Range range = view.rows(b);
    for (std::int64_t r = range.begin; r < range.end; ++r) builder.set_row_ptr(r + 1, 0);
    view.for_entries(b, [&](std::int32_t row, std::int32_t, std::int64_t) {
      builder.set_row_ptr(row + 1, builder.row_ptr(row + 1) + 1);
    });
  });
  for (std::int64_t r = 0, next = 0; r < rows; ++r) {
    const std::int64_t length = builder.row_ptr(r + 1);
    builder.set_row_ptr(r + 1, next);
    next += length;
  }
  for_blocks_of_view(*context, view, nonzeros + rows, [&](int b) {
    view.for_entries(b, [&](std::int32_t row, std::int32_t col, std::int64_t place) {
      const std::int64_t to = builder.row_ptr(row + 1);
      builder.col()[to] = col, builder.values()[to] = view.values[place];
      builder.set_row_ptr(row + 1, to + 1);
    });
  });
  return builder.freeze();
}

template <class T, class View>
void diagonal_from_entries(const Context& context, const View& view, std::int64_t nonzeros, VectorView<T> d) {
  for_blocks_of_view(context, view, nonzeros + d.size, [&](int b) {
    const Range range = view.rows(b);
    std::fill(d.data + std::min(range.begin, d.size), d.data + std::min(range.end, d.size), T(0));
    view.for_entries(b, [&](std::int32_t row, std::int32_t col, std::int64_t place) {
      if (row == col) d.data[row] = view.values[place];
    });
  });
}

// values[place] := the value of the entry in csr, which has the same pattern.
template <class T, class View>
void update_from_entries(const Context& context, const View& view, const CsrMatrix<T>& csr, T* values) {
  for_blocks_of_view(context, view, csr.nonzeros() + csr.rows(), [&](int b) {
    const Range range = view.rows(b);
    std::vector<std::int64_t> next;
    for (std::int64_t r = range.begin; r < range.end; ++r) next.push_back(csr.pattern.row_ptr[r]);
    view.for_entries(b, [&](std::int32_t row, std::int32_t, std::int64_t place) {
      values[place] = csr.values[next[static_cast<std::size_t>(row - range.begin)]++];
    });
  });
}

}  // namespace protean::formats
