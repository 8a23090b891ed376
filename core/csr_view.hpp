// CSR arrays of a caller, taken where they are: in host or device memory, counted from 0 or from 1.
#pragma once
#include <cstdint>

#include <protean/core/csr.hpp>

namespace protean {

enum class IndexBase : unsigned char { zero, one };

// The caller's arrays, not copied; they must outlive every handle, and nothing is checked (see validate();
// and watched(), which finds arrays that were freed or changed too early). Rows may be in any order of
// columns (distinct ones): format csr then computes on the host with the arrays as they are, diagonal
// included; everything else wants ascending columns and says so (sorted_copy()). They lie in the context's
// space, also device memory, with 0- or 1-based indices (rows + 1 row pointers of either width, the first one
// 0 or 1; `nonzeros` columns and values). From base zero nothing is copied. From base one (Fortran) row
// pointers and columns are copied, less one, into arrays the handle owns, since everything else counts from
// 0; the values stay the caller's. So later numbers need no new analysis: with_values(matrix, new values) and
// update_values(). On a device the copy is queued on the context, and row pointers are not read back:
// `nonzeros` is taken as given. Throws BadArgument, OutOfMemory.
template <class T>
CsrMatrix<T> csr_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                      const std::int32_t* row_ptr, const std::int32_t* col, const T* values,
                      IndexBase base = IndexBase::zero);
template <class T>
CsrMatrix<T> csr_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                      const std::int64_t* row_ptr, const std::int32_t* col, const T* values,
                      IndexBase base = IndexBase::zero);

// The same pattern with other numbers of the caller's, in its order and in the same space; nothing is copied.
template <class T>
CsrMatrix<T> with_values(const CsrMatrix<T>& matrix, const T* values) {
  CsrMatrix<T> result = matrix;
  result.values = values, result.values_owner = nullptr;
  result.watch = detail::watch_of_values(matrix.watch, values);
  return result;
}

}  // namespace protean
