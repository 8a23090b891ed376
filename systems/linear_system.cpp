#include "systems/linear_system.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/words.hpp"
#include "operators/elements/element_operator.hpp"
#include "systems/distributed_system.hpp"
#include "systems/options.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean {
namespace {

// Whether results in one are those in the other.
bool alike(const Context& a, const Context& b) {
  return &a == &b || (a.space() == Space::host && b.space() == Space::host && a.threads() == b.threads() &&
                      a.deterministic() == b.deterministic() && a.vector_kernels() == b.vector_kernels());
}

ContextPtr context_of(const SolveSettings& settings, Space space) {
  if (settings.context) return settings.context;
  if (space != Space::host)
    throw BadArgument("the matrix lies in device memory; give its context in SolveSettings::context");
  return Context::host();
}

}  // namespace

template <class T>
struct LinearSystem<T>::Parts {
  Parts(CsrMatrix<T> csr, SolveSettings settings) {
    solver.emplace(std::move(settings));
    const SolveSettings& wanted = solver->settings();
    if (!is_distributed(wanted)) {
      matrix.emplace(context_of(wanted, csr.pattern.space), std::move(csr), wanted.check_arrays);
      return;
    }
    detail::require_distributable(wanted);
    if (csr.pattern.space == Space::host) {
      const ContextPtr host = Context::host();
      // The plan needs sorted rows, whatever is not checked.
      validate_sorted(*host, csr.pattern);
      if (wanted.check_arrays) require_finite(*host, csr);
    }
    distributed = std::make_unique<detail::DistributedSystem<T>>(std::move(csr), wanted);
  }
  template <class Operator>
  Parts(Operator A, SolveSettings settings) {
    solver.emplace(std::move(settings));
    if (is_distributed(solver->settings()))
      throw BadArgument("a distribution over several devices is for matrices in CSR; leave it out");
    matrix.emplace(std::move(A));
  }
  static bool is_distributed(const SolveSettings& settings) {
    const Distribution& wanted = settings.distribution;
    if (wanted.contexts.size() > 1) return true;
    if (!wanted.contexts.empty() || !wanted.part_of_row.empty() || wanted.partition != "rows")
      throw BadArgument(fmt::format(
          "the distribution has {} contexts; give one for each of several devices, or leave it empty",
          wanted.contexts.size()));
    return false;
  }
  void require_whole(std::string_view what) const {
    if (distributed)
      throw BadArgument(fmt::format("{} is not for a system over several devices; take one device", what));
  }

  // Of a distributed system the solver only has the settings.
  std::optional<SystemSolver<T>> solver;
  std::optional<SystemMatrix<T>> matrix;
  std::unique_ptr<detail::DistributedSystem<T>> distributed;
};

template <class T>
LinearSystem<T>::LinearSystem(CsrMatrix<T> csr, SolveSettings settings)
    : parts_(std::make_unique<Parts>(std::move(csr), std::move(settings))) {
  begin();
}

template <class T>
LinearSystem<T>::LinearSystem(std::unique_ptr<ElementOperator<T>> elements, SolveSettings settings)
    : parts_(std::make_unique<Parts>(std::move(elements), std::move(settings))) {
  begin();
}

template <class T>
LinearSystem<T>::LinearSystem(std::shared_ptr<LinearOperator<T>> A, SolveSettings settings)
    : parts_(std::make_unique<Parts>(std::move(A), std::move(settings))) {
  begin();
}

template <class T>
LinearSystem<T>::LinearSystem(LinearSystem&&) noexcept = default;
template <class T>
LinearSystem<T>& LinearSystem<T>::operator=(LinearSystem&&) noexcept = default;
template <class T>
LinearSystem<T>::~LinearSystem() = default;

template <class T>
typename LinearSystem<T>::Parts& LinearSystem<T>::parts() const {
  if (!parts_) throw BadArgument("this system was moved to another one; use that, or make a new system");
  return *parts_;
}

template <class T>
void LinearSystem<T>::set_up(std::int64_t columns) {
  if (parts().distributed) {
    if (columns != 1) parts().require_whole("set_up() for several columns");
    return parts().distributed->set_up();
  }
  parts().solver->set_up(*parts().matrix, columns);
}

