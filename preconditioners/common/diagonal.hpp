// The diagonal of a matrix, checked for those who divide by it. Private to preconditioners/.
#pragma once
#include <string_view>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// Throws BadMatrix for the first entry of d that is not finite. `name` is the preconditioner. d lies in host memory.
template <class T>
void require_finite(std::string_view name, VectorView<const T> d);

// Throws BadMatrix, which counts the entries of d that are zero or whose inverse is not finite, and names the first of
// them. d lies in host memory.
template <class T>
[[noreturn]] void refuse_diagonal(std::string_view name, VectorView<const T> d);

// Throws BadMatrix, which counts the negative entries of d and names the first of them. d lies in host memory.
template <class T>
void require_positive(std::string_view name, VectorView<const T> d);

// a_ii in host memory. Unusable entries become 1 or are refused, as `zero_diagonal` says; entries that are not finite
// are refused, and with `positive` also negative ones.
template <class T>
Vector<T> usable_diagonal(std::string_view name, const ContextPtr& host, const CsrMatrix<T>& csr,
                          ZeroDiagonal zero_diagonal, bool positive = false);

}  // namespace protean::detail
