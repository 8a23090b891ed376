// Rows of the approximate inverse of a triangle, on either side (isai.cpp). Private to preconditioners/.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::detail {

struct TriangleRow {
  std::int64_t begin, end;
};

// The entries of row i of a triangle T with ones on its diagonal lie from begin(i) to end(i) of col and values, off the
// diagonal. On a device row i lies at place place[i], on a host (place null) at i, or at n - 1 - i if `backwards`.
template <class T>
struct TriangleRows {
  const std::int64_t* ptr = nullptr;
  const std::int32_t* place = nullptr;
  const std::int32_t* col = nullptr;
  const T* values = nullptr;
  std::int64_t rows = 0;
  bool backwards = false;

  PROTEAN_HOST_DEVICE std::int64_t at(std::int64_t i) const {
    return place ? place[i] : backwards ? rows - 1 - i : i;
  }
  PROTEAN_HOST_DEVICE TriangleRow row(std::int64_t i) const {
    const std::int64_t k = at(i);
    return {ptr[k], ptr[k + 1]};
  }
  // On a host the place of the entry of a row in this column; -1 if there is none. Columns ascend, or descend if
  // `backwards`.
  PROTEAN_HOST_DEVICE std::int64_t find(const TriangleRow& row, std::int32_t column) const {
    std::int64_t low = row.begin, high = row.end;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (backwards ? col[middle] > column : col[middle] < column)
        low = middle + 1;
      else
        high = middle;
    }
    return low < row.end && col[low] == column ? low : -1;
  }
};

// Row i of X: its columns, which ascend, are its pattern J, and its last one (lower) or first one is i.
//   (X T)_ij = (I)_ij for all j in J
// T restricted to J is a triangle, so that the values follow one after another: x_i = 1; then, from i on, each x_j
// that is known is subtracted, times t_jk, from x_k. Each step takes one j: number number_of_step() of the columns.
// row_of(step) is the row of T of that column, whose entries `lanes` of a warp share. sync() lets each see what the
// others have written.
PROTEAN_HOST_DEVICE inline std::int64_t number_of_step(bool lower, std::int64_t count, std::int64_t step) {
  return lower ? count - 1 - step : step;
}
template <class T, class RowOf, class Sync>
PROTEAN_HOST_DEVICE void inverse_row(const TriangleRows<T>& t, bool lower, const std::int32_t* columns, T* x,
                                     std::int64_t count, int lane, int lanes, RowOf row_of, Sync sync) {
  for (std::int64_t k = lane; k < count; k += lanes) x[k] = k == (lower ? count - 1 : 0) ? T(1) : T(0);
  sync();
  for (std::int64_t step = 0; step < count; ++step) {
    const std::int64_t here = number_of_step(lower, count, step);
    const T known = x[here];
    const TriangleRow row = row_of(step);
    const std::int64_t first = lower ? 0 : here + 1, end = lower ? here : count;
    // The entries of a row that is much longer than X's are looked up, on a host, if its columns are in order: a
    // dense row would cost as many steps for each row of X.
    if (!t.place && row.end - row.begin > 32 * (end - first)) {
      for (std::int64_t at = first; at < end; ++at)
        if (const std::int64_t p = t.find(row, columns[at]); p >= 0) x[at] -= known * t.values[p];
      continue;
    }
    for (std::int64_t p = row.begin + lane; p < row.end; p += lanes) {
      const std::int64_t at = find_key(columns, first, end, t.col[p]);
      if (at >= 0) x[at] -= known * t.values[p];
    }
    sync();
  }
}

// X in CSR, with row pointers of 4 or 8 bytes: row i has the columns col[begin(i)] .. col[begin(i + 1) - 1].
template <class T>
struct InverseRows {
  std::int64_t rows = 0;
  const std::int32_t* narrow = nullptr;
  const std::int64_t* wide = nullptr;
  const std::int32_t* col = nullptr;
  T* values = nullptr;
  bool lower = true;

  PROTEAN_HOST_DEVICE std::int64_t begin(std::int64_t i) const {
    return narrow ? std::int64_t{narrow[i]} : wide[i];
  }
  PROTEAN_HOST_DEVICE std::int64_t size(std::int64_t i) const { return begin(i + 1) - begin(i); }
};

// What becomes of the values of row i of X: times d_i in place; before that, if mirror is not null, entry p also
// goes to mirrored[mirror[p]], its place in X^T. d null: ones. False if one is not finite.
template <class T>
PROTEAN_HOST_DEVICE bool finish_inverse_row(const InverseRows<T>& X, std::int64_t i, const T* d,
                                            const std::int64_t* mirror, T* mirrored, int lane, int lanes) {
  bool finite = true;
  for (std::int64_t p = X.begin(i) + lane; p < X.begin(i + 1); p += lanes) {
    const T value = X.values[p], scaled = d ? d[i] * value : value;
    if (mirror) mirrored[mirror[p]] = value;
    X.values[p] = scaled;
    finite = finite && FactorView<T>::is_finite(scaled) && FactorView<T>::is_finite(value);
  }
  return finite;
}

}  // namespace protean::detail

// Defined in device_inverse.cu. CUDA builds only.
namespace protean::device {

// inverse_row() and finish_inverse_row() of all rows. *bad := 1 if a value is not finite.
template <class T>
void invert_triangle(const Context& context, const detail::TriangleRows<T>& t,
                     const detail::InverseRows<T>& X, std::int64_t entries, const T* d,
                     const std::int64_t* mirror, T* mirrored, unsigned* bad);

}  // namespace protean::device