template <class T>
SolveResult LinearSystem<T>::solve(VectorView<const T> b, VectorView<T> x, SolveObserver* observer) {
  if (parts().distributed) return parts().distributed->solve(b, x, observer);
  return parts().solver->solve(*parts().matrix, b, x, observer);
}

template <class T>
MultiSolveResult LinearSystem<T>::multi_solve(MultiVectorView<const T> B, MultiVectorView<T> X,
                                              MultiSolveObserver* observer,
                                              std::span<const StoppingRule> rules) {
  parts().require_whole("multi_solve()");
  return parts().solver->multi_solve(*parts().matrix, B, X, observer, rules);
}

template <class T>
const SolveSettings& LinearSystem<T>::settings() const {
  return parts().solver->settings();
}
template <class T>
const LinearOperator<T>& LinearSystem<T>::A() const {
  parts().require_whole("A()");
  return parts().matrix->A();
}
template <class T>
SystemMatrix<T>& LinearSystem<T>::matrix() {
  parts().require_whole("matrix()");
  return *parts().matrix;
}
template <class T>
SystemSolver<T>& LinearSystem<T>::solver() {
  parts().require_whole("solver()");
  return *parts().solver;
}

template <class T>
void LinearSystem<T>::begin() {
  if (parts().distributed) return;
  const SolveSettings& wanted = parts().solver->settings();
  require_context(wanted.context);
  parts().matrix->set_format_and_order(wanted.format, wanted.parameters, wanted.kernel, wanted.order);
}

template <class T>
void LinearSystem<T>::require_context(const ContextPtr& wanted) const {
  const Context& has = *parts().matrix->context();
  if (!wanted || alike(*wanted, has)) return;
  const auto words = [](const Context& one) {
    return one.space() == Space::device
               ? std::string("a context of a device")
               : fmt::format("a context of the host with {} threads{}", one.threads(),
                             one.deterministic() ? " in deterministic mode" : "");
  };
  throw BadArgument(fmt::format(
      "the settings name {}, but the matrix of this system has {}, which stays; leave the context "
      "out, or make another system",
      &has != wanted.get() && words(*wanted) == words(has) ? "another context" : words(*wanted), words(has)));
}

template <class T>
void LinearSystem<T>::update_values(const T* values) {
  if (parts().distributed)
    return parts().distributed->update_values(with_values(parts().distributed->given(), values));
  parts().solver->require_idle("update_values()");
  parts().matrix->update_values(with_values(parts().matrix->given(), values));
}

template <class T>
void LinearSystem<T>::update_values(const CsrMatrix<T>& csr) {
  if (parts().distributed) return parts().distributed->update_values(csr);
  parts().solver->require_idle("update_values()");
  parts().matrix->update_values(csr);
}

template <class T>
void LinearSystem<T>::update_values(std::span<const ElementGroup<T>> groups) {
  parts().require_whole("update_values() of element matrices");
  parts().solver->require_idle("update_values()");
  parts().matrix->update_values(groups);
}

template <class T>
void LinearSystem<T>::set(const SolveSettings& settings) {
  parts().solver->require_idle("set()");
  const SolveSettings& before = parts().solver->settings();
  SolveSettings next = with_names(settings);
  if (!next.context) next.context = before.context;
  parts().solver->require(next);
  if (!parts().distributed) require_context(next.context);
  if (next.check_arrays != before.check_arrays)
    throw BadArgument(
        fmt::format("check_arrays is {}, and the system was made with {}, which stays; leave it so, or make "
                    "another system",
                    next.check_arrays, before.check_arrays));
  if (Parts& own = parts(); own.distributed) {
    if (next.distribution.contexts.empty()) next.distribution = before.distribution;
    own.distributed->set(next);
    return own.solver->take(std::move(next));
  }
  if (!next.distribution.contexts.empty())
    throw BadArgument(
        "the system is not distributed over several devices, which stays so; make another system");
  const bool asks = !parts().matrix->wants(next.format, next.parameters, next.kernel, next.order) ||
                    (!parts().solver->has_policy(next, *parts().matrix) && parts().matrix->has_left());
  if (asks) parts().matrix->set_format_and_order(next.format, next.parameters, next.kernel, next.order);
  parts().solver->take(std::move(next));
}

