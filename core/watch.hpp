// Debug mode for the caller's arrays, which the library uses without a copy: finds out if they were freed or changed
// too early.
//
//   auto csr = protean::watched(context, protean::csr_view(n, n, row_ptr, col, values));
//
// After that make_matrix(), update_values(), background builds of Matrix and Solver::solve() check the arrays
// before they use them. They throw ArraysChanged, which names array and entries, if an array was overwritten or moved,
// or freed and returned to the system. Formats other than csr copy the arrays, so nothing is checked after such a
// matrix has been made. To change values, write them into the array and call update_values() (of the matrix or the
// Matrix): it accepts the present values and checks that the pattern is the same.
//
// Cost: one pass over the arrays for each check (about 1 GB/s; a device matrix is copied to the host for it),
// and 8 bytes for each 4096. Freed memory that is neither returned to the system nor overwritten is found
// only in a build with AddressSanitizer.
#pragma once
#include <cstddef>
#include <memory>

#include <protean/core/context.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

template <class T>
struct CsrMatrix;

// A record of the contents of the arrays. Made by watched(); all handles of the matrix share it.
class PROTEAN_HIDDEN ArrayWatch;

// The same matrix with a watch. Reads all its arrays. Throws ArraysChanged if one cannot be read.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> watched(const ContextPtr& context, const CsrMatrix<T>& matrix);

// Throws ArraysChanged if an array has changed. Does nothing for a matrix without a watch.
template <class T>
PROTEAN_EXPORT void check_arrays(const CsrMatrix<T>& matrix);

namespace PROTEAN_HIDDEN detail {
// check_arrays() for the pattern only. Then records the present values as the right ones.
template <class T>
void accept_values(const CsrMatrix<T>& matrix);
// The watch for a matrix with the same pattern and other values; null for null.
template <class T>
std::shared_ptr<ArrayWatch> watch_of_values(const std::shared_ptr<ArrayWatch>& watch, const T* values);
}  // namespace detail

}  // namespace protean
