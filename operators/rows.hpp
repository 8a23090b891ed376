// The entries of an operator as CSR, for whoever needs more of a matrix than its products: preconditioners.
#pragma once
#include <optional>
#include <string_view>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// Ability: gives its entries, in the operator's space. Called by csr_of().
template <class T>
class HasRows {
 public:
  virtual ~HasRows() = default;
  // The same pattern as long as revision().pattern is the same. The handle may share arrays of the operator.
  virtual CsrMatrix<T> rows_as_csr() const = 0;
};

// The entries of A in its space, by HasRows: AssembledMatrix::to_csr(), the assembled element matrices, or the entries
// of a user's operator. A Matrix gives its source, if that has the values of the running matrix. Empty for an operator
// without that ability. May share arrays with A; else it takes the memory of the matrix in CSR. Throws OutOfMemory.
template <class T>
PROTEAN_EXPORT std::optional<CsrMatrix<T>> csr_of(const LinearOperator<T>& A);

// csr_of() in host memory, with sorted rows. `user` names the caller for the message. Throws BadArgument if A cannot
// give its entries, BadMatrix for a row that has a column twice.
template <class T>
PROTEAN_EXPORT CsrMatrix<T> rows_on_host(const LinearOperator<T>& A, const ContextPtr& host,
                                         std::string_view user);

}  // namespace protean
