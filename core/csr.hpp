// Compressed sparse rows: the canonical form of a matrix, from which every storage format is built and into
// which every one can be turned back. It is interchange data, not an operator (that is the format `csr`).
//
//        | 1 . 2 . |     row_ptr = 0 2 3 3 6          rows+1 entries, nondecreasing, row_ptr[0] = 0
//    A = | . 3 . . |     col     = 0 2 | 1 | | 0 1 3  ascending and distinct within a row, 0-based
//        | . . . . |     values  = 1 2 | 3 | | 4 5 6
//        | 4 5 . 6 |
//
// Explicit zeros are kept as entries. 32-bit columns; 32- or 64-bit row pointers. Rows and columns are below
// 2^31, entries below 2^63.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <protean/core/arrays.hpp>
#include <protean/core/buffer.hpp>
#include <protean/core/error.hpp>
#include <protean/core/export.hpp>
#include <protean/core/watch.hpp>

namespace PROTEAN_EXPORT protean {

// Row pointers of either width. Exactly one of p32 and p64 is set.
struct RowPointers {
  const std::int32_t* p32 = nullptr;
  const std::int64_t* p64 = nullptr;

  std::int64_t operator[](std::int64_t i) const noexcept { return p32 ? p32[i] : p64[i]; }
  std::size_t width() const noexcept { return p32 ? 4 : 8; }
  // f(const int32_t*) or f(const int64_t*): hot loops are written once as a template over the pointer.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return p32 ? f(p32) : f(p64);
  }
};

namespace PROTEAN_HIDDEN detail {
// The row that has entry k of a matrix with `rows` rows, for row_ptr[0] <= k < row_ptr[rows]. Time O(log rows).
std::int64_t row_of_entry(const RowPointers& row_ptr, std::int64_t rows, std::int64_t k);
}  // namespace detail

// The positions of the entries, without their values. A cheap handle: copies share the arrays, which live as long as
// `owner` (or, for a view, as long as the caller keeps them).
struct SparsityPattern {
  std::int64_t rows = 0, cols = 0, nonzeros = 0;
  RowPointers row_ptr;
  const std::int32_t* col = nullptr;
  std::shared_ptr<const void> owner;
  Space space = Space::host;  // row(), row_length() and all functions below are for host matrices only

  std::int64_t row_length(std::int64_t row) const noexcept { return row_ptr[row + 1] - row_ptr[row]; }
  std::span<const std::int32_t> row(std::int64_t r) const noexcept {
    return {col + row_ptr[r], static_cast<std::size_t>(row_length(r))};
  }
  // Bytes of row pointers and columns.
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(rows + 1) * row_ptr.width() + static_cast<std::size_t>(nonzeros) * 4;
  }
};

// A whole matrix. Also a cheap handle; immutable through it.
template <class T>
struct CsrMatrix {
  SparsityPattern pattern;
  const T* values = nullptr;
  std::shared_ptr<const void> values_owner;
  std::shared_ptr<ArrayWatch> watch = {};  // null, or made by watched() in debug mode

  std::int64_t rows() const noexcept { return pattern.rows; }
  std::int64_t cols() const noexcept { return pattern.cols; }
  std::int64_t nonzeros() const noexcept { return pattern.nonzeros; }
  std::size_t bytes() const noexcept {
    return pattern.bytes() + static_cast<std::size_t>(nonzeros()) * sizeof(T);
  }
};

// The caller's arrays, not copied. They must outlive every handle. They may not change, except values that are
// announced by update_values(); watched() finds programs that break this rule. Nothing is checked: see validate().
// row_ptr has rows + 1 entries. Throws BadArgument for negative or too large sizes, for row_ptr null, and for col or
// values null if there are entries.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> csr_view(std::int64_t rows, std::int64_t cols, const std::int32_t* row_ptr,
                                     const std::int32_t* col, const T* values);
template <class T>
PROTEAN_EXPORT CsrMatrix<T> csr_view(std::int64_t rows, std::int64_t cols, const std::int64_t* row_ptr,
                                     const std::int32_t* col, const T* values);

namespace detail {
// Throws ShapeMismatch unless there are rows + 1 row pointers, and as many columns and values as the last one says.
PROTEAN_EXPORT void require_lengths(std::int64_t rows, std::size_t row_ptr, std::size_t col,
                                    std::size_t values, std::int64_t last);
}  // namespace detail

// The same for arrays that know their lengths, which are checked: throws ShapeMismatch unless row_ptr has rows + 1
// entries, and col and values have as many as its last entry says. The arrays must be variables (or views such as
// std::span), since they must outlive the matrix.
template <HostArray RowPointers, HostArray Columns, HostArray Values>
CsrMatrix<detail::EntryOf<Values>> csr_view(std::int64_t rows, std::int64_t cols, RowPointers& row_ptr,
                                            Columns& col, Values& values) {
  const auto count = row_ptr.size();
  detail::require_lengths(rows, count, col.size(), values.size(),
                          count == 0 ? 0 : static_cast<std::int64_t>(row_ptr.data()[count - 1]));
  return csr_view<detail::EntryOf<Values>>(rows, cols, row_ptr.data(), col.data(), values.data());
}

