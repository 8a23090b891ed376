#include "systems/linear_system.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "operators/policy/policy_options.hpp"
#include "operators/rows.hpp"
#include "preconditioners/choice.hpp"
#include "preconditioners/chosen.hpp"
#include "preconditioners/options.hpp"
#include "solvers/options.hpp"
#include "systems/method_choice.hpp"
#include "systems/refresh.hpp"
#include "systems/seconds.hpp"

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

ContextPtr context_of(const SolveSettings& settings, Space space) {
  if (settings.context) return settings.context;
  if (space != Space::host)
    throw BadArgument("the matrix lies in device memory; give its context in SolveSettings::context");
  return Context::host();
}

void require_preconditioner(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const PreconditionerEntry& entry : preconditioners()) {
    ids.push_back(entry.id);
    if (entry.id == id && !entry.unavailable.empty())
      throw NotAvailable(fmt::format("preconditioner {}: {}", id, entry.unavailable));
  }
  if (std::find(ids.begin(), ids.end(), id) == ids.end())
    throw BadArgument(fmt::format("there is no preconditioner '{}'; there are {}.{}", id,
                                  fmt::join(ids, ", "), did_you_mean(id, ids)));
}

void require_preconditioner(const SolveSettings& settings) {
  if (!settings.parts.empty()) {
    for (const PreconditionerPart& part : settings.parts) require_preconditioner(part.id);
    return;
  }
  require_preconditioner(settings.preconditioner);
  check_options(preconditioner_options(), settings.preconditioning);
  require_read(preconditioner_options(), settings.preconditioning, "preconditioner", settings.preconditioner);
}

}  // namespace

void check(const SolveSettings& settings) {
  if (settings.method == detail::automatic_method) {
    check_options(solver_options(), settings.solver);
    require_read(solver_options(), settings.solver, "method", settings.method);
  } else {
    (void)make_solver<double>(settings.method, settings.solver);
  }
  require_preconditioner(settings);
  if (settings.policy && !settings.schedule.empty())
    throw BadArgument("policy and schedule exclude each other; take one of them");
  if (settings.policy)
    check_policy(settings.policy_options);
  else
    require_no_policy(settings.policy_options);
  if (settings.format != "auto") (void)resolve_params(find_format(settings.format), settings.parameters);
  require_order(settings.order);
  for (const SchedulePoint& point : settings.schedule)
    if (!point.to.order.empty()) require_order(point.to.order, false);
  if (settings.expected_iterations < 0)
    throw BadArgument(
        fmt::format("expected_iterations is {}; it must be 0 or more", settings.expected_iterations));
  require_selector(settings.selector);
  if (settings.selector != default_selector && settings.format != "auto" && !settings.policy)
    throw BadArgument(
        fmt::format("selector {} chooses among formats where format is auto, or where a policy decides; the "
                    "format is {}: leave the selector out, or take format auto",
                    settings.selector, settings.format));
}

// What earlier solves of one matrix took, for the forecasts of later ones and for the preconditioner.
template <class T>
struct SystemSolver<T>::Sequence {
  std::uint64_t matrix = 0;     // SystemMatrix::serial()
  std::int64_t iterations = 0;  // of the last solve that converged
  double all_iterations = 0;    // of all solves
  // Of method auto: what was seen of the matrix, with these values.
  std::optional<detail::MethodTraits> traits;
  Revision seen;
  // The preconditioner.
  std::uint64_t serial = 0;  // of the operator it was made for
  Revision revision;         // that was seen last
  bool renew = false;        // it must be set up whatever its age is
  detail::RefreshRule refresh;
  detail::PreconditionerChoice choice;  // of type auto
  detail::Chosen<T>* chosen = nullptr;  // the preconditioner, where its type is auto
};

template <class T>
SystemSolver<T>::SystemSolver(SolveSettings settings)
    : settings_(std::move(settings)), sequence_(std::make_unique<Sequence>()) {
  check(settings_);
  name_method();
}

template <class T>
SystemSolver<T>::~SystemSolver() = default;

template <class T>
void SystemSolver<T>::set(SolveSettings settings) {
  check(settings);
  const bool other = settings.preconditioner != settings_.preconditioner ||
                     settings.parts != settings_.parts || settings.combine != settings_.combine ||
                     settings.preconditioning != settings_.preconditioning;
  settings_ = std::move(settings);
  solver_.reset(), multi_solver_.reset();
  name_method();
  sequence_->iterations = 0;
  if (other) sequence_->serial = 0;
}

