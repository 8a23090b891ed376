#include "systems/method_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "operators/assembled_matrix.hpp"
#include "solvers/solver.hpp"
#include "systems/run.hpp"

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
  return watches_ && looks_of(method, restart_) && rule.after(slow) ? this : next;
}

template <class T>
bool MethodChanges<T>::on_iteration(const IterationInfo& info) {
  if (next_ && !next_->on_iteration(info)) return false;
  if (!std::exchange(begun_, true)) {
    const double baseline = info.relative_residual > 0 ? info.residual / info.relative_residual : 0;
    slow_.emplace(std::max(stopping_.relative_tolerance * baseline, stopping_.absolute_tolerance),
                  stopping_.max_iterations, *looks_of(method_, restart_));
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
void MethodChanges<T>::keep(const MultiVectorView<T>& X, const ColumnNumbers& columns,
                            std::span<const StoppingRule> rules, std::span<SolveReport> reports) {
  bring_back(X, reports);
  for (const std::size_t c : columns) {
    SolveReport& report = reports[c];
    if (report.true_residual <= report.rhs_norm) continue;
    const ColumnPair zero{-1, static_cast<std::int32_t>(c)};
    copy_columns<T>(*A_.context(), MultiVectorView<const T>(X), X, {&zero, 1});
    report.true_residual = report.rhs_norm;
    const double baseline = baseline_of(rules[c], report);
    report.true_relative = baseline > 0 ? report.rhs_norm / baseline : report.rhs_norm;
  }
  best_.take(A_.context(), X, columns, std::span<const SolveReport>(reports));
  revision_ = A_.revision();
}

template <class T>
void MethodChanges<T>::bring_back(const MultiVectorView<T>& X, std::span<SolveReport> reports) const {
  if (best_.empty() || A_.revision() != revision_) return;
  for (std::size_t i = 0; i < best_.columns().size(); ++i) {
    SolveReport& report = reports[best_.columns()[i]];
    if (report.converged() || report.true_residual <= best_.norms[i].residual) continue;
    best_.bring_back(i, X, report);
    report.true_relative = best_.norms[i].relative;
  }
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

// Of gmres: no more than 200, and no more than there is memory for (basis_of()), unless the caller has set more.
std::int64_t longest_restart(const Context& context, std::int64_t rows, std::size_t bytes_of_entry,
                             std::int64_t restart, std::int64_t columns) {
  constexpr std::int64_t most = 200;
  const std::int64_t wanted = std::max(std::min(most, rows), restart);
  const Basis basis = basis_of(context, rows, bytes_of_entry, wanted, columns);
  return basis.of_gmres <= basis.vectors ? wanted : std::max(basis.vectors - 1, restart);
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

// Preconditioner auto begins anew: what it has measured are iterations of another method.
template <class T>
void SystemSolver<T>::Run::begin_with_method(const ColumnNumbers& columns) {
  of_.solver_.reset(), of_.multi_solver_.reset();
  Sequence& now = *of_.sequence_;
  if (!now.chosen) return;
  if (now.watch) (void)learn_of_change(report.seconds);
  now.choice = of_.new_choice(matrix_.A());
  detail::note_tried(now.choice, outcome_.preconditioner_changes);
  now.watch = watch_preconditioner(columns);
}

// How a column has ended, for the rule. given_up: why the method was given up; empty if it has failed.
template <class T>
detail::MethodEnd SystemSolver<T>::Run::end_of(const SolveReport& one, const std::string& given_up) const {
  const std::string detail = one.detail.empty() ? "" : ": " + one.detail;
  const bool failed = given_up.empty();
  detail::MethodEnd end{.method = of_.method_,
                        .reason = failed ? one.reason : StopReason::stagnation,
                        .rounding = failed && one.true_residual > 2 * one.recurrence_residual,
                        .symmetric = true,
                        .symmetric_only = of_.has_null_space(),
                        .restart = of_.settings_.solver.restart,
                        .how = failed ? fmt::format("{}{}", to_string(one.reason), detail) : given_up};
  end.longest = detail::longest_restart(*matrix_.context(), matrix_.A().rows(), sizeof(T), end.restart,
                                        of_.sequence_->columns);
  return end;
}

// Of most ends the rule knows nothing, whatever the matrix is.
template <class T>
bool SystemSolver<T>::Run::may_follow(const detail::MethodEnd& end) const {
  if (!of_.sequence_->methods) return false;
  const detail::MethodRule& rule = of_.sequence_->methods->rule;
  detail::MethodEnd other = end;
  other.symmetric = false;
  return rule.after(end) || (find_solver(of_.method_).symmetric && rule.after(other));
}

// Goes on with another method, or another preconditioner, if columns of the last part have ended without a solution and
// the rules know one that may find it. Columns that have not ended go on with it, too: what one of them has shown is
// true of the matrix, or of M, which they share. Returns whether it goes on.
template <class T>
bool SystemSolver<T>::Run::change_method() {
  Stopwatch clock;
  Sequence& now = *of_.sequence_;
  ColumnNumbers left =
      columns_of_part([](const SolveReport& one) { return one.reason == StopReason::interrupted; });
  ColumnNumbers failed =
      columns_of_part([](const SolveReport& one) { return detail::has_failed(one.reason); });
  std::erase_if(failed, [&](std::size_t c) {
    return detail::used_up(rules_[c], report.columns[c], report.seconds) != StopReason::running;
  });
  const auto with = [&](const ColumnNumbers& more) {
    left.insert(left.end(), more.begin(), more.end());
    std::sort(left.begin(), left.end());
  };
  const auto indefinite = std::find_if(failed.begin(), failed.end(), [&](std::size_t c) {
    return report.columns[c].reason == StopReason::indefinite_preconditioner;
  });
  if (indefinite != failed.end() && now.chosen && now.chosen->asked() != "jacobi") {
    const SolveReport& first = report.columns[*indefinite];
    std::erase_if(failed, [&](std::size_t c) { return !detail::broke_down(report.columns[c]); });
    with(failed);
    drop_candidate(left, first);
    return true;
  }
  if (!now.methods) return false;
  detail::MethodChanges<T>& methods = *now.methods;
  const std::string given_up = failed.empty() ? methods.given_up() : std::string();
  if (given_up.empty())
    std::erase_if(failed, [&](std::size_t c) { return !may_follow(end_of(report.columns[c], {})); });
  if (failed.empty() && (given_up.empty() || left.empty())) return false;

  const std::size_t first = failed.empty() ? left.front() : failed.front();
  detail::MethodEnd end = end_of(report.columns[first], given_up);
  if (find_solver(of_.method_).symmetric && may_follow(end)) end.symmetric = of_.is_still_symmetric(matrix_);
  const std::optional<detail::NextMethod> next = methods.rule.after(end);
  if (!next) return false;
  // Others may have failed for a reason of their own, with which the next method does not help.
  std::erase_if(failed, [&](std::size_t c) {
    detail::MethodEnd other = end_of(report.columns[c], {});
    other.symmetric = end.symmetric;
    return !methods.rule.after(other);
  });
  with(failed);

  const ColumnNumbers running = failed.empty() ? left : interrupted();
  const std::string before = of_.method_;
  double worst = 0;
  for (const std::size_t c : left) worst = std::max(worst, report.columns[c].true_relative);
  methods.note({.iteration = iterations_of(left),
                .seconds = report.seconds,
                .relative_residual = worst,
                .from = of_.method_,
                .to = std::string(next->method),
                .restart = next->restart,
                .reason = next->reason,
                .columns = std::ssize(left)},
               of_.settings_.on_note);
  methods.rule.note(end, *next);
  const double since_begin = report.seconds;
  const auto go_on = [&](const ColumnNumbers& columns) {
    const double spent = clock.lap();
    seconds_ += spent;
    next_part(columns, since_begin + spent);
    return true;
  };
  try {
    methods.keep(X_, left, rules_, report.columns);
    of_.method_ = next->method, now.restart = next->restart;
    begin_with_method(left);
    return go_on(left);
  } catch (const OutOfMemory& error) { methods.refuse(error.what(), of_.settings_.on_note); }
  of_.method_ = before, now.restart = 0;
  of_.solver_.reset(), of_.multi_solver_.reset();
  methods.bring_back(X_, report.columns);
  if (running.empty()) return false;
  methods.watch_no_more();
  return go_on(running);
}

// A preconditioner that auto took in earlier solves is not positive definite now.
template <class T>
void SystemSolver<T>::Run::drop_candidate(const ColumnNumbers& columns, const SolveReport& first) {
  Sequence& now = *of_.sequence_;
  PreconditionerChange change;
  change.action = PreconditionerChange::Action::taken_back;
  change.iteration = first.iterations, change.seconds = report.seconds;
  change.relative_residual = first.true_relative, change.from = now.chosen->taken();
  change.columns = std::ssize(columns);
  change.reason =
      fmt::format("{}{}{}", to_string(first.reason), first.detail.empty() ? "" : ": ", first.detail);
  now.choice.refuse(change.reason);
  change.to = now.choice.current();
  if (of_.settings_.on_note) of_.settings_.on_note(detail::text_of(change));
  outcome_.preconditioner_changes.push_back(std::move(change));
  renew(columns);
}

// The solve has ended. Returns whether method auto has changed in it. The method with which it has converged stays
// until there are new values.
template <class T>
bool SystemSolver<T>::Run::learn_of_method() {
  Sequence& now = *of_.sequence_;
  if (!now.methods) return false;
  now.methods->bring_back(X_, report.columns);
  outcome_.method_changes = now.methods->take_changes();
  now.methods.reset();
  const auto last = std::find_if(outcome_.method_changes.rbegin(), outcome_.method_changes.rend(),
                                 [](const auto& one) { return one.action == MethodChange::Action::changed; });
  if (last == outcome_.method_changes.rend()) return false;
  of_.solver_.reset(), of_.multi_solver_.reset();  // they have the restart of this solve
  const std::string place = fmt::format("took the place of {} at iteration {}", last->from, last->iteration);
  of_.method_reason_ = fmt::format("{} {}: {}", last->to, place, last->reason);
  if (report.converged() && now.seen == matrix_.A().revision())
    now.learned =
        detail::MethodChoice{find_solver(of_.method_).id,
                             fmt::format("{}: it {} of an earlier solve: {}", last->to, place, last->reason)};
  return true;
}

template <class T>
bool SystemSolver<T>::has_null_space() const noexcept {
  return null_space_.count > 0 || settings_.solver.null_space != SolverOptions().null_space;
}

#define PROTEAN_INSTANTIATE(T)                                                                           \
  template bool SystemSolver<T>::is_still_symmetric(const SystemMatrix<T>&);                             \
  template bool SystemSolver<T>::Run::change_method();                                                   \
  template bool SystemSolver<T>::Run::may_follow(const detail::MethodEnd&) const;                        \
  template detail::MethodEnd SystemSolver<T>::Run::end_of(const SolveReport&, const std::string&) const; \
  template void SystemSolver<T>::Run::drop_candidate(const detail::ColumnNumbers&, const SolveReport&);  \
  template void SystemSolver<T>::Run::begin_with_method(const detail::ColumnNumbers&);                   \
  template bool SystemSolver<T>::Run::learn_of_method();                                                 \
  template bool SystemSolver<T>::has_null_space() const noexcept;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
