// solve() of protean.hpp: one system in one call.
#include <chrono>
#include <memory>
#include <optional>

#include "core/error.hpp"
#include "protean.hpp"

namespace protean {
namespace {

class Clock {
 public:
  // Seconds since the last call, or since it was made.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

double products_per_iteration(const SolveSettings& settings) {
  return settings.method == "bicgstab" ? 2.0 : 1.0;
}

ContextPtr context_of(const SolveSettings& settings, Space space) {
  if (settings.context) return settings.context;
  if (space != Space::host)
    throw BadArgument("the matrix lies in device memory; give its context in SolveSettings::context");
  return Context::host();
}

void check(const SolveSettings& settings) {
  if (settings.policy && !settings.schedule.empty())
    throw BadArgument("policy and schedule exclude each other; take one of them");
  if (settings.policy) check_policy(settings.policy_options);
  require_order(settings.order);
  for (const SchedulePoint& point : settings.schedule)
    if (!point.to.order.empty()) require_order(point.to.order, false);
}

void require_sorted(const SolveSettings& settings, const Context& context, const SparsityPattern& pattern) {
  if ((settings.policy || !settings.schedule.empty()) && context.space() == Space::host &&
      pattern.space == Space::host && !is_sorted(context, pattern))
    throw BadMatrix(
        "columns do not ascend in all rows, as changes of format need it; sorted_copy() sorts, or solve "
        "without policy and schedule");
}

// B: the operator in the order of P.
template <class T>
SolveReport solve_with(const SolveSettings& settings, const std::shared_ptr<LinearOperator<T>>& B,
                       const Permutation& P, VectorView<const T> b, VectorView<T> x, SolveObserver* observer,
                       Solver<T>& solver, SolveResult& result) {
  Clock clock;
  std::optional<OrderedOperator<T>> ordered;
  if (P.size() > 0) ordered.emplace(P, B);
  const LinearOperator<T>& A = ordered ? static_cast<const LinearOperator<T>&>(*ordered) : *B;
  const auto M = make_preconditioner<T>(settings.preconditioner, A, settings.preconditioning);
  if (M) M->ensure(A);
  A.context()->synchronize();
  result.setup_seconds = clock.lap();
  return solver.solve(A, b, x, M.get(), observer);
}

template <class T>
void keep(const AdaptiveOperator<T>& A, SolveResult& result) {
  result.switches.assign(A.history().begin(), A.history().end());
  result.failed_switches.assign(A.failures().begin(), A.failures().end());
  result.format = A.current().name(), result.kernel = A.current().kernel();
  if (A.order_id() != "none") result.order = A.order_id();
}

}  // namespace

template <class T>
SolveResult solve(const CsrMatrix<T>& csr, std::type_identity_t<VectorView<const T>> b,
                  std::type_identity_t<VectorView<T>> x, const SolveSettings& settings) {
  const ContextPtr context = context_of(settings, csr.pattern.space);
  check(settings);
  const auto solver = make_solver<T>(settings.method, settings.solver);  // refuses names before any work
  const ChoiceOptions choice{.products_per_iteration = products_per_iteration(settings)};
  SolveResult result;
  Clock clock;
  OrderedMatrix<T> in_order = put_in_order(settings.order, csr, context, choice);
  const CsrMatrix<T>& source = in_order.ordered ? in_order.ordered->matrix() : csr;
  const Permutation P = in_order.ordered ? in_order.ordered->permutation() : Permutation();
  result.order = in_order.order, result.order_reason = in_order.reason;
  result.order_seconds = settings.order == "none" ? 0 : clock.lap();
  require_sorted(settings, *context, source.pattern);
  auto matrix =
      make_matrix(settings.policy && settings.format == "auto" ? std::string_view("csr") : settings.format,
                  source, context, settings.parameters, settings.kernel, choice);
  context->synchronize();
  result.convert_seconds = clock.lap();
  if (!settings.policy && settings.schedule.empty()) {
    result.format = matrix->name(), result.kernel = matrix->kernel();
    result.report = solve_with<T>(settings, std::move(matrix), P, b, x, settings.observer, *solver, result);
  } else if (settings.policy) {
    const MachineTable& machine = settings.machine ? *settings.machine : builtin_machine();
    const auto A = std::make_shared<AdaptiveOperator<T>>(source, std::move(matrix));
    const CostModel model(machine, context->space());
    AutoSwitcher<T> switcher(
        *A, model, [&] { return survey_formats(*A, model); },
        switch_options(*context, settings.solver.stopping, settings.policy_options), settings.observer);
    result.report = solve_with<T>(settings, A, P, b, x, &switcher, *solver, result);
    switcher.finish();
    keep(*A, result);
    result.decisions.assign(switcher.decisions().begin(), switcher.decisions().end());
    result.candidates = switcher.candidates();
  } else {
    const auto A = std::make_shared<AdaptiveOperator<T>>(source, std::move(matrix));
    FormatSchedule<T> schedule(*A, settings.schedule, settings.observer);
    result.report = solve_with<T>(settings, A, P, b, x, &schedule, *solver, result);
    schedule.finish();
    keep(*A, result);
    result.events = schedule.events();
  }
  context->synchronize();
  return result;
}

namespace {

void check_for_columns(const SolveSettings& settings) {
  const char* const what = settings.policy                ? "a policy"
                           : !settings.schedule.empty()   ? "a schedule"
                           : settings.order != "none"     ? "an order of the rows"
                           : settings.observer != nullptr ? "an observer of one column"
                                                          : nullptr;
  if (what)
    throw BadArgument(std::string(what) +
                      " is for one right-hand side; leave it out, or solve the columns one after another");
}

}  // namespace

template <class T>
MultiSolveResult multi_solve(const CsrMatrix<T>& csr, std::type_identity_t<MultiVectorView<const T>> B,
                             std::type_identity_t<MultiVectorView<T>> X, const SolveSettings& settings,
                             std::span<const StoppingRule> rules) {
  const ContextPtr context = context_of(settings, csr.pattern.space);
  check_for_columns(settings);
  MultiSolver<T> solver(settings.method, settings.solver);  // refuses names before any work
  MultiSolveResult result;
  Clock clock;
  auto matrix = make_matrix(settings.format, csr, context, settings.parameters, settings.kernel);
  if (const std::string why = column_by_column<T>(*matrix);
      settings.format == "auto" && B.columns > 1 && !why.empty()) {
    result.format_reason = "csr instead of " + std::string(matrix->name()) + ": " + why;
    matrix.reset();
    matrix = make_matrix("csr", csr, context);
  }
  context->synchronize();
  result.convert_seconds = clock.lap();
  result.format = matrix->name(), result.kernel = matrix->kernel();
  const auto M = make_preconditioner<T>(settings.preconditioner, *matrix, settings.preconditioning);
  if (M) M->ensure(*matrix);
  context->synchronize();
  result.setup_seconds = clock.lap();
  result.report = solver.solve(*matrix, B, X, M.get(), nullptr, rules);
  context->synchronize();
  return result;
}

#define PROTEAN_INSTANTIATE(T)                                                                  \
  template SolveResult solve<T>(const CsrMatrix<T>&, std::type_identity_t<VectorView<const T>>, \
                                std::type_identity_t<VectorView<T>>, const SolveSettings&);     \
  template MultiSolveResult multi_solve<T>(                                                     \
      const CsrMatrix<T>&, std::type_identity_t<MultiVectorView<const T>>,                      \
      std::type_identity_t<MultiVectorView<T>>, const SolveSettings&, std::span<const StoppingRule>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
