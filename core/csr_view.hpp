// CSR arrays of a caller, used in place: in host or device memory, counted from 0 or from 1.
#pragma once
#include <cstdint>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

enum class IndexBase : unsigned char { zero, one };

// The caller's arrays, not copied. They must outlive every handle. Nothing is checked: see validate(), and watched(),
// which finds arrays that were freed or changed too early. The arrays lie in the context's space, which may be device
// memory, with indices from 0 or 1: rows + 1 row pointers of either width, the first one 0 or 1, and `nonzeros` columns
// and values.
//
// A row may have its (distinct) columns in any order: format csr then computes with the arrays as they are on the host,
// the diagonal included; all other formats refuse unsorted rows (sorted_copy() sorts them).
//
// From base zero nothing is copied. From base one (Fortran) row pointers and columns are copied, less one, into arrays
// that the handle owns; the values stay the caller's. For new values use with_values(matrix, new values) and
// update_values(), which need no new analysis. On a device the copy is queued on the context, and row pointers are not
// read back: `nonzeros` is taken as given. Throws BadArgument, OutOfMemory.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> csr_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                                     std::int64_t nonzeros, const std::int32_t* row_ptr,
                                     const std::int32_t* col, const T* values,
                                     IndexBase base = IndexBase::zero);
template <class T>
PROTEAN_EXPORT CsrMatrix<T> csr_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                                     std::int64_t nonzeros, const std::int64_t* row_ptr,
                                     const std::int32_t* col, const T* values,
                                     IndexBase base = IndexBase::zero);

// The same pattern with other values of the caller, in its order and in the same space. Nothing is copied.
template <class T>
CsrMatrix<T> with_values(const CsrMatrix<T>& matrix, const T* values) {
  CsrMatrix<T> result = matrix;
  result.values = values, result.values_owner = nullptr;
  result.watch = detail::watch_of_values(matrix.watch, values);
  return result;
}

}  // namespace protean