// Until auto has seen a matrix, it is cg.
template <class T>
void SystemSolver<T>::name_method() {
  const bool automatic = settings_.method == detail::automatic_method;
  method_ = automatic ? "cg" : settings_.method;
  method_reason_.clear();
}

template <class T>
void SystemSolver<T>::set_preconditioner(Maker maker) {
  maker_ = std::move(maker), sequence_->serial = 0;
}

template <class T>
void SystemSolver<T>::set_null_space(VectorBlock<const T> N) {
  null_space_ = N;
  if (solver_) solver_->set_null_space(N);
}

template <class T>
void SystemSolver<T>::stage(std::string_view what) const {
  if (settings_.on_stage) settings_.on_stage(what);
}

// Where nobody has said how many iterations to expect, the policy stands behind format "auto". It begins in csr at
// once, so a short solve loses nothing.
template <class T>
bool SystemSolver<T>::has_policy(const SystemMatrix<T>& matrix) const {
  if (settings_.policy) return true;
  return settings_.schedule.empty() && settings_.expected_iterations == 0 && matrix.may_begin_in_csr();
}

template <class T>
SolveForecast SystemSolver<T>::forecast(const SystemMatrix<T>& matrix, std::int64_t columns) const {
  return {.products_per_iteration = static_cast<double>(find_solver(method_).products),
          .expected_iterations =
              settings_.expected_iterations > 0 ? settings_.expected_iterations : sequence_->iterations,
          .several_columns = columns > 1,
          .policy = columns == 1 && has_policy(matrix),
          .machine = settings_.machine,
          .selector = settings_.selector};
}

template <class T>
void SystemSolver<T>::set_up_preconditioner(SystemMatrix<T>& matrix) {
  stage("setting up");
  Stopwatch clock;
  renew_preconditioner(matrix.A());
  matrix.context()->synchronize();
  before_.setup += clock.lap();
}

template <class T>
void SystemSolver<T>::renew_preconditioner(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  if (now.serial != A.serial()) {
    now.serial = 0, now.chosen = nullptr;
    M_ = maker_ ? maker_(A)
         : !settings_.parts.empty()
             ? make_composition<T>(A, settings_.parts, settings_.combine)
             : make_preconditioner<T>(settings_.preconditioner, A, settings_.preconditioning);
    now.serial = A.serial(), now.renew = true;
    now.chosen = dynamic_cast<detail::Chosen<T>*>(M_.get());
    const bool symmetric = make_solver<double>(method_)->needs_symmetric_preconditioner();
    if (now.chosen) now.chosen->require_definite(symmetric);
    now.choice = detail::PreconditionerChoice(
        {.space = A.context()->space(),
         .needs_symmetric = symmetric,
         .expected = settings_.preconditioning.solves,
         .iterations = settings_.expected_iterations,
         .deterministic = A.context()->deterministic(),
         .near_null_space = settings_.preconditioning.near_null_space != nullptr});
  }
  if (!M_) return;
  const Revision revision = A.revision();
  if (revision.pattern != now.revision.pattern) now.renew = true;
  if (revision.values != now.revision.values) now.refresh.note_new_values();
  now.revision = revision;
  if (now.chosen) choose_preconditioner(A);
  if (!now.renew && !now.refresh.due(refresh())) return;
  Stopwatch clock;
  ensure_preconditioner(A);
  A.context()->synchronize();
  const double seconds = clock.lap();
  now.refresh.note_setup(seconds), now.choice.note_setup(seconds);
  now.renew = false;
  if (now.chosen && now.choice.on_trial()) measure_application(A);
}

// Null also if auto takes none, so that no vector is copied for it.
template <class T>
const Preconditioner<T>* SystemSolver<T>::used_preconditioner() const noexcept {
  const detail::Chosen<T>* const chosen = sequence_->chosen;
  return chosen && !chosen->refused().empty() ? nullptr : M_.get();
}

// Of a candidate of type auto, which goes if that takes too long.
template <class T>
void SystemSolver<T>::measure_application(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  const ContextPtr& context = A.context();
  Stopwatch clock;
  try {
    Vector<T> r(context, A.rows()), z(context, A.rows());
    fill<T>(*context, T(1), r.view());
    M_->apply(r, z.view());  // the first one may prepare something
    context->synchronize();
    double all = clock.lap();
    M_->apply(r, z.view());
    context->synchronize();
    const double seconds = clock.lap();
    all += seconds;
    now.choice.note_application(seconds, all);
  } catch (const OutOfMemory&) { return; }
  if (now.choice.current() == now.chosen->asked()) return;
  now.chosen->take(now.choice.current(), A);
  ensure_preconditioner(A);
  context->synchronize();
  const double setup = clock.lap();
  now.refresh.note_setup(setup), now.choice.note_setup(setup);
}

