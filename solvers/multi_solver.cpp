#include "solvers/multi_solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "solvers/driver/arguments.hpp"
#include "solvers/driver/columns.hpp"
#include "solvers/methods.hpp"
#include "solvers/null_space.hpp"

namespace protean {
namespace detail {
namespace {

constexpr const MultiMethodEntry* entries[] = {
    &cg_of_columns,        &fcg_of_columns, &minres_of_columns, &bicgstab_of_columns,
    &bicgstab2_of_columns, &idr_of_columns, &gmres_of_columns,  &fgmres_of_columns};

}  // namespace
}  // namespace detail

bool MultiSolveReport::converged() const noexcept {
  return std::all_of(columns.begin(), columns.end(), [](const SolveReport& c) { return c.converged(); });
}

std::span<const std::string_view> multi_methods() noexcept {
  static const auto names = [] {
    std::array<std::string_view, std::size(detail::entries)> all;
    std::transform(std::begin(detail::entries), std::end(detail::entries), all.begin(),
                   [](const detail::MultiMethodEntry* entry) { return entry->traits.id; });
    return all;
  }();
  return names;
}

template <class T>
MultiSolver<T>::MultiSolver(std::string_view method, const SolverOptions& options) : options_(options) {
  (void)make_solver<T>(method, options);  // refuses names and numbers
  for (const detail::MultiMethodEntry* entry : detail::entries)
    if (entry->traits.id == method) entry_ = entry;

  if (options.device_steps == "resident")
    throw BadArgument(
        "device_steps is resident, which is for one right-hand side; the steps of several are graphs: take auto");
}
template <class T>
MultiSolver<T>::~MultiSolver() = default;

template <class T>
std::string_view MultiSolver<T>::name() const noexcept {
  return entry_->traits.id;
}

template <class T>
MultiSolveReport MultiSolver<T>::solve(const LinearOperator<T>& A, MultiVectorView<const T> B,
                                       MultiVectorView<T> X, const Preconditioner<T>* M,
                                       MultiSolveObserver* observer, std::span<const StoppingRule> rules) {
  const std::int64_t n = A.rows(), k = B.columns;
  const ContextPtr& context = A.context();
  const Space space = context->space();
  detail::require_square<T>(name(), A);
  require<T>(B, n, k, space, "B");
  require<T>(X, n, k, space, "X");
  detail::require_memory_of_vectors<T>(A, B, X, {"B", "X", "B and X of a solve"});
  if (!rules.empty() && std::ssize(rules) != k)
    throw ShapeMismatch(
        fmt::format("{} stopping rules for {} columns; give one for each, or none", rules.size(), k));
  for (const StoppingRule& rule : rules) {
    SolverOptions one = options_;
    one.stopping = rule;
    (void)make_solver<T>(name(), one);
  }
  if (context->vector_kernels() != VectorKernels::native)
    throw BadArgument(fmt::format(
        "the vector operations of the context belong to {}, which has none for several vectors; take native",
        to_string(context->vector_kernels())));
  constexpr std::int64_t most_on_gpu = 256;
  if (space == Space::device && !context->simulated() && k > most_on_gpu)
    throw BadArgument(fmt::format("{} right-hand sides; a GPU takes up to {} at a time", k, most_on_gpu));
  const detail::MultiSystem<T> system{
      A, B, X, M, detail::diagonal_of_inverse<T>(name(), entry_->traits.symmetric_preconditioner, A, M)};
  const detail::SolveScope scope(A, busy_, name());
  detail::require_memory_of_columns<T>(k);
  const std::int64_t most = std::max<std::int64_t>(1, detail::multi_width(k));
  const detail::WorkspaceLayout layout = system.layout();
  if (!workspace_ || !workspace_->fits(layout, most)) {
    workspace_.reset();  // before the new one, so that memory holds one of them at most
    workspace_ =
        std::make_unique<detail::MultiWorkspace<T>>(entry_->template make<T>(), options_, layout, most);
  }
  const VectorBlock<const T> N = detail::null_space_of<T>(options_, null_space_, context, n,
                                                          workspace_->constant, workspace_->components);
  return detail::solve_columns<T>(options_, system, *workspace_, observer, rules, N);
}

template <class T>
void MultiSolver<T>::set_null_space(VectorBlock<const T> N) {
  if (N.count > 0) detail::require_null_space_method(name());
  null_space_ = N;
}

template class MultiSolver<float>;
template class MultiSolver<double>;

}  // namespace protean
