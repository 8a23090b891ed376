#include "solvers/driver/arguments.hpp"

#include <fmt/format.h>

#include <string>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"

namespace protean::detail {
namespace {

// The symmetric preconditioner that is most alike.
std::string_view symmetric_relative(std::string_view name) {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == name && !entry.symmetric) return entry.symmetric_relative;
  return "jacobi";
}

}  // namespace

template <class T>
void require_square(const MethodWords& method, const LinearOperator<T>& A) {
  if (A.cols() != A.rows())
    throw ShapeMismatch(
        fmt::format("the operator is {} x {}; {} needs a square one", A.rows(), A.cols(), method.name));
}

template <class T>
void require_memory_of_vectors(const LinearOperator<T>& A, const MultiVectorView<const T>& b,
                               const MultiVectorView<const T>& x, std::string_view b_name,
                               std::string_view x_name) {
  require_device_memory(*A.context(), b.data, b_name);
  require_device_memory(*A.context(), x.data, x_name);
  require_apart<T>(b, x, fmt::format("{} and {} of a solve", b_name, x_name));
}

template <class T>
VectorView<const T> diagonal_of_inverse(const MethodWords& method, const LinearOperator<T>& A,
                                        const Preconditioner<T>* M) {
  if (!M) return {};
  const std::int64_t n = A.rows();
  const Space space = A.context()->space();
  if (M->rows() != n || M->cols() != n)
    throw ShapeMismatch(
        fmt::format("the preconditioner is {} x {}; the operator is {} x {}", M->rows(), M->cols(), n, n));
  if (M->context()->space() != space)
    throw WrongSpace(fmt::format("the preconditioner works on {} memory, the operator on {} memory",
                                 to_string(M->context()->space()), to_string(space)));
  const VectorView<const T> d = M->inverse_diagonal();
  if (d.size > 0) require<T>(d, n, space, "the preconditioner's diagonal");
  if (method.needs_symmetric_preconditioner && !M->symmetric())
    throw BadArgument(fmt::format(
        "{} needs a symmetric preconditioner, and {} is not symmetric even if the matrix is; use {} "
        "instead, or method gmres or bicgstab",
        method.name, M->name(), symmetric_relative(M->name())));
  return d;
}

void SolveScope::claim(std::string_view method) {
  if (busy_.exchange(true))
    throw BadArgument(
        fmt::format("this {} solver is solving already; give each thread its own solver", method));
}

#define PROTEAN_INSTANTIATE(T)                                                                          \
  template void require_square<T>(const MethodWords&, const LinearOperator<T>&);                        \
  template void require_memory_of_vectors<T>(const LinearOperator<T>&, const MultiVectorView<const T>&, \
                                             const MultiVectorView<const T>&, std::string_view,         \
                                             std::string_view);                                         \
  template VectorView<const T> diagonal_of_inverse<T>(const MethodWords&, const LinearOperator<T>&,     \
                                                      const Preconditioner<T>*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
