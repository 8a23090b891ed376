#include "solvers/null_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "solvers/diagnosis.hpp"

namespace protean::detail {

void require_null_space_method(std::string_view method) {
  if (!find_solver(method).symmetric)
    throw BadArgument(
        fmt::format("a null space is for methods cg, fcg and minres; the method is {}", method));
}

template <class T>
VectorBlock<const T> null_space_of(const SolverOptions& options, VectorBlock<const T> given,
                                   const ContextPtr& context, std::int64_t n, Vector<T>& constant,
                                   Vector<T>& components) {
  VectorBlock<const T> N = given;
  if (N.count == 0 && options.null_space == "constant") {
    if (constant.size() != n || n == 0) {
      constant = Vector<T>(context, n);
      fill<T>(*context,
              static_cast<T>(1 / std::sqrt(std::max(1.0, static_cast<double>(all_rows(*context, n))))),
              constant);
    }
    N = {constant.data(), n, n, 1, context->space()};
  }
  if (N.count == 0) return N;
  const std::int64_t stride = N.count > 1 ? N.stride : n;  // of one vector it means nothing
  require<T>(MultiVectorView<const T>{N.data, N.size, N.count, stride, VectorLayout::columns, N.space}, n,
             N.count, context->space(), "the null space");
  if (components.size() != N.count) components = Vector<T>(context, N.count);
  return N;
}

template <class T>
void check_null_space(const LinearOperator<T>& A, const VectorBlock<const T>& N, VectorView<const T> b,
                      double rhs_norm, VectorView<T> q, VectorView<T> d, Vector<T>& number) {
  const Context& context = *A.context();
  // A number of the size of the largest eigenvalue.
  double size = 0;
  const HasDiagonal<T>* known = A.abilities().diagonal.get();
  try {
    if (known) known->diagonal(d);
  } catch (const BadArgument&) { known = nullptr; }  // a caller's operator without a function for it
  if (known) {
    T largest = 0;
    max_abs<T>(context, d, number.data());
    copy<T>(context, number.view(), {&largest, 1});
    size = static_cast<double>(largest);
  } else {
    A.apply(b, q);
    size = norm<T>(context, q, number) / rhs_norm;
  }
  for (std::int64_t j = 0; j < N.count; ++j) {
    A.apply(N.column(j), q);
    const double product = norm<T>(context, q, number);
    if (product > std::sqrt(static_cast<double>(std::numeric_limits<T>::epsilon())) * size)
      throw BadArgument(fmt::format(
          "null space: A times vector {} has norm {:.3g}, so that the vector is not in the null space of A "
          "(size of A: {:.3g}); give vectors n with A n = 0, or none",
          j, product, size));
  }
}

template <class T>
void project(const Context& context, const VectorBlock<const T>& N, VectorView<T> v, Vector<T>& components) {
  if (N.count == 0) return;
  block_dot<T>(context, N, v, components.data());
  block_axpy<T>(context, T(-1), N, components.data(), v);
}

template <class T>
double part_in_null_space(const Context& context, const VectorBlock<const T>& N, VectorView<const T> b,
                          Vector<T>& components) {
  block_dot<T>(context, N, b, components.data());
  std::vector<T> parts(static_cast<std::size_t>(N.count));
  copy<T>(context, components.view(), {parts.data(), N.count});
  double sum = 0;
  for (const T c : parts) sum += static_cast<double>(c) * static_cast<double>(c);
  return std::sqrt(sum);
}

std::string inconsistent_detail(double part, double tolerance) {
  return fmt::format(
      "the part of b in the null space has norm {:.3g}, and ||b - A x|| is at least that; the tolerance is "
      "{:.3g}",
      part, tolerance);
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template VectorBlock<const T> null_space_of(const SolverOptions&, VectorBlock<const T>, const ContextPtr&, \
                                              std::int64_t, Vector<T>&, Vector<T>&);                         \
  template void check_null_space(const LinearOperator<T>&, const VectorBlock<const T>&, VectorView<const T>, \
                                 double, VectorView<T>, VectorView<T>, Vector<T>&);                          \
  template void project(const Context&, const VectorBlock<const T>&, VectorView<T>, Vector<T>&);             \
  template double part_in_null_space(const Context&, const VectorBlock<const T>&, VectorView<const T>,       \
                                     Vector<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
