#include "systems/system_solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "operators/policy/policy_options.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/steering_observer.hpp"
#include "systems/continued.hpp"
#include "systems/options.hpp"
#include "systems/preconditioner_change.hpp"
#include "systems/schedule_points.hpp"
#include "systems/seconds.hpp"
#include "systems/sequence.hpp"

namespace protean {

template <class T>
SystemSolver<T>::SystemSolver(SolveSettings settings)
    : settings_(with_names(std::move(settings))), sequence_(std::make_unique<Sequence>()) {
  check(settings_);
  name_method();
}

template <class T>
SystemSolver<T>::~SystemSolver() = default;

template <class T>
void SystemSolver<T>::require_idle(std::string_view what) const {
  if (busy_)
    throw BadArgument(fmt::format(
        "{} was called while the system solves, as by an observer of that solve; call it before or "
        "after the solve",
        what));
}

template <class T>
void SystemSolver<T>::require(const SolveSettings& settings) const {
  check(settings);
  if (null_space_.count > 0 && settings.method != detail::automatic_method &&
      !find_solver(settings.method).symmetric)
    throw BadArgument(fmt::format(
        "the system has a null space, which is for methods cg, fcg and minres; the method is {}: take one of "
        "these, or take the null space back by set_null_space({{}})",
        settings.method.name()));
}

template <class T>
void SystemSolver<T>::take(SolveSettings&& settings) noexcept {
  Sequence& now = *sequence_;
  const bool other = any_differs(Remakes::preconditioner, settings_, settings) ||
                     settings.parts != settings_.parts ||
                     settings.preconditioning != settings_.preconditioning;
  const bool measured = any_differs(Remakes::choice, settings_, settings) ||
                        (now.all_iterations == 0 && any_differs(Remakes::first_choice, settings_, settings));
  settings_ = std::move(settings);
  solver_.reset(), multi_solver_.reset();
  now.over_devices.reset();
  name_method();
  now.iterations = 0, now.ended = StopReason::running;
  now.learned.reset();
  if (other || (now.chosen && measured)) now.serial = 0;
  if (other) now.traits.reset();  // what the preconditioner makes of the matrix
}

template <class T>
void SystemSolver<T>::set(SolveSettings settings) {
  require_idle("set()");
  settings = with_names(std::move(settings));
  require(settings);
  take(std::move(settings));
}

template <class T>
void SystemSolver<T>::set_preconditioner(Maker maker) {
  require_idle("set_preconditioner()");
  maker_ = std::move(maker), sequence_->serial = 0;
  sequence_->learned.reset(), sequence_->traits.reset();
}

template <class T>
void SystemSolver<T>::set_null_space(VectorBlock<const T> N) {
  require_idle("set_null_space()");
  if (N.count > 0 && settings_.method != detail::automatic_method && !find_solver(settings_.method).symmetric)
    throw BadArgument(fmt::format("a null space is for methods cg, fcg and minres; the method is {}",
                                  settings_.method.name()));
  null_space_ = N;
  sequence_->traits.reset();
  solver_.reset(), multi_solver_.reset();
}

template <class T>
void SystemSolver<T>::stage(std::string_view what) const {
  if (settings_.on_stage) settings_.on_stage(what);
}

// If nobody has said how many iterations to expect, the policy stands behind format "auto". It begins in csr at once,
// so a short solve loses nothing.
template <class T>
bool SystemSolver<T>::has_policy(const SolveSettings& settings, const SystemMatrix<T>& matrix) {
  if (settings.policy != "by-format") return settings.policy == "auto";
  return settings.schedule.empty() && settings.expected_iterations == 0 && matrix.may_begin_in_csr();
}

template <class T>
SolveForecast SystemSolver<T>::forecast(const SystemMatrix<T>& matrix, std::int64_t columns) const {
  return {.products_per_iteration = static_cast<double>(find_solver(method_).products),
          .expected_iterations =
              settings_.expected_iterations > 0 ? settings_.expected_iterations : sequence_->iterations,
          .several_columns = columns > 1,
          .policy = has_policy(settings_, matrix),
          .machine = settings_.machine,
          .selector = settings_.selector};
}

template <class T>
void SystemSolver<T>::make_method(std::int64_t columns) {
  if (columns == 1 && !solver_) {
    solver_ = make_solver<T>(method_, options_of_method());
    solver_->set_null_space(null_space_);
  }
  if (columns > 1 && !multi_solver_) {
    multi_solver_ = std::make_unique<MultiSolver<T>>(method_, options_of_method());
    multi_solver_->set_null_space(null_space_);
  }
}

// Returns what changes the matrix during the solve.
template <class T>
auto SystemSolver<T>::set_up_matrix(SystemMatrix<T>& matrix, std::int64_t columns) -> Changes {
  if (sequence_->matrix != matrix.serial()) {
    *sequence_ = {};
    sequence_->matrix = matrix.serial();
    before_.check = matrix.check_seconds(), before_.convert = matrix.upload_seconds();
  }
  sequence_->columns = columns;
  const SolveForecast expected = forecast(matrix, columns);
  if (settings_.selector != default_selector && !expected.policy && matrix.format_named())
    throw BadArgument(fmt::format(
        "selector {} chooses among formats where format is auto, or where a policy decides; the format of "
        "the matrix was named: leave the selector out, or take format auto",
        settings_.selector));
  const auto seconds = matrix.settle(expected, settings_.on_stage);
  before_.order += seconds.order, before_.convert += seconds.convert;
  choose_method(matrix);
  make_method(columns);
  const Changes changes = expected.policy              ? Changes::policy
                          : settings_.schedule.empty() ? Changes::none
                                                       : Changes::schedule;
  // What the policy of an earlier solve has rounded. A schedule says itself what it wants.
  if (matrix.assembled() && matrix.assembled()->rounds_values() && changes != Changes::schedule &&
      !matrix.in_use())
    before_.convert += matrix.undo_rounding(no_rounding(matrix, columns));
  if (changes == Changes::none) return changes;
  if (matrix.in_use()) {
    if (changes == Changes::policy && settings_.policy != "auto") return Changes::none;
    throw BadArgument(
        "a solve is running with this matrix, so that another one cannot change its format and order; leave "
        "policy and schedule out of it");
  }
  (void)matrix.make_adaptive();
  return changes;
}

template <class T>
void SystemSolver<T>::set_up(SystemMatrix<T>& matrix, std::int64_t columns) {
  require_idle("set_up()");
  const Busy busy(busy_);
  if (detail::OverDevices<T>* const devices = sequence_->devices_of(*this)) {
    if (columns != 1) throw BadArgument("several devices take one right-hand side; set up for one column");
    return devices->set_up(matrix, settings_);
  }
  {
    const auto lock = matrix.preparing();
    (void)set_up_matrix(matrix, columns);
  }
  sequence_->max_seconds = settings_.solver.stopping.max_seconds, sequence_->used_seconds = 0;
  set_up_preconditioner(matrix);
}

template <class T>
std::vector<StoppingRule> SystemSolver<T>::set_up_within(SystemMatrix<T>& matrix,
                                                         std::vector<StoppingRule> rules) {
  Sequence& now = *sequence_;
  now.columns = std::max<std::int64_t>(std::ssize(rules), 1);
  now.used_seconds = 0, now.max_seconds = rules.empty() ? settings_.solver.stopping.max_seconds : 0;
  for (const StoppingRule& rule : rules) now.max_seconds = std::max(now.max_seconds, rule.max_seconds);
  if (now.ended == StopReason::running) set_up_preconditioner(matrix);
  for (StoppingRule& rule : rules) rule.max_seconds = std::max(rule.max_seconds - before_.setup, 0.0);
  return rules;
}

template <class T>
void SystemSolver<T>::describe(SystemMatrix<T>& matrix, SolveOutcome& result) {
  result.format = matrix.format(), result.kernel = matrix.kernel(), result.order = matrix.order();
  result.format_reason = matrix.format_reason(), result.choice = matrix.choice();
  result.values = matrix.values(), result.values_reason = matrix.values_reason();
  result.order_reason = matrix.order_reason();
  result.method = method_, result.method_reason = method_reason_;
  const Sequence& now = *sequence_;
  result.preconditioner = now.chosen ? now.chosen->taken() : M_ ? M_->name() : "none";
  if (now.chosen)
    result.preconditioner_reason =
        now.chosen->taken() == "fields"  ? fmt::format("fields: {}", M_->description())
        : !now.chosen->refused().empty() ? fmt::format("none: {}", now.chosen->refused())
        : now.chosen->note().empty()     ? now.choice.reason()
                                         : fmt::format("{}; {}", now.choice.reason(), now.chosen->note());
  else if (M_)
    result.preconditioner_reason = M_->description();
  result.storage_reason = storage_reason();
  const Before seconds = std::exchange(before_, {});
  result.check_seconds = seconds.check, result.order_seconds = seconds.order;
  result.convert_seconds = seconds.convert, result.setup_seconds = seconds.setup;
}

template <class T>
std::string SystemSolver<T>::no_rounding(const SystemMatrix<T>& matrix, std::int64_t columns) const {
  if (settings_.precision == "double") return "precision is double";
  if (sizeof(T) == 4) return "the vectors are in float";
  if (matrix.context()->deterministic())
    return "in deterministic mode the result may not depend on the time of a change";
  if (matrix.of_elements()) return "the system was given as element matrices";
  if (columns > 1) return "several right-hand sides are solved together, which has no reliable updates";
  if (!find_solver(method_).reliable_updates)
    return fmt::format("method {} has no reliable updates", method_);
  return {};
}

template <class T>
AutoSwitchOptions SystemSolver<T>::options_of_policy(SystemMatrix<T>& matrix, const StoppingRule& rule,
                                                     std::int64_t columns) const {
  AutoSwitchOptions options = switch_options(*matrix.context(), rule, settings_.policy_options);
  options.policy.overlapped = settings_.overlapped.value_or(options.policy.overlapped);
  options.expected_iterations = forecast(matrix, std::max<std::int64_t>(columns, 1)).expected_iterations;
  options.columns = columns;
  options.selector = settings_.selector;
  options.rounding = settings_.precision == "auto";
  options.no_rounding = no_rounding(matrix, columns);
  options.alone = [&matrix](const std::function<void()>& decide) { return matrix.change_alone(decide); };
  // A format that is kept serves the solves that follow. How many these are nobody knows: as many as there were.
  // Element matrices with new values are assembled anew, so each solve must pay for itself.
  if (!matrix.of_elements()) options.following_iterations = sequence_->all_iterations;
  return options;
}

// The tail of all solves: what later solves learn from this one. renewed: M was set up in the middle of it, so it says
// nothing about M. changed: nor does it if method auto has changed, or type auto, which learn_of_change() has reported
// to the choice.
template <class T>
void SystemSolver<T>::remember(std::span<const SolveReport> columns, double seconds, bool renewed,
                               bool changed) {
  if (columns.empty()) return;
  Sequence& now = *sequence_;
  std::int64_t longest = 0, all = 0;
  bool converged = true, interrupted = false;
  for (const SolveReport& one : columns) {
    longest = std::max(longest, one.iterations), all += one.iterations;
    converged = converged && one.converged();
    interrupted = interrupted || one.reason == StopReason::interrupted;
  }
  now.all_iterations += static_cast<double>(longest);
  if (converged && longest > 0) now.iterations = longest;
  if (interrupted || changed) return;
  if (!renewed || !converged) now.refresh.note_solve(longest, seconds, converged);
  // Of the types among which the choice chooses.
  if (!now.chosen || now.chosen->taken() != "fields")
    now.choice.note_solve(all, seconds, converged, std::ssize(columns));
}

template class SystemSolver<float>;
template class SystemSolver<double>;

}  // namespace protean