// Of a composition the one that asks for setups most often.
template <class T>
Refresh SystemSolver<T>::refresh() const {
  if (settings_.parts.empty() || maker_) {
    const Refresh asked = settings_.preconditioning.refresh;
    if (asked != Refresh::automatic) return asked;
    return sequence_->chosen ? Refresh::when_slower : Refresh::every;
  }
  Refresh often = Refresh::never;
  for (const PreconditionerPart& part : settings_.parts) {
    const Refresh asked = part.options.refresh;
    often = std::min(often, asked == Refresh::automatic ? Refresh::every : asked);
  }
  return often;
}

// Of type auto: another preconditioner, where its rule says so.
template <class T>
void SystemSolver<T>::choose_preconditioner(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  const std::string_view id = now.choice.decide([&]() -> detail::ChoiceTraits {
    if (!A.abilities().rows) return {.entries = false};
    const bool on_host = A.context()->space() == Space::host;
    if (!on_host)
      if (const std::optional<CsrMatrix<T>> csr = csr_of(A); csr && csr->pattern.space == Space::device)
        return detail::sampled_traits<T>(*A.context(), *csr);
    const ContextPtr host = on_host ? A.context() : Context::host();
    return detail::choice_traits<T>(*host, rows_on_host(A, host, "auto"));
  });
  if (id == now.chosen->asked()) return;
  now.chosen->take(id, A);
  now.renew = true;
}

template <class T>
void SystemSolver<T>::ensure_preconditioner(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  if (!now.chosen || now.chosen->asked() == "jacobi") return M_->ensure(A);
  const auto go_back = [&](const Error& error) {
    now.choice.refuse(error.what());
    now.chosen->take("jacobi", A);
    M_->ensure(A);
  };
  // What a candidate refuses jacobi may take; the reason says so.
  try {
    M_->ensure(A);
  } catch (const BadMatrix& error) { go_back(error); } catch (const OutOfMemory& error) {
    go_back(error);
  } catch (const NotAvailable& error) { go_back(error); } catch (const BadArgument& error) {
    go_back(error);
  }
}

// Of method auto. Entries are looked at once for each set of values.
template <class T>
void SystemSolver<T>::choose_method(const SystemMatrix<T>& matrix, std::int64_t columns) {
  if (settings_.method != detail::automatic_method) return;
  Sequence& now = *sequence_;
  const LinearOperator<T>& A = matrix.A();
  if (A.rows() != A.cols()) return;  // the solve refuses it
  if (!now.traits || now.seen != A.revision()) {
    const CsrMatrix<T>& csr = matrix.given();
    const bool entries = !matrix.of_elements() && !matrix.of_operator();
    // Arrays in host memory are looked at there.
    const ContextPtr near =
        csr.pattern.space == matrix.context()->space() ? matrix.context() : Context::host();
    now.traits = entries && is_sorted(*near, csr.pattern)
                     ? detail::method_traits<T>(*near, csr)
                     : detail::method_traits<T>(A, matrix.known_symmetric());
    now.seen = A.revision();
  }
  take_method(detail::choose_method(*now.traits, columns > 1, unsymmetric_preconditioner()));
}

template <class T>
void SystemSolver<T>::take_method(detail::MethodChoice choice) {
  method_reason_ = std::move(choice.reason);
  if (method_ == choice.method) return;
  method_ = choice.method;
  solver_.reset(), multi_solver_.reset();
  sequence_->serial = 0;  // what a preconditioner may be depends on the method
}

template <class T>
std::string_view SystemSolver<T>::unsymmetric_preconditioner() const {
  if (maker_) return M_ && !M_->symmetric() ? M_->name() : std::string_view();
  return detail::unsymmetric_preconditioner(settings_.preconditioner, settings_.parts, settings_.combine);
}