// Arrays to be filled and then frozen into a CsrMatrix that owns them. row_ptr is 32-bit if `nonzeros` is below 2^31
// and `force_wide` is false. Only row_ptr[0] = 0 is initialised. The member functions set_row_ptr and row_ptr are for
// host contexts only; one of row_ptr32() and row_ptr64() is the array, the other null.
template <class T>
class CsrBuilder {
 public:
  CsrBuilder(ContextPtr context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
             bool force_wide = false);
  std::int32_t* row_ptr32() noexcept { return ptr32_.data(); }
  std::int64_t* row_ptr64() noexcept { return ptr64_.data(); }
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t cols() const noexcept { return cols_; }
  std::int64_t nonzeros() const noexcept { return nonzeros_; }
  void set_row_ptr(std::int64_t i, std::int64_t value) noexcept {
    if (narrow_)
      ptr32_[i] = static_cast<std::int32_t>(value);
    else
      ptr64_[i] = value;
  }
  std::int64_t row_ptr(std::int64_t i) const noexcept { return narrow_ ? ptr32_[i] : ptr64_[i]; }
  std::int32_t* col() noexcept { return col_.data(); }
  T* values() noexcept { return values_.data(); }
  // Moves the arrays into a matrix. The builder is empty afterwards.
  CsrMatrix<T> freeze();

 private:
  std::int64_t rows_, cols_, nonzeros_;
  bool narrow_;
  Buffer<std::int32_t> ptr32_;
  Buffer<std::int64_t> ptr64_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
  Space space_;
};

// A copy in the memory of a device, or back on the host (device: the context it lies in). Returns when the
// copy is complete. Throws NotAvailable in a build without CUDA, OutOfMemory, WrongSpace.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> upload(const ContextPtr& device, const CsrMatrix<T>& matrix);
template <class T>
PROTEAN_EXPORT CsrMatrix<T> download(const ContextPtr& host, const Context& device,
                                     const CsrMatrix<T>& matrix);

template <class T>
struct Triplet {
  std::int32_t row, col;
  T value;
};

enum class Duplicates : unsigned char { sum, refuse };

// Sorts triplets in any order into a matrix. Duplicates are added in the order given, or refused with BadMatrix, which
// names the first. The result depends on nothing except the order given. Time O(nnz log row). Throws BadMatrix if
// finite duplicates add up to infinity; a single value is taken as it is (see require_finite()).
template <class T>
PROTEAN_EXPORT CsrMatrix<T> csr_from_triplets(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                                              std::span<const Triplet<T>> triplets,
                                              Duplicates duplicates = Duplicates::sum);

// Throws BadMatrix, with row and entry, unless the pattern is canonical: row pointers start at 0, never decrease and
// end with the number of entries, and columns are in range and strictly ascending in each row. For a pattern in host
// memory; values are not read. Parallel; reads the whole pattern once. Memory outside of the arrays is never read,
// whatever the row pointers are.
void validate_sorted(const Context& context, const SparsityPattern& pattern);
// Throws BadMatrix, naming row and column (from 0) of the first entry that is infinite or NaN. The pattern
// must be valid. Parallel; reads the values once.
template <class T>
PROTEAN_EXPORT void require_finite(const Context& context, const CsrMatrix<T>& matrix);

// Throws BadMatrix unless products with the matrix are right: row pointers as for validate_sorted(), columns in range,
// finite values. The columns of a row may be in any order; on the host no column may occur twice. The matrix lies in
// the space of the context; on a device the host waits. Reads all arrays once. Throws BadArgument for arrays that are
// null.
template <class T>
PROTEAN_EXPORT void validate(const ContextPtr& context, const CsrMatrix<T>& matrix);
// The same for only the values; the pattern must be valid.
template <class T>
PROTEAN_EXPORT void validate_values(const ContextPtr& context, const CsrMatrix<T>& matrix);

// True if every row is strictly ascending (apart from that the pattern is assumed to be valid). The pattern lies in the
// memory of the context; on a device the host waits.
bool is_sorted(const Context& context, const SparsityPattern& pattern);

// A copy whose rows are sorted. Duplicates are added or refused as asked.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> sorted_copy(const ContextPtr& context, const CsrMatrix<T>& matrix,
                                        Duplicates duplicates = Duplicates::refuse);

// A^T, sorted, in the space of the context, in which A lies. On the host one counting sort, O(nnz + rows + cols); on a
// device one stable sort by columns, which is queued and takes 8 bytes an entry (16 from 2^31 entries on) meanwhile.
// Throws WrongSpace, OutOfMemory.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> transpose(const ContextPtr& context, const CsrMatrix<T>& matrix);

// The same matrix with values of another type.
template <class To, class From>
PROTEAN_EXPORT CsrMatrix<To> convert_values(const ContextPtr& context, const CsrMatrix<From>& matrix);

// A new, independent copy of all arrays.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> deep_copy(const ContextPtr& context, const CsrMatrix<T>& matrix);

// True if shape, row pointers and columns are equal.
bool same_pattern(const SparsityPattern& a, const SparsityPattern& b);

// diagonal[i] = a_ii, 0 if there is no entry; min(rows, cols) values. Rows may be in any order of columns.
template <class T>
PROTEAN_EXPORT void extract_diagonal(const Context& context, const CsrMatrix<T>& matrix, T* diagonal);

// borders[0..parts] of rows, increasing, so that each part has nearly the same rows + nonzeros. No part is cut inside a
// row: a single row longer than a part's share makes that part larger.
std::vector<std::int64_t> balanced_row_borders(const SparsityPattern& pattern, int parts,
                                               std::int64_t grain = 1);

}  // namespace protean
