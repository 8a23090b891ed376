// Matrices with which a preconditioner computes, in a format that is chosen for them. Private to preconditioners/.
#pragma once
#include <memory>
#include <string>

#include "operators/assembled_matrix.hpp"

namespace protean::detail {

// csr, which lies in the space of the context, in this format. If `format` is empty, it is chosen for two products an
// iteration, and written there; `pattern` is the pattern of csr, in host memory or in memory of the context. The
// pattern alone decides, not whether values happen to be symmetric to the bit, so new values have the format of a new
// setup.
template <class T>
std::unique_ptr<AssembledMatrix<T>> in_format(const ContextPtr& context, const CsrMatrix<T>& csr,
                                              const SparsityPattern& pattern, std::string& format);
// The values of csr, which lies in host memory, on the device of `old`, for its update_values().
template <class T>
CsrMatrix<T> new_values(const ContextPtr& host, const AssembledMatrix<T>& old, const CsrMatrix<T>& csr);
// The same matrix with row pointers of 4 bytes, if they can be: a device reads them with each product.
template <class T>
CsrMatrix<T> narrow(const ContextPtr& host, const CsrMatrix<T>& csr);

}  // namespace protean::detail
