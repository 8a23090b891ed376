#include "systems/method_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "operators/assembled_matrix.hpp"
#include "solvers/solver.hpp"
#include "systems/continued.hpp"
#include "systems/preconditioner_change.hpp"
#include "systems/seconds.hpp"
#include "systems/sequence.hpp"
#include "systems/system_matrix.hpp"

namespace protean {

std::string_view to_string(MethodChange::Action action) noexcept {
  return action == MethodChange::Action::changed ? "changed" : "refused";
}

namespace detail {

template <class T>
SolveObserver* MethodChanges<T>::begin_part(SolveObserver* next, std::string_view method,
                                            const SolverOptions& options, bool symmetric_only) {
  next_ = next, stopping_ = options.stopping, restart_ = options.restart;
  slow_.reset(), begun_ = false, given_up_.clear();
  const SolverEntry& entry = find_solver(method);
  method_ = entry.id, symmetric_ = entry.symmetric;
  seen_ = A_.revision();
  const MethodEnd slow{.method = method,
                       .symmetric = false,
                       .symmetric_only = symmetric_only,
                       .restart = restart_,
                       .longest = restart_};
  return watches_ && (symmetric_ || method == "gmres") && rule.after(slow) ? this : next;
}

template <class T>
bool MethodChanges<T>::on_iteration(const IterationInfo& info) {
  if (next_ && !next_->on_iteration(info)) return false;
  if (!std::exchange(begun_, true)) {
    constexpr std::int64_t look = 100;
    const double baseline = info.relative_residual > 0 ? info.residual / info.relative_residual : 0;
    slow_.emplace(std::max(stopping_.relative_tolerance * baseline, stopping_.absolute_tolerance),
                  stopping_.max_iterations, symmetric_ ? look : restart_);
  }
  const bool new_values = A_.revision() != seen_;
  seen_ = A_.revision();
  const bool slow = slow_ && slow_->add(info.iteration, info.residual);
  if (!symmetric_) {
    if (slow) given_up_ = slow_->reason();
  } else if (new_values || slow) {
    if (slow) slow_.reset();
    if (unsymmetric_())
      given_up_ = new_values ? "the matrix has new values" : fmt::format("{} does not get on", method_);
  }
  return given_up_.empty();
}

template <class T>
std::int64_t MethodChanges<T>::next_stop() const noexcept {
  return next_ ? next_->next_stop() : SolveObserver::next_stop();
}

template <class T>
bool MethodChanges<T>::reads_solution(const IterationInfo& info) const noexcept {
  return next_ && next_->reads_solution(info);
}

template <class T>
void MethodChanges<T>::keep(const LinearOperator<T>& A, const StoppingRule& rule, VectorView<T> x,
                            SolveReport& report) {
  bring_back(A, x, report);
  const Context& context = *A.context();
  if (best_.size() != x.size) best_ = Vector<T>(A.context(), x.size);
  if (!(report.true_residual <= report.rhs_norm)) {
    fill<T>(context, T(0), x);
    report.true_residual = report.rhs_norm;
    const double baseline = baseline_of(rule, report);
    report.true_relative = baseline > 0 ? report.rhs_norm / baseline : report.rhs_norm;
  }
  copy<T>(context, VectorView<const T>(x), best_.view());
  best_residual_ = report.true_residual, best_relative_ = report.true_relative;
  has_best_ = true, revision_ = A.revision();
}

template <class T>
void MethodChanges<T>::bring_back(const LinearOperator<T>& A, VectorView<T> x, SolveReport& report) {
  if (!has_best_ || report.converged() || report.true_residual <= best_residual_ || A.revision() != revision_)
    return;
  copy<T>(*A.context(), VectorView<const T>(best_), x);
  report.true_residual = best_residual_, report.true_relative = best_relative_;
}

template <class T>
void MethodChanges<T>::note(MethodChange change, const std::function<void(const std::string&)>& on_note) {
  if (on_note)
    on_note(fmt::format("iteration {}: method auto {} {}: {}", change.iteration,
                        change.action == MethodChange::Action::changed ? "goes on with" : "cannot take",
                        change.to, change.reason));
  changes_.push_back(std::move(change));
}

template <class T>
void MethodChanges<T>::refuse(std::string_view why, const std::function<void(const std::string&)>& on_note) {
  MethodChange change = std::move(changes_.back());
  changes_.pop_back();
  change.action = MethodChange::Action::refused;
  change.reason = fmt::format("{}; but {}", change.reason, why);
  note(std::move(change), on_note);
}

template <class T>
bool MethodChanges<T>::changed() const noexcept {
  return std::any_of(changes_.begin(), changes_.end(),
                     [](const MethodChange& one) { return one.action == MethodChange::Action::changed; });
}

template class MethodChanges<float>;
template class MethodChanges<double>;

namespace {

// Of gmres: no more than 200, and vectors in a quarter of the memory that is left. In deterministic mode memory must
// not decide; a solve that finds none is refused.
std::int64_t longest_restart(const Context& context, std::int64_t rows, std::size_t bytes_of_entry,
                             std::int64_t restart) {
  constexpr std::int64_t most = 200;
  std::int64_t longest = most;
  if (!context.deterministic()) {
    const std::size_t vectors = available_bytes(context) / 4 /
                                (static_cast<std::size_t>(std::max<std::int64_t>(rows, 1)) * bytes_of_entry);
    longest = static_cast<std::int64_t>(std::min<std::size_t>(vectors, static_cast<std::size_t>(most)));
  }
  return std::max(std::min(longest, rows), restart);
}

}  // namespace
}  // namespace detail

// Whether the matrix is symmetric as it is now. What products, or the caller, said of an operator without entries when
// the solve began is asked again, with other vectors.
template <class T>
bool SystemSolver<T>::is_still_symmetric(const SystemMatrix<T>& matrix) {
  const bool entries = !matrix.of_elements() && !matrix.of_operator();
  look_at_matrix(matrix);
  Sequence& now = *sequence_;
  if (!entries && now.traits->symmetric) {
    detail::MethodTraits again = detail::method_traits<T>(matrix.A(), false, 3);
    if (!again.symmetric) now.traits = std::move(again);
  }
  return now.traits->symmetric;
}

// Goes on with another method, or another preconditioner, if the last part has ended without a solution and the rules
// know one that may find it. Returns the seconds; nothing if the solve has ended.
template <class T>
std::optional<double> SystemSolver<T>::change_method(SystemMatrix<T>& matrix, VectorView<const T> b,
                                                     VectorView<T> x, detail::Numbered& observer,
                                                     Changes changes, const StoppingRule& rule,
                                                     SolveResult& result) {
  Stopwatch clock;
  Sequence& now = *sequence_;
  const LinearOperator<T>& A = matrix.A();
  SolveReport& report = result.report;
  const double since_begin = report.seconds;
  const std::string given_up = now.methods ? now.methods->given_up() : std::string();
  if (report.converged() ||
      (given_up.empty() && (report.reason == StopReason::interrupted ||
                            detail::used_up(rule, report, since_begin) != StopReason::running)))
    return std::nullopt;
  if (report.reason == StopReason::indefinite_preconditioner && now.chosen && now.chosen->asked() != "jacobi")
    return drop_candidate(matrix, b, x, observer, changes, rule, result);
  if (!now.methods) return std::nullopt;
  detail::MethodChanges<T>& methods = *now.methods;

  const std::string detail = report.detail.empty() ? "" : ": " + report.detail;
  detail::MethodEnd end{
      .method = method_,
      .reason = given_up.empty() ? report.reason : StopReason::stagnation,
      .rounding = report.true_residual > 2 * report.recurrence_residual,
      .symmetric = true,
      .symmetric_only = has_null_space(),
      .restart = settings_.solver.restart,
      .how = given_up.empty() ? fmt::format("{}{}", to_string(report.reason), detail) : given_up};
  if (!given_up.empty()) end.rounding = false;
  end.longest = detail::longest_restart(*A.context(), A.rows(), sizeof(T), end.restart);
  // Of most ends the rule knows nothing, whatever the matrix is.
  const auto asked = [&](bool symmetric) {
    end.symmetric = symmetric;
    return methods.rule.after(end);
  };
  std::optional<detail::NextMethod> next = asked(true);
  if (find_solver(method_).symmetric && (next || asked(false))) next = asked(is_still_symmetric(matrix));
  if (!next) return std::nullopt;

  SolveReport first = report;
  const std::string before = method_;
  double seconds = 0;
  const auto go_on = [&] {
    seconds += clock.lap();
    seconds += next_part(matrix, b, x, observer, changes, rule, first, since_begin + seconds, result);
    return seconds;
  };
  methods.note({.iteration = report.iterations,
                .seconds = since_begin,
                .relative_residual = report.true_relative,
                .from = method_,
                .to = std::string(next->method),
                .restart = next->restart,
                .reason = next->reason},
               settings_.on_note);
  methods.rule.note(end, *next);
  try {
    methods.keep(A, rule, x, first);
    method_ = next->method, now.restart = next->restart;
    begin_with_method(matrix, detail::rest_of(rule, first, since_begin), since_begin, result);
    return go_on();
  } catch (const OutOfMemory& error) { methods.refuse(error.what(), settings_.on_note); }
  method_ = before, now.restart = 0;
  methods.bring_back(A, x, first);
  if (!given_up.empty()) {
    methods.watch_no_more();
    return go_on();
  }
  report = std::move(first);
  return std::nullopt;
}

// Preconditioner auto begins anew: what it has measured are iterations of another method.
template <class T>
void SystemSolver<T>::begin_with_method(SystemMatrix<T>& matrix, const StoppingRule& rest, double seconds,
                                        SolveResult& result) {
  solver_.reset(), multi_solver_.reset();
  Sequence& now = *sequence_;
  if (!now.chosen) return;
  if (now.watch) (void)learn_of_change(seconds, result);
  now.choice = new_choice(matrix.A());
  detail::note_tried(now.choice, result.preconditioner_changes);
  now.watch = watch_preconditioner(matrix, rest);
}

// A preconditioner that auto took in earlier solves is not positive definite now.
template <class T>
double SystemSolver<T>::drop_candidate(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                                       detail::Numbered& observer, Changes changes, const StoppingRule& rule,
                                       SolveResult& result) {
  Sequence& now = *sequence_;
  const SolveReport& report = result.report;
  PreconditionerChange change;
  change.action = PreconditionerChange::Action::taken_back;
  change.iteration = report.iterations, change.seconds = report.seconds;
  change.relative_residual = report.true_relative, change.from = now.chosen->taken();
  change.reason =
      fmt::format("{}{}{}", to_string(report.reason), report.detail.empty() ? "" : ": ", report.detail);
  now.choice.refuse(change.reason);
  change.to = now.choice.current();
  if (settings_.on_note) settings_.on_note(detail::text_of(change));
  result.preconditioner_changes.push_back(std::move(change));
  return go_on(matrix, b, x, observer, changes, rule, result);
}

// The solve has ended. Returns whether method auto has changed in it. The method with which it has converged stays
// until there are new values.
template <class T>
bool SystemSolver<T>::learn_of_method(const LinearOperator<T>& A, VectorView<T> x, SolveResult& result) {
  Sequence& now = *sequence_;
  if (!now.methods) return false;
  now.methods->bring_back(A, x, result.report);
  result.method_changes = now.methods->take_changes();
  now.methods.reset();
  const auto last = std::find_if(result.method_changes.rbegin(), result.method_changes.rend(),
                                 [](const auto& one) { return one.action == MethodChange::Action::changed; });
  if (last == result.method_changes.rend()) return false;
  const std::string place = fmt::format("took the place of {} at iteration {}", last->from, last->iteration);
  method_reason_ = fmt::format("{} {}: {}", last->to, place, last->reason);
  if (result.report.converged() && now.seen == A.revision())
    now.learned =
        detail::MethodChoice{find_solver(method_).id,
                             fmt::format("{}: it {} of an earlier solve: {}", last->to, place, last->reason)};
  return true;
}

template <class T>
bool SystemSolver<T>::has_null_space() const noexcept {
  return null_space_.count > 0 || settings_.solver.null_space != SolverOptions().null_space;
}

#define PROTEAN_INSTANTIATE(T)                                                                             \
  template bool SystemSolver<T>::is_still_symmetric(const SystemMatrix<T>&);                               \
  template std::optional<double> SystemSolver<T>::change_method(SystemMatrix<T>&, VectorView<const T>,     \
                                                                VectorView<T>, detail::Numbered&, Changes, \
                                                                const StoppingRule&, SolveResult&);        \
  template double SystemSolver<T>::drop_candidate(SystemMatrix<T>&, VectorView<const T>, VectorView<T>,    \
                                                  detail::Numbered&, Changes, const StoppingRule&,         \
                                                  SolveResult&);                                           \
  template void SystemSolver<T>::begin_with_method(SystemMatrix<T>&, const StoppingRule&, double,          \
                                                   SolveResult&);                                          \
  template bool SystemSolver<T>::learn_of_method(const LinearOperator<T>&, VectorView<T>, SolveResult&);   \
  template bool SystemSolver<T>::has_null_space() const noexcept;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
