#include "solvers/solver.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/communicator.hpp"
#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "solvers/diagnosis.hpp"
#include "solvers/driver/arguments.hpp"
#include "solvers/driver/one_vector.hpp"
#include "solvers/lanes.hpp"
#include "solvers/methods.hpp"
#include "solvers/null_space.hpp"
#include "solvers/options.hpp"
#include "solvers/steps.hpp"

namespace protean {

template <class T>
Solver<T>::Solver(SolverOptions options) : options_(std::move(options)) {}
template <class T>
Solver<T>::~Solver() = default;

template <class T>
SolveReport Solver<T>::solve(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x,
                             const Preconditioner<T>* M, SolveObserver* observer) {
  const std::int64_t n = A.rows();
  const ContextPtr& context = A.context();
  detail::require_square<T>(name(), A);
  require<T>(b, n, context->space(), "b");
  require<T>(x, n, context->space(), "x");
  detail::require_memory_of_vectors<T>(A, detail::as_column(b), detail::as_column(x),
                                       {"b", "x", "b and x of a solve"});
  detail::System<T> system{
      {A, b, x, M, detail::diagonal_of_inverse<T>(name(), needs_symmetric_preconditioner(), A, M)}};
  if (M && detail::communicator_of(*context)) {
    // All parts do the same work: M^-1 is a diagonal if it is one in each part that has rows.
    const bool general = detail::counted(*context, n > 0 && system.d.size == 0 ? 1 : 0) > 0;
    if (general) system.d = {};
    system.diagonal_elsewhere = !general && n == 0;
  }
  const detail::SolveScope scope(A, busy_, name());
  if (const detail::WorkspaceLayout layout = system.layout(); !workspace_ || workspace_->layout != layout) {
    workspace_.reset();  // before the new one, so that memory holds one of them at most
    workspace_ = std::make_unique<detail::Workspace<T>>(layout, make_method(layout));
  }
  const VectorBlock<const T> N = detail::null_space_of<T>(options_, null_space_, context, n,
                                                          workspace_->constant, workspace_->components);
  return detail::solve_one_vector<T>(name(), options_, system, observer, *workspace_, N);
}

template <class T>
void Solver<T>::set_null_space(VectorBlock<const T> N) {
  if (N.count > 0) detail::require_null_space_method(name());
  null_space_ = N;
}

std::span<const SolverEntry> solvers() noexcept {
  static const SolverEntry entries[] = {detail::cg,        detail::fcg, detail::minres, detail::bicgstab,
                                        detail::bicgstab2, detail::idr, detail::gmres,  detail::fgmres};
  return entries;
}

const SolverEntry& find_solver(std::string_view method) {
  std::vector<std::string_view> ids;
  for (const SolverEntry& entry : solvers()) {
    if (entry.id == method) return entry;
    ids.push_back(entry.id);
  }
  throw BadArgument(fmt::format("there is no method '{}'; there are {}.{}", method, fmt::join(ids, ", "),
                                detail::did_you_mean(method, ids)));
}

template <class T>
std::unique_ptr<Solver<T>> make_solver(std::string_view method, const SolverOptions& options) {
  const SolverEntry& entry = find_solver(method);
  check_options(solver_options(), options);
  require_read(solver_options(), options, "method", entry.id);
  if constexpr (sizeof(T) == 8)
    return entry.make_f64(options);
  else
    return entry.make_f32(options);
}

template class Solver<float>;
template class Solver<double>;
template std::unique_ptr<Solver<float>> make_solver<float>(std::string_view, const SolverOptions&);
template std::unique_ptr<Solver<double>> make_solver<double>(std::string_view, const SolverOptions&);

}  // namespace protean
