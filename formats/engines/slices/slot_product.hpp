// The product of padded rows on the host, with a row in each SIMD lane. Rows lie side by side in positions 0, 1,
// 2, ..., and slot k of neighbouring positions is contiguous. Private to formats/.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "formats/engines/runs/coo.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {

// The place of slot k of position p:
//   ell       k * stride + p
//   sliced    ptr[p / stride] + k * stride + p % stride
//   variable  ptr[s] + k * h + p - row_start[s] in slice s, which has h = row_start[s + 1] - row_start[s] rows
//   threads   as in slice_view.hpp, with slices of `stride` rows; one slice if ptr is null
enum class SlotOrder : unsigned char { ell, sliced, variable, threads };

// A product over positions [begin, end): y[row] := alpha * sum_k values x[col] + beta * y[row].
template <class T>
struct SlotProduct {
  SlotOrder order;
  const T* values;
  const std::int32_t* col;
  const std::int64_t* ptr;              // slices; null for ell
  std::int64_t stride, width;           // ell: distance of two columns; sliced: rows of a slice
  std::int64_t rows;                    // positions from here on belong to no row
  const std::int32_t* perm;             // position -> row; null when they are the same
  std::span<const std::int32_t> empty;  // positions of rows without entries, ascending: their sum is 0
  T alpha, beta;                        // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;  // return the sum of x[row] * y[row], else 0
  bool ordered =
      false;  // ell, sliced: add as in deterministic mode: fused, nothing for padding, no dot product
  Triples<T> tail = {};  // of ell, if ordered: entries of rows after the entries in their slots
  // ell, sliced: entries of each position, whose padding is not read; threads: steps; null: all slots of a slice count.
  const std::int32_t* lengths = nullptr;
  const T* diagonal = nullptr;              // times x[row] is added to each row
  const std::int32_t* row_start = nullptr;  // variable: first position of each slice, then `rows`
  std::int64_t slices = 0;                  // variable
  std::int64_t threads = 1;                 // threads: neighbouring slots of a row
};

// Sliced products begin and end at slices.
double slot_product(const SlotProduct<double>& product, std::int64_t begin, std::int64_t end);
float slot_product(const SlotProduct<float>& product, std::int64_t begin, std::int64_t end);

// Runs a product in parallel on parts of the positions. Returns the sum of x . y over all parts.
template <class T>
T run_slot_product(const SlotProduct<T>& product, const std::vector<std::int64_t>& borders) {
  const int parts = static_cast<int>(borders.size()) - 1;
  PartialSums<T> sums(parts);
  parallel(parts,
           [&](int part, int) { sums[part] = slot_product(product, borders[part], borders[part + 1]); });
  return sums.total();
}

}  // namespace protean::formats