// Those that it reads. Of method auto, an option may be for a method that was not taken.
template <class T>
SolverOptions SystemSolver<T>::options_of_method() const {
  if (settings_.method != detail::automatic_method) return settings_.solver;
  const SolverOptions options = options_read_by(method_, settings_.solver);
  if (options.null_space != settings_.solver.null_space)
    throw BadArgument(
        fmt::format("null_space {} is for methods cg, fcg and minres, and auto takes {}; leave it out, or "
                    "name one of them",
                    settings_.solver.null_space, method_reason_));
  return options;
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
  choose_method(matrix, columns);
  if (columns == 1 && !solver_) {
    solver_ = make_solver<T>(method_, options_of_method());
    solver_->set_null_space(null_space_);
  }
  if (columns > 1 && !multi_solver_)
    multi_solver_ = std::make_unique<MultiSolver<T>>(method_, options_of_method());
  if (columns > 1) return Changes::none;
  const Changes changes = expected.policy              ? Changes::policy
                          : settings_.schedule.empty() ? Changes::none
                                                       : Changes::schedule;
  if (changes == Changes::none) return changes;
  if (matrix.in_use()) {
    if (changes == Changes::policy && !settings_.policy) return Changes::none;
    throw BadArgument(
        "a solve is running with this matrix, so that another one cannot change its format and order; "
        "leave policy "
        "and schedule out of it");
  }
  (void)matrix.make_adaptive();
  return changes;
}

