#include "operators/rows.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace protean {

template <class T>
std::optional<CsrMatrix<T>> csr_of(const LinearOperator<T>& A) {
  const Ability<HasRows<T>> rows = A.abilities().rows;
  if (!rows) return std::nullopt;
  return rows->rows_as_csr();
}

template <class T>
CsrMatrix<T> rows_on_host(const LinearOperator<T>& A, const ContextPtr& host, std::string_view user) {
  std::optional<CsrMatrix<T>> csr = csr_of(A);
  if (!csr)
    throw BadArgument(
        fmt::format("{} needs the entries of the matrix, which operator '{}' cannot give; use preconditioner "
                    "jacobi, chebyshev or none, or derive the operator from HasRows",
                    user, A.name()));
  if (csr->pattern.space == Space::device) csr = download(host, *A.context(), *csr);
  if (!is_sorted(*host, csr->pattern)) csr = sorted_copy(host, *csr);
  return *std::move(csr);
}

#define PROTEAN_INSTANTIATE(T)                                              \
  template std::optional<CsrMatrix<T>> csr_of<T>(const LinearOperator<T>&); \
  template CsrMatrix<T> rows_on_host<T>(const LinearOperator<T>&, const ContextPtr&, std::string_view);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
