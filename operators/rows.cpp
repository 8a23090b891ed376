#include "operators/rows.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "operators/assembled_matrix.hpp"
#include "operators/elements/element_operator.hpp"
#include "operators/policy/adaptive_operator.hpp"

namespace protean {

template <class T>
std::optional<CsrMatrix<T>> csr_of(const LinearOperator<T>& A) {
  if (const auto* adaptive = dynamic_cast<const AdaptiveOperator<T>*>(&A)) {
    const bool exact = adaptive->on_elements() || adaptive->current().entry().traits.exact_values;
    if (exact && adaptive->source_assembled()) return adaptive->source();
    std::optional<CsrMatrix<T>> rows = csr_of(adaptive->running());
    if (adaptive->order().size() == 0) return rows;
    const bool on_host = adaptive->context()->space() == Space::host;
    return PermutedMatrix<T>(on_host ? adaptive->context() : Context::host(), *rows,
                             adaptive->order().inverse())
        .matrix();
  }
  if (const auto* matrix = dynamic_cast<const AssembledMatrix<T>*>(&A)) return matrix->to_csr();
  if (const auto* elements = dynamic_cast<const ElementOperator<T>*>(&A)) return elements->assemble();
  if (const auto* rows = dynamic_cast<const HasRows<T>*>(&A)) return rows->rows_as_csr();
  return std::nullopt;
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
