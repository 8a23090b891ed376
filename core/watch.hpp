// Debug mode for arrays that stay the caller's: finds out when they were freed or changed too early.
//
//   auto csr = protean::watched(context, protean::csr_view(n, n, row_ptr, col, values));
//
// From then on make_matrix(), update_values(), background builds of AdaptiveOperator and Solver::solve() read
// the arrays that they are going to use where they lie, and throw ArraysChanged, naming array and place, when
// these are not what they were: freed and given back to the system, overwritten, moved. Formats other than
// csr copy what they need, so once one is made nothing is checked for it. New values are told by
// update_values() (of the matrix or the AdaptiveOperator), which takes the numbers that are there then and
// checks that the pattern is still the same.
//
// Costs a pass over the arrays for each check (about 1 GB/s, a device matrix is copied to the host for it)
// and 8 bytes for each 4096. Memory that was freed but neither given back nor written to again looks as
// before: AddressSanitizer finds those (in a build with it they are found here, too).
#pragma once
#include <cstddef>
#include <memory>

#include <protean/core/context.hpp>

namespace protean {

template <class T>
struct CsrMatrix;

// What the arrays of a matrix were like. Made by watched(); handles of the matrix share it.
class ArrayWatch;

// The same matrix, watched from now on. Reads all its arrays. Throws ArraysChanged when one cannot be read.
template <class T>
CsrMatrix<T> watched(const ContextPtr& context, const CsrMatrix<T>& matrix);

// Throws ArraysChanged unless the arrays are what they were. Nothing is done for a matrix that is not
// watched.
template <class T>
void check_arrays(const CsrMatrix<T>& matrix);
// The same of the pattern alone, after which the values that are there now are those to be kept.
template <class T>
void accept_values(const CsrMatrix<T>& matrix);

namespace detail {
// The watch of a matrix with the same pattern and other values; null for null.
template <class T>
std::shared_ptr<ArrayWatch> watch_of_values(const std::shared_ptr<ArrayWatch>& watch, const T* values);
}  // namespace detail

}  // namespace protean