template <class T>
void LinearSystem<T>::require_entries(std::int64_t values) const {
  if (parts().distributed) {
    if (const std::int64_t has = parts().distributed->given().nonzeros(); values != has)
      throw ShapeMismatch(fmt::format("there are {} new values; the matrix has {} entries", values, has));
    return;
  }
  const SystemMatrix<T>& matrix = *parts().matrix;
  if (!matrix.of_elements() && !matrix.of_operator() && values != matrix.given().nonzeros())
    throw ShapeMismatch(
        fmt::format("there are {} new values; the matrix has {} entries", values, matrix.given().nonzeros()));
}

template <class T>
std::string LinearSystem<T>::describe() const {
  const auto with_reason = [](std::string_view what, std::string_view reason) {
    if (reason.starts_with(what) && reason.substr(what.size()).starts_with(": "))
      reason.remove_prefix(what.size() + 2);
    return reason.empty() ? std::string(what) : fmt::format("{} ({})", what, reason);
  };
  if (!parts_) return "a system that was moved to another one\n";
  if (parts_->distributed) return parts_->distributed->describe();
  const SystemMatrix<T>& matrix = *parts_->matrix;
  const SystemSolver<T>& solver = *parts_->solver;
  const SolveSettings& wanted = solver.settings();
  const Context& context = *matrix.context();
  const bool settled = matrix.settled();
  const auto shape = settled || matrix.of_operator() || matrix.of_elements()
                         ? matrix.A().shape()
                         : Shape{matrix.given().rows(), matrix.given().cols()};
  std::string text = fmt::format("A               {} x {}", shape.rows, shape.cols);
  if (!matrix.of_operator() && !matrix.of_elements())
    text += fmt::format(", {} nonzeros", matrix.given().nonzeros());
  text += fmt::format(", {} precision, {}\n", sizeof(T) == 8 ? "double" : "single",
                      context.space() == Space::device ? std::string("on a device")
                                                       : fmt::format("{} threads", context.threads()));
  const Preconditioner<T>* const M = solver.preconditioner();
  text += fmt::format("method          {}\n",
                      settled ? with_reason(solver.method(), solver.method_reason()) : wanted.method.name());
  text += fmt::format(
      "preconditioner  {}\n",
      M ? with_reason(fmt::format("{}, {} in {}", M->name(), human_bytes(M->bytes()), M->storage()),
                      solver.storage_reason())
        : wanted.preconditioner.name());
  if (settled) {
    text += fmt::format("format          {}, kernel {}, {}\n",
                        with_reason(matrix.format(), matrix.format_reason()), matrix.kernel(),
                        human_bytes(matrix.bytes()));
    if (const std::string values = matrix.values(); values.starts_with("float ("))
      text += fmt::format("values          {}\n", with_reason(values, matrix.values_reason()));
    text += fmt::format("order           {}\n", with_reason(matrix.order(), matrix.order_reason()));
  } else {
    text += fmt::format("format          {}, made by the first solve\norder           {}\n", wanted.format,
                        wanted.order);
  }
  return text;
}

template <class T>
std::ostream& operator<<(std::ostream& out, const LinearSystem<T>& system) {
  return out << system.describe();
}

template <class T>
SolveResult solve(const CsrMatrix<T>& csr, std::type_identity_t<VectorView<const T>> b,
                  std::type_identity_t<VectorView<T>> x, const SolveSettings& settings) {
  return LinearSystem<T>(csr, settings).solve(b, x);
}

template <class T>
MultiSolveResult multi_solve(const CsrMatrix<T>& csr, std::type_identity_t<MultiVectorView<const T>> B,
                             std::type_identity_t<MultiVectorView<T>> X, const SolveSettings& settings,
                             std::span<const StoppingRule> rules) {
  return LinearSystem<T>(csr, settings).multi_solve(B, X, nullptr, rules);
}

#define PROTEAN_INSTANTIATE(T)                                                                  \
  template class LinearSystem<T>;                                                               \
  template std::ostream& operator<< <T>(std::ostream&, const LinearSystem<T>&);                 \
  template SolveResult solve<T>(const CsrMatrix<T>&, std::type_identity_t<VectorView<const T>>, \
                                std::type_identity_t<VectorView<T>>, const SolveSettings&);     \
  template MultiSolveResult multi_solve<T>(                                                     \
      const CsrMatrix<T>&, std::type_identity_t<MultiVectorView<const T>>,                      \
      std::type_identity_t<MultiVectorView<T>>, const SolveSettings&, std::span<const StoppingRule>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