template <class T>
void SystemSolver<T>::set_up(SystemMatrix<T>& matrix, std::int64_t columns) {
  {
    const auto lock = matrix.preparing();
    (void)set_up_matrix(matrix, columns);
  }
  set_up_preconditioner(matrix);
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
SolveReport SystemSolver<T>::run(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                                 SolveObserver* observer, Changes changes, SolveResult& result) {
  const LinearOperator<T>& A = matrix.A();
  if (changes == Changes::none) return solver_->solve(A, b, x, used_preconditioner(), observer);
  if (changes == Changes::policy) {
    AutoSwitchOptions options =
        switch_options(*matrix.context(), settings_.solver.stopping, settings_.policy_options);
    options.policy.overlapped = settings_.overlapped.value_or(options.policy.overlapped);
    options.expected_iterations = forecast(matrix, 1).expected_iterations;
    options.selector = settings_.selector;
    options.alone = [&matrix](const std::function<void()>& decide) { return matrix.change_alone(decide); };
    // A format that is kept serves the solves that follow. How many these are nobody knows: as many as there were.
    // Element matrices with new values are assembled anew, so each solve must pay for itself.
    if (!matrix.of_elements()) options.following_iterations = sequence_->all_iterations;
    AutoSwitcher<T>& switcher = matrix.begin_policy(settings_.machine, options, observer);
    switcher.on_switch = settings_.on_note;
    SolveReport report;
    {
      const Finished finished(switcher);
      report = solver_->solve(A, b, x, used_preconditioner(), &switcher);
    }
    result.decisions.assign(switcher.decisions().begin(), switcher.decisions().end());
    result.candidates = switcher.candidates();
    return report;
  }
  FormatSchedule<T> schedule(*matrix.adaptive(), settings_.schedule, observer, settings_.on_event);
  SolveReport report;
  {
    const Finished finished(schedule);
    report = solver_->solve(A, b, x, used_preconditioner(), &schedule);
  }
  result.events = schedule.events();
  return report;
}

template <class T>
SolveResult SystemSolver<T>::solve(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                                   SolveObserver* observer) {
  if (!observer) observer = settings_.observer;
  auto preparing = matrix.preparing();
  const Changes changes = set_up_matrix(matrix, 1);
  const typename SystemMatrix<T>::Use use(matrix);
  preparing.unlock();
  set_up_preconditioner(matrix);
  stage("solving");
  SolveResult result;
  // Another solve that changes the matrix writes its history.
  const AdaptiveOperator<T>* const adaptive = changes == Changes::none ? nullptr : matrix.adaptive();
  const std::size_t switches = adaptive ? adaptive->history().size() : 0,
                    failures = adaptive ? adaptive->failures().size() : 0;
  result.policy = changes == Changes::policy;
  Stopwatch clock;
  result.report = run(matrix, b, x, observer, changes, result);
  if (is_too_old(result.report)) {
    // New values may make an old M useless, as that of amg where entries have grown. A new one goes on from x.
    const SolveReport before = result.report;
    sequence_->renew = true;
    set_up_preconditioner(matrix);
    stage("solving");
    result.report = run(matrix, b, x, observer, changes, result);
    result.report.iterations += before.iterations, result.report.restarts += before.restarts + 1;
    result.report.seconds += before.seconds;
  }
  matrix.context()->synchronize();
  const double seconds = clock.lap();
  if (adaptive) {
    const auto made = adaptive->history().subspan(switches);
    result.switches.assign(made.begin(), made.end());
    const auto failed = adaptive->failures().subspan(failures);
    result.failed_switches.assign(failed.begin(), failed.end());
  }
  describe(matrix, result);
  remember(result.report, seconds);
  return result;
}

// Whether the solve broke down with a preconditioner of old values.
template <class T>
bool SystemSolver<T>::is_too_old(const SolveReport& report) const {
  const bool broken =
      report.reason == StopReason::breakdown || report.reason == StopReason::indefinite_preconditioner;
  return broken && M_ && sequence_->refresh.old();
}

template <class T>
void SystemSolver<T>::remember(const SolveReport& report, double seconds) {
  Sequence& now = *sequence_;
  now.all_iterations += static_cast<double>(report.iterations);
  if (report.converged() && report.iterations > 0) now.iterations = report.iterations;
  if (report.reason == StopReason::interrupted) return;
  now.refresh.note_solve(report.iterations, seconds, report.converged());
  now.choice.note_solve(report.iterations, seconds, report.converged());
}

template <class T>
MultiSolveResult SystemSolver<T>::multi_solve(SystemMatrix<T>& matrix, MultiVectorView<const T> B,
                                              MultiVectorView<T> X, MultiSolveObserver* observer,
                                              std::span<const StoppingRule> rules) {
  const char* const what = settings_.policy                ? "a policy"
                           : !settings_.schedule.empty()   ? "a schedule"
                           : settings_.observer != nullptr ? "an observer of one column"
                                                           : nullptr;
  if (what)
    throw BadArgument(fmt::format(
        "{} is for one right-hand side; leave it out, or solve the columns one after another", what));
  auto preparing = matrix.preparing();
  (void)set_up_matrix(matrix, std::max<std::int64_t>(B.columns, 2));
  const typename SystemMatrix<T>::Use use(matrix);
  preparing.unlock();
  set_up_preconditioner(matrix);
  stage("solving");
  MultiSolveResult result;
  result.report = multi_solver_->solve(matrix.A(), B, X, used_preconditioner(), observer, rules);
  matrix.context()->synchronize();
  describe(matrix, result);
  return result;
}

template <class T>
LinearSystem<T>::LinearSystem(CsrMatrix<T> csr, SolveSettings settings)
    : solver_(std::move(settings)),
      matrix_(context_of(solver_.settings(), csr.pattern.space), std::move(csr),
              solver_.settings().check_arrays) {
  const SolveSettings& wanted = solver_.settings();
  matrix_.set_format(wanted.format, wanted.parameters, wanted.kernel);
  matrix_.set_order(wanted.order);
}

template <class T>
LinearSystem<T>::LinearSystem(std::unique_ptr<ElementOperator<T>> elements, SolveSettings settings)
    : solver_(std::move(settings)), matrix_(std::move(elements)) {
  matrix_.set_format(solver_.settings().format, solver_.settings().parameters, solver_.settings().kernel);
  matrix_.set_order(solver_.settings().order);
}

template <class T>
LinearSystem<T>::LinearSystem(std::shared_ptr<LinearOperator<T>> A, SolveSettings settings)
    : solver_(std::move(settings)), matrix_(std::move(A)) {
  matrix_.set_format(solver_.settings().format, solver_.settings().parameters, solver_.settings().kernel);
  matrix_.set_order(solver_.settings().order);
}

template <class T>
void LinearSystem<T>::update_values(const T* values) {
  matrix_.update_values(with_values(matrix_.given(), values), SamePattern());
}

template <class T>
void LinearSystem<T>::set(const SolveSettings& settings) {
  const SolveSettings before = solver_.settings();
  solver_.set(settings);
  if (before.format != settings.format || before.parameters != settings.parameters ||
      before.kernel != settings.kernel)
    matrix_.set_format(settings.format, settings.parameters, settings.kernel);
  if (before.order != settings.order) matrix_.set_order(settings.order);
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
  template class SystemSolver<T>;                                                               \
  template class LinearSystem<T>;                                                               \
  template SolveResult solve<T>(const CsrMatrix<T>&, std::type_identity_t<VectorView<const T>>, \
                                std::type_identity_t<VectorView<T>>, const SolveSettings&);     \
  template MultiSolveResult multi_solve<T>(                                                     \
      const CsrMatrix<T>&, std::type_identity_t<MultiVectorView<const T>>,                      \
      std::type_identity_t<MultiVectorView<T>>, const SolveSettings&, std::span<const StoppingRule>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
