// Describes where the entries of each row of a matrix are in device memory. It is for kernels that read a
// small matrix once and keep it in shared memory, instead of using the format's own product.
#pragma once
#include <cstdint>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// The arrays of a matrix in device memory. The arrays of other kinds are null or 0. Each position 0 <= p < rows holds
// one row. The entries of a row are in ascending order of columns.
template <class T>
struct RowArrays {
  enum class Kind : unsigned char {
    none,       // no description
    csr,        // row_ptr32 or row_ptr64, col, values
    slices,     // slot k of position p is at base(p) + k stride. With slice_ptr: base = slice_ptr[p >> shift]
                // + (p & (2^shift - 1)), stride = 2^shift, and the slots end before
                // slice_ptr[(p >> shift) + 1]. If slice_ptr is null: base = p, and there are `longest` slots.
                // Padding repeats a column, so the entries end where columns no longer ascend. perm: the row
                // at each position; null: row p
    diagonals,  // row r belongs to hack h = r / height, with the diagonals d = ptr[h] .. ptr[h + 1] - 1.
                // Diagonal d has an entry in row r if bit r % height of the bit_bytes bytes from
                // entries + d bit_bytes on is set: column r + off[d], value values[d height + r % height]
  };
  Kind kind = Kind::none;
  // Changes whenever an array other than values gets other contents or another address, even if the address
  // is the address of a freed array. 0: unknown; data derived from the arrays is derived again in each solve.
  std::uint64_t version = 0;
  std::int64_t rows = 0;
  std::int64_t stored = 0;  // number of entries, padding included
  const T* values = nullptr;
  // Of diagonals whose values are stored in float although T is double: in the place of `values`, which is null.
  const float* narrow_values = nullptr;
  const std::int32_t* col = nullptr;
  const std::int32_t* row_ptr32 = nullptr;
  const std::int64_t* row_ptr64 = nullptr;
  const std::int64_t* slice_ptr = nullptr;
  int shift = 0;
  std::int64_t stride = 0, longest = 0;
  const std::int32_t* perm = nullptr;
  std::int64_t height = 0, bit_bytes = 0;
  const std::int64_t* ptr = nullptr;
  const std::int32_t* off = nullptr;
  const std::uint8_t* entries = nullptr;
  bool operator==(const RowArrays&) const = default;
};

// Ability of an operator in device memory: returns the arrays of its rows. While LinearOperator::recording() is the
// same, the arrays keep their addresses and contain the numbers with which do_apply() computes. At most 2^31 - 1 rows.
template <class T>
class HasRowArrays {
 public:
  virtual ~HasRowArrays() = default;
  virtual RowArrays<T> row_arrays() const noexcept = 0;
  // True: from now on a solve computes with these arrays instead of do_apply(), and they must not change.
  // False: that solve has ended.
  virtual void keep_rows(bool) const noexcept {}
};

}  // namespace protean
