#include "preconditioners/common/diagonal.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/error.hpp"
#include "preconditioners/common/entries.hpp"

namespace protean::detail {
namespace {

template <class T>
bool usable(T a) {
  return std::isfinite(a) && std::isfinite(T(1) / a);
}

// "row 3 (0), row 7 (nan), ..." and how many there are
template <class T, class Bad>
std::pair<std::string, std::int64_t> rows_where(VectorView<const T> d, Bad bad) {
  constexpr std::int64_t shown = 5;
  std::string rows;
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < d.size; ++i) {
    if (!bad(d[i])) continue;
    if (found < shown) rows += fmt::format("{}row {} ({})", found > 0 ? ", " : "", i, d[i]);
    ++found;
  }
  return {rows + (found > shown ? ", ..." : ""), found};
}

}  // namespace

template <class T>
void require_finite(std::string_view name, VectorView<const T> d) {
  for (std::int64_t i = 0; i < d.size; ++i)
    if (!std::isfinite(d[i])) refuse_entry<T>(name, i, i, d[i]);
}

template <class T>
void refuse_diagonal(std::string_view name, VectorView<const T> d) {
  const auto [rows, found] = rows_where(d, [](T a) { return !usable(a); });
  throw BadMatrix(fmt::format(
      "{} divides by the diagonal, but {} of {} diagonal entries are zero, missing or so small that their "
      "inverse is not finite: {} (rows count from 0). If these rows are a constraint, such as the "
      "pressure of a flow, take preconditioner fields. Or solve without a preconditioner (minres for a symmetric "
      "matrix, bicgstab or gmres for any other); or put the rows of A and of b into an order that leaves no zero on "
      "the diagonal: scipy.sparse.csgraph.maximum_bipartite_matching(A, perm_type='row') finds p for A[p] x "
      "= b[p] (it also counts zeros that are stored; a symmetric matrix loses its symmetry); or take 1 for "
      "these entries (zero_diagonal: one)",
      name, found, d.size, rows));
}

template <class T>
void require_positive(std::string_view name, VectorView<const T> d) {
  const auto [rows, found] = rows_where<T>(d, [](T a) { return a < T(0); });
  if (found == 0) return;
  throw BadMatrix(fmt::format(
      "{} needs a positive diagonal, but {} of {} diagonal entries are negative: {} (rows count from 0). {}",
      name, found, d.size, rows,
      found == d.size ? "If the matrix is negative definite, solve (-A) x = -b"
                      : "The matrix is not positive definite: use ilu0 with gmres or bicgstab"));
}

template <class T>
Vector<T> usable_diagonal(std::string_view name, const ContextPtr& host, const CsrMatrix<T>& csr,
                          ZeroDiagonal zero_diagonal, bool positive) {
  Vector<T> d(host, csr.rows());
  extract_diagonal<T>(*host, csr, d.data());
  require_finite<T>(name, d.view());
  for (std::int64_t i = 0; i < d.size(); ++i) {
    if (usable(d[i])) continue;
    if (zero_diagonal == ZeroDiagonal::error) refuse_diagonal<T>(name, d.view());
    d[i] = 1;
  }
  if (positive) require_positive<T>(name, d.view());
  return d;
}

#define PROTEAN_INSTANTIATE(T)                                                                    \
  template void require_finite<T>(std::string_view, VectorView<const T>);                         \
  template void require_positive<T>(std::string_view, VectorView<const T>);                       \
  template void refuse_diagonal<T>(std::string_view, VectorView<const T>);                        \
  template Vector<T> usable_diagonal<T>(std::string_view, const ContextPtr&, const CsrMatrix<T>&, \
                                        ZeroDiagonal, bool);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
