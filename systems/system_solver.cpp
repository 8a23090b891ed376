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
#include "systems/preconditioner_change.hpp"
#include "systems/schedule_points.hpp"
#include "systems/seconds.hpp"
#include "systems/sequence.hpp"

namespace protean {
namespace {

// Ends the policy or the schedule of a solve, also where the solve throws.
template <class Observer>
class Finished {
 public:
  explicit Finished(Observer& observer) : observer_(observer) {}
  ~Finished() {
    try {
      observer_.finish();
    } catch (...) {}  // another exception is on its way
  }
  Finished(const Finished&) = delete;
  Finished& operator=(const Finished&) = delete;

 private:
  Observer& observer_;
};

// While it lives the solver is solving.
class Busy {
 public:
  explicit Busy(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Busy() { flag_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

template <class T>
SystemSolver<T>::SystemSolver(SolveSettings settings)
    : settings_(std::move(settings)), sequence_(std::make_unique<Sequence>()) {
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
        settings.method));
}

template <class T>
void SystemSolver<T>::take(SolveSettings&& settings) noexcept {
  Sequence& now = *sequence_;
  const bool other = settings.preconditioner != settings_.preconditioner ||
                     settings.parts != settings_.parts || settings.combine != settings_.combine ||
                     settings.preconditioning != settings_.preconditioning;
  // The choice of type auto was told of both, and has measured iterations of the method.
  const bool measured =
      settings.method != settings_.method ||
      (settings.expected_iterations != settings_.expected_iterations && now.all_iterations == 0);
  settings_ = std::move(settings);
  solver_.reset(), multi_solver_.reset();
  name_method();
  now.iterations = 0, now.ended = StopReason::running;
  now.learned.reset();
  if (other || (now.chosen && measured)) now.serial = 0;
}

template <class T>
void SystemSolver<T>::set(SolveSettings settings) {
  require_idle("set()");
  require(settings);
  take(std::move(settings));
}

template <class T>
void SystemSolver<T>::set_preconditioner(Maker maker) {
  require_idle("set_preconditioner()");
  maker_ = std::move(maker), sequence_->serial = 0;
  sequence_->learned.reset();
}

template <class T>
void SystemSolver<T>::set_null_space(VectorBlock<const T> N) {
  require_idle("set_null_space()");
  if (N.count > 0 && settings_.method != detail::automatic_method && !find_solver(settings_.method).symmetric)
    throw BadArgument(
        fmt::format("a null space is for methods cg, fcg and minres; the method is {}", settings_.method));
  null_space_ = N;
  solver_.reset(), multi_solver_.reset();
}

template <class T>
void SystemSolver<T>::stage(std::string_view what) const {
  if (settings_.on_stage) settings_.on_stage(what);
}

// Where nobody has said how many iterations to expect, the policy stands behind format "auto". It begins in csr at
// once, so a short solve loses nothing.
template <class T>
bool SystemSolver<T>::has_policy(const SolveSettings& settings, const SystemMatrix<T>& matrix) {
  if (settings.policy) return true;
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

// Returns what changes the matrix during the solve.
template <class T>
auto SystemSolver<T>::set_up_matrix(SystemMatrix<T>& matrix, std::int64_t columns) -> Changes {
  if (sequence_->matrix != matrix.serial()) {
    *sequence_ = {};
    sequence_->matrix = matrix.serial();
    before_.check = matrix.check_seconds(), before_.convert = matrix.upload_seconds();
  }
  const SolveForecast expected = forecast(matrix, columns);
  if (settings_.selector != default_selector && !expected.policy && matrix.format_named())
    throw BadArgument(fmt::format(
        "selector {} chooses among formats where format is auto, or where a policy decides; the format of "
        "the matrix was named: leave the selector out, or take format auto",
        settings_.selector));
  const auto seconds = matrix.settle(expected, settings_.on_stage);
  before_.order += seconds.order, before_.convert += seconds.convert;
  choose_method(matrix);
  if (columns == 1 && !solver_) {
    solver_ = make_solver<T>(method_, options_of_method());
    solver_->set_null_space(null_space_);
  }
  if (columns > 1 && !multi_solver_) {
    multi_solver_ = std::make_unique<MultiSolver<T>>(method_, options_of_method());
    multi_solver_->set_null_space(null_space_);
  }
  const Changes changes = expected.policy              ? Changes::policy
                          : settings_.schedule.empty() ? Changes::none
                                                       : Changes::schedule;
  if (changes == Changes::none) return changes;
  if (matrix.in_use()) {
    if (changes == Changes::policy && !settings_.policy) return Changes::none;
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
  {
    const auto lock = matrix.preparing();
    (void)set_up_matrix(matrix, columns);
  }
  sequence_->max_seconds = settings_.solver.stopping.max_seconds, sequence_->used_seconds = 0;
  set_up_preconditioner(matrix);
}

template <class T>
SolveReport SystemSolver<T>::not_begun(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x) {
  class Stop final : public SolveObserver {
   public:
    bool on_iteration(const IterationInfo&) override { return false; }
  } stop;
  const StopReason ended = std::exchange(sequence_->ended, StopReason::running);
  solver_->set_max_seconds(0);
  SolveReport report = solver_->solve(A, b, x, nullptr, ended == StopReason::interrupted ? &stop : nullptr);
  explain_setup(report, ended);
  return report;
}

template <class T>
template <class Result>
void SystemSolver<T>::describe(SystemMatrix<T>& matrix, Result& result) {
  result.format = matrix.format(), result.kernel = matrix.kernel(), result.order = matrix.order();
  result.format_reason = matrix.format_reason(), result.choice = matrix.choice();
  result.order_reason = matrix.order_reason();
  result.method = method_, result.method_reason = method_reason_;
  const Sequence& now = *sequence_;
  result.preconditioner = now.chosen ? now.chosen->taken() : M_ ? M_->name() : "none";
  if (now.chosen)
    result.preconditioner_reason =
        now.chosen->refused().empty() ? now.choice.reason() : fmt::format("none: {}", now.chosen->refused());
  const Before seconds = std::exchange(before_, {});
  result.check_seconds = seconds.check, result.order_seconds = seconds.order;
  result.convert_seconds = seconds.convert, result.setup_seconds = seconds.setup;
}

template <class T>
AutoSwitchOptions SystemSolver<T>::options_of_policy(SystemMatrix<T>& matrix, const StoppingRule& rule,
                                                     std::int64_t columns) const {
  AutoSwitchOptions options = switch_options(*matrix.context(), rule, settings_.policy_options);
  options.policy.overlapped = settings_.overlapped.value_or(options.policy.overlapped);
  options.expected_iterations = forecast(matrix, std::max<std::int64_t>(columns, 1)).expected_iterations;
  options.columns = columns;
  options.selector = settings_.selector;
  options.alone = [&matrix](const std::function<void()>& decide) { return matrix.change_alone(decide); };
  // A format that is kept serves the solves that follow. How many these are nobody knows: as many as there were.
  // Element matrices with new values are assembled anew, so each solve must pay for itself.
  if (!matrix.of_elements()) options.following_iterations = sequence_->all_iterations;
  return options;
}

// One part of a solve. The observer is that of a schedule, or the caller's.
template <class T>
SolveReport SystemSolver<T>::run(Solver<T>& solver, SystemMatrix<T>& matrix, VectorView<const T> b,
                                 VectorView<T> x, detail::Numbered& observer, Changes changes,
                                 SolveResult& result) {
  const LinearOperator<T>& A = matrix.A();
  SolveObserver* inner = observer.observer();
  if (auto& watch = sequence_->watch)
    inner = watch->begin_part(inner, observer.iterations(), observer.seconds(),
                              solver.options().stopping.max_seconds, x, trial_of(A, b, solver.options()));
  if (auto& methods = sequence_->methods)
    inner = methods->begin_part(inner, method_, solver.options(), has_null_space());
  if (changes != Changes::policy) return solver.solve(A, b, x, used_preconditioner(), inner);
  AutoSwitchOptions options = options_of_policy(matrix, solver.options().stopping);
  // What is expected is of the preconditioner and the method that the solve began with.
  const bool changed = (sequence_->watch && sequence_->watch->in_use()) ||
                       (sequence_->methods && sequence_->methods->changed());
  if (changed)
    options.expected_iterations = 0;
  else if (options.expected_iterations > 0)
    options.expected_iterations =
        std::max<std::int64_t>(options.expected_iterations - observer.iterations(), 1);
  AutoSwitcher<T>& switcher = matrix.begin_policy(settings_.machine, options, inner);
  switcher.on_switch = settings_.on_note;
  SolveReport report;
  {
    const Finished finished(switcher);
    report = solver.solve(A, b, x, used_preconditioner(), &switcher);
  }
  for (DecisionRecord one : switcher.decisions()) {
    one.iteration += observer.iterations(), one.seconds += observer.seconds();
    result.decisions.push_back(std::move(one));
  }
  result.candidates = switcher.candidates();
  return report;
}

template <class T>
SolveResult SystemSolver<T>::solve(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                                   SolveObserver* observer) {
  require_idle("solve()");
  const Busy busy(busy_);
  if (!observer) observer = settings_.observer;
  auto preparing = matrix.preparing();
  const Changes changes = set_up_matrix(matrix, 1);
  const typename SystemMatrix<T>::Use use(matrix);
  preparing.unlock();
  Sequence& now = *sequence_;
  now.max_seconds = settings_.solver.stopping.max_seconds, now.used_seconds = 0;
  // set_up() may have ended already.
  if (now.ended == StopReason::running) set_up_preconditioner(matrix);
  const bool ended = now.ended != StopReason::running;
  // The setup counts.
  solver_->set_max_seconds(std::max(now.max_seconds - before_.setup, 0.0));
  stage("solving");
  SolveResult result;
  // Another solve that changes the matrix writes its history.
  const Matrix<T>* const adaptive = changes == Changes::none ? nullptr : matrix.adaptive();
  const std::size_t switches = adaptive ? adaptive->history().size() : 0,
                    failures = adaptive ? adaptive->failures().size() : 0;
  result.policy = changes == Changes::policy;
  std::optional<FormatSchedule<T>> schedule;
  if (changes == Changes::schedule)
    schedule.emplace(*matrix.adaptive(), detail::with_entries(settings_.schedule), observer,
                     settings_.on_event);
  detail::Numbered numbered(schedule ? &*schedule : observer);
  const StoppingRule rule = solver_->options().stopping;
  now.watch = ended ? nullptr : watch_preconditioner(matrix, rule);
  const bool automatic = !ended && settings_.method == detail::automatic_method;
  now.methods = automatic ? std::make_unique<detail::MethodChanges<T>>(
                                matrix.A(), [this, &matrix] { return !is_still_symmetric(matrix); })
                          : nullptr;
  Stopwatch clock;
  double seconds = 0;
  bool renewed = false;
  // A policy counts the iterations of each part from 0.
  std::size_t seen_switches = switches, seen_failures = failures;
  const auto keep_history = [&] {
    if (!adaptive) return;
    const std::int64_t before = changes == Changes::policy ? numbered.iterations() : 0;
    for (SwitchRecord one : adaptive->history().subspan(seen_switches)) {
      one.iteration += before, one.begun_iteration += before;
      result.switches.push_back(std::move(one));
    }
    for (FailedSwitch one : adaptive->failures().subspan(seen_failures)) {
      one.iteration += before;
      result.failed_switches.push_back(std::move(one));
    }
    seen_switches = adaptive->history().size(), seen_failures = adaptive->failures().size();
  };
  {
    std::optional<Finished<FormatSchedule<T>>> finished;
    if (schedule) finished.emplace(*schedule);
    result.report =
        ended ? not_begun(matrix.A(), b, x) : run(*solver_, matrix, b, x, numbered, changes, result);
    matrix.context()->synchronize();
    seconds = clock.lap();
    while (!ended && !numbered.stopped()) {
      if (now.watch && now.watch->goes_on(result.report)) {
        keep_history();
        seconds += change_preconditioner(matrix, b, x, numbered, changes, rule, result);
      } else if (!renewed && detail::broke_down(result.report) && has_old_preconditioner(matrix.A())) {
        renewed = true;
        keep_history();
        seconds += go_on(matrix, b, x, numbered, changes, rule, result);
      } else {
        keep_history();
        const auto more = change_method(matrix, b, x, numbered, changes, rule, result);
        if (!more) break;
        seconds += *more;
      }
    }
  }
  keep_history();
  if (schedule) result.events = schedule->events();
  if (now.watch) (void)learn_of_change(seconds, result);
  now.watch.reset();
  const bool other_method = learn_of_method(matrix.A(), x, result);
  const bool changed = other_method || !result.preconditioner_changes.empty();
  describe(matrix, result);
  if (!ended) remember({&result.report, 1}, seconds, renewed, changed);
  return result;
}

// The tail of all solves: what later ones are told of this one. renewed: M was set up in the middle of it, so that it
// is no measure for M. changed: so it is if type auto has changed, of which learn_of_change() has told the choice, or
// if method auto has.
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
  now.choice.note_solve(all, seconds, converged, std::ssize(columns));
}

template <class T>
MultiSolveResult SystemSolver<T>::multi_solve(SystemMatrix<T>& matrix, MultiVectorView<const T> B,
                                              MultiVectorView<T> X, MultiSolveObserver* observer,
                                              std::span<const StoppingRule> rules) {
  require_idle("multi_solve()");
  const Busy busy(busy_);
  if (settings_.observer)
    throw BadArgument(
        "the observer of the settings is for one right-hand side; give an observer of columns to multi_solve(), or "
        "solve the columns one after another");
  auto preparing = matrix.preparing();
  const Changes changes = set_up_matrix(matrix, std::max<std::int64_t>(B.columns, 2));
  const typename SystemMatrix<T>::Use use(matrix);
  preparing.unlock();
  Sequence& now = *sequence_;
  now.used_seconds = 0, now.max_seconds = rules.empty() ? settings_.solver.stopping.max_seconds : 0;
  for (const StoppingRule& rule : rules) now.max_seconds = std::max(now.max_seconds, rule.max_seconds);
  if (now.ended == StopReason::running) set_up_preconditioner(matrix);
  // What the setup has left of the time. Without a limit the rules are those that were given.
  std::vector<StoppingRule> left;
  if (std::isfinite(now.max_seconds) || now.ended != StopReason::running) {
    left.assign(rules.begin(), rules.end());
    if (rules.empty()) left.assign(static_cast<std::size_t>(B.columns), settings_.solver.stopping);
    for (StoppingRule& rule : left) rule.max_seconds = std::max(rule.max_seconds - before_.setup, 0.0);
    rules = left;
  }
  stage("solving");
  MultiSolveResult result;
  MultiSolveReport& report = result.report;
  result.policy = changes == Changes::policy;
  std::optional<FormatSchedule<T>> schedule;
  std::optional<detail::SlowestColumn> slowest;
  AutoSwitcher<T>* policy = nullptr;
  const Matrix<T>* const adaptive = changes == Changes::none ? nullptr : matrix.adaptive();
  const std::size_t switches = adaptive ? adaptive->history().size() : 0,
                    failures = adaptive ? adaptive->failures().size() : 0;
  if (changes == Changes::schedule) {
    schedule.emplace(*matrix.adaptive(), detail::with_entries(settings_.schedule), nullptr,
                     settings_.on_event);
    observer = &slowest.emplace(*schedule, observer);
  }
  std::optional<Finished<FormatSchedule<T>>> finished;
  if (schedule) finished.emplace(*schedule);
  std::optional<Finished<AutoSwitcher<T>>> decided;
  double seconds_before = 0;  // of earlier parts of the solve
  const auto end_part = [&] {
    decided.reset();
    for (DecisionRecord one : policy->decisions()) {
      one.seconds += seconds_before;
      result.decisions.push_back(std::move(one));
    }
    result.candidates = policy->candidates();
  };
  const auto keep_history = [&] {
    if (!adaptive) return;
    finished.reset();
    if (schedule) result.events = schedule->events();
    if (policy) end_part();
    const auto changed = adaptive->history().subspan(switches);
    result.switches.assign(changed.begin(), changed.end());
    const auto failed = adaptive->failures().subspan(failures);
    result.failed_switches.assign(failed.begin(), failed.end());
  };
  if (const StopReason ended = std::exchange(now.ended, StopReason::running); ended != StopReason::running) {
    class Stop final : public MultiSolveObserver {
     public:
      bool on_iteration(const MultiIterationInfo&) override { return false; }
    } stop;
    for (StoppingRule& rule : left) rule.max_seconds = 0;
    MultiSolveObserver* const none = nullptr;
    report = multi_solver_->solve(matrix.A(), B, X, nullptr, ended == StopReason::interrupted ? &stop : none,
                                  left);
    for (SolveReport& column : report.columns) explain_setup(column, ended);
    matrix.context()->synchronize();
    keep_history();
    describe(matrix, result);
    return result;
  }
  // Of a policy: its rule has the goal that SlowestColumn shows, and the limits of the whole solve.
  const auto begin_part = [&](std::int64_t columns) {
    StoppingRule rule = rules.empty() ? settings_.solver.stopping : rules.front();
    for (const StoppingRule& one : rules)
      rule.max_iterations = std::max(rule.max_iterations, one.max_iterations);
    rule.relative_tolerance = 1, rule.absolute_tolerance = 0;
    policy = &matrix.begin_policy(
        settings_.machine, options_of_policy(matrix, rule, std::max<std::int64_t>(columns, 1)), nullptr);
    policy->on_switch = settings_.on_note;
    decided.emplace(*policy);
  };
  std::function<void(std::int64_t, double)> next_part;
  if (changes == Changes::policy) {
    begin_part(B.columns);
    std::vector<StoppingRule> all(rules.begin(), rules.end());
    if (rules.empty()) all.assign(static_cast<std::size_t>(B.columns), settings_.solver.stopping);
    observer = &slowest.emplace(*policy, observer, std::move(all),
                                [&](std::int64_t running) { policy->columns_left(running); });
    next_part = [&](std::int64_t columns, double since_begin) {
      end_part();
      seconds_before = since_begin;
      begin_part(columns);
    };
  }
  detail::NumberedColumns numbered(observer, has_old_preconditioner(matrix.A()));
  Stopwatch clock;
  report = multi_solver_->solve(matrix.A(), B, X, used_preconditioner(), numbered.observer(), rules);
  matrix.context()->synchronize();
  double seconds = clock.lap();
  const bool broke = std::any_of(report.columns.begin(), report.columns.end(), detail::broke_down);
  const bool renewed = broke && has_old_preconditioner(matrix.A()) && !numbered.stopped();
  if (renewed) seconds += go_on(matrix, B, X, numbered, rules, report, next_part);
  keep_history();
  describe(matrix, result);
  remember(report.columns, seconds, renewed, false);
  return result;
}

// As for one right-hand side, with the columns that have broken down, and those that have therefore ended with them.
template <class T>
double SystemSolver<T>::go_on(SystemMatrix<T>& matrix, MultiVectorView<const T> B, MultiVectorView<T> X,
                              detail::NumberedColumns& observer, std::span<const StoppingRule> rules,
                              MultiSolveReport& report,
                              const std::function<void(std::int64_t, double)>& next_part) {
  const auto rule_of = [&](std::size_t c) -> const StoppingRule& {
    return rules.empty() ? settings_.solver.stopping : rules[c];
  };
  std::vector<std::size_t> left;
  for (std::size_t c = 0; c < report.columns.size(); ++c)
    if (detail::broke_down(report.columns[c]) || report.columns[c].reason == StopReason::interrupted)
      left.push_back(c);
  double since_begin = report.seconds;
  const auto end_used_up = [&] {
    std::erase_if(left, [&](std::size_t c) {
      SolveReport& one = report.columns[c];
      const StopReason limit = detail::used_up(rule_of(c), one, since_begin);
      if (limit == StopReason::running) return false;
      one = detail::ended_by(limit, rule_of(c), std::move(one), since_begin);
      return true;
    });
  };
  end_used_up();
  if (left.empty()) return 0;
  Sequence& now = *sequence_;
  now.used_seconds = since_begin;
  since_begin += set_up_preconditioner(matrix, true);
  // Where the setup was ended, so are the columns that waited for it.
  if (const StopReason ended = std::exchange(now.ended, StopReason::running); ended != StopReason::running) {
    for (const std::size_t c : left)
      report.columns[c] = detail::ended_by(ended, rule_of(c), std::move(report.columns[c]), since_begin);
    return 0;
  }
  end_used_up();
  if (left.empty()) return 0;
  stage("solving");

  const auto k = std::ssize(left);
  std::vector<ColumnPair> there, back;
  std::vector<StoppingRule> rests;
  std::vector<double> baselines;
  for (const std::size_t c : left) {
    const auto from = static_cast<std::int32_t>(c), to = static_cast<std::int32_t>(there.size());
    there.push_back({from, to}), back.push_back({to, from});
    rests.push_back(detail::rest_of(rule_of(c), report.columns[c], since_begin));
    baselines.push_back(detail::baseline_of(rule_of(c), report.columns[c]));
  }
  const ContextPtr& context = matrix.context();
  MultiVector<T> b(context, B.rows, k), x(context, B.rows, k);
  copy_columns<T>(*context, B, b, there);
  copy_columns<T>(*context, MultiVectorView<const T>(X), x, there);
  observer.go_on(report.iterations, since_begin, left, std::move(baselines));
  if (next_part) next_part(k, since_begin);
  Stopwatch clock;
  MultiSolveReport second =
      multi_solver_->solve(matrix.A(), b, x, used_preconditioner(), observer.observer(), rests);
  copy_columns<T>(*context, MultiVectorView<const T>(x), X, back);
  context->synchronize();
  const double seconds = clock.lap();
  for (std::size_t i = 0; i < left.size(); ++i) {
    SolveReport &one = report.columns[left[i]], &then = second.columns[i];
    const double ended = since_begin + then.seconds;
    one = detail::joined(rule_of(left[i]), one, std::move(then), ended);
    report.iterations = std::max(report.iterations, one.iterations);
  }
  report.products += second.products, report.seconds = since_begin + second.seconds;
  report.product = second.product, report.preconditioner = second.preconditioner;
  return seconds;
}

template class SystemSolver<float>;
template class SystemSolver<double>;

}  // namespace protean
