// Where the entries of a matrix lie in device memory, row by row: for kernels that are not the format's own
// products and read a small matrix once to keep it where they compute.
#pragma once
#include <cstdint>

namespace protean {

// Arrays of a matrix in device memory, those that its kind names; the others are null or 0. Positions
// 0 <= p < rows each hold one row; entries of a row ascend by column.
template <class T>
struct RowArrays {
  enum class Kind : unsigned char {
    none,       // no description
    csr,        // row_ptr32 or row_ptr64, col, values
    slices,     // slot k of position p at base(p) + k stride; slice_ptr, shift: base = slice_ptr[p >> shift]
                // + (p & (2^shift - 1)), stride = 2^shift, and slots up to slice_ptr[(p >> shift) + 1]; where
                // slice_ptr is null, base = p and `longest` slots. Padding repeats a column, so entries end
                // where columns no longer ascend. perm: the row at each position, null: the position
    diagonals,  // row r lies in hack h = r / height; its diagonals d = ptr[h] .. ptr[h + 1] - 1 have columns
                // r + off[d] and values[d height + r % height], where bit r % height of the bit_bytes bytes
                // from entries + d bit_bytes on is set
  };
  Kind kind = Kind::none;
  // Another number whenever an array other than values has other contents or another address, also where it
  // comes to lie at the address of a former one. 0: not known, so what was derived from the arrays is derived
  // anew in each solve.
  std::uint64_t version = 0;
  std::int64_t rows = 0;
  std::int64_t stored = 0;  // entries with padding
  const T* values = nullptr;
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

// Ability of an operator in device memory: shows its rows. The arrays stay where they are, and hold what
// do_apply() computes with, as long as LinearOperator::recording() is the same. Rows of at most 2^31 - 1.
template <class T>
class HasRowArrays {
 public:
  virtual ~HasRowArrays() = default;
  virtual RowArrays<T> row_arrays() const noexcept = 0;
  // True: a solve computes with these arrays itself from now on, not with do_apply(), and they must stay;
  // false: it has ended.
  virtual void keep_rows(bool) const noexcept {}
};

}  // namespace protean
