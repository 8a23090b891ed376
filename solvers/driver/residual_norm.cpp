#include "solvers/driver/residual_norm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/blas1.hpp"
#include "core/error.hpp"

namespace protean::detail {

template <class T>
double make_weights(const LinearOperator<T>& A, const SolverOptions& options, Vector<T>& weights,
                    Vector<T>& number) {
  const Ability<HasDiagonal<T>> known = A.abilities().diagonal;
  if (!known)
    throw BadArgument(
        fmt::format("residual_norm is {}, but operator {} does not tell its diagonal{}{}; take euclidean",
                    options.residual_norm, A.name(), known.why().empty() ? "" : ": ", known.why()));
  const Context& context = *A.context();
  if (weights.size() != A.rows()) weights = make_vector<T>(A.context(), A.rows());
  T largest = 0, replaced = 0;
  known->diagonal(weights);
  max_abs<T>(context, weights, number.data());
  copy<T>(context, number.view(), {&largest, 1});
  reciprocal<T>(context, weights, number.data());
  copy<T>(context, number.view(), {&replaced, 1});
  return std::max(static_cast<double>(largest), replaced > 0 ? 1.0 : 0.0);
}

template double make_weights<float>(const LinearOperator<float>&, const SolverOptions&, Vector<float>&,
                                    Vector<float>&);
template double make_weights<double>(const LinearOperator<double>&, const SolverOptions&, Vector<double>&,
                                     Vector<double>&);

}  // namespace protean::detail
