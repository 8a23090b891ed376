#include "systems/preconditioner_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "core/background.hpp"
#include "core/blas1.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "operators/known_symmetry.hpp"
#include "operators/multi_product.hpp"
#include "operators/rows.hpp"
#include "preconditioners/options.hpp"
#include "systems/continued.hpp"
#include "systems/seconds.hpp"

namespace protean {

std::string_view to_string(PreconditionerChange::Action action) noexcept {
  switch (action) {
    case PreconditionerChange::Action::changed:
      return "changed";
    case PreconditionerChange::Action::taken_back:
      return "taken back";
    case PreconditionerChange::Action::refused:
      return "refused";
  }
  return "?";
}

namespace detail {

template <class T>
ChoiceTraits choice_traits_of(const LinearOperator<T>& A) {
  constexpr ChoiceTraits none{.entries = false};
  if (!A.abilities().rows) return none;
  try {
    const bool on_host = A.context()->space() == Space::host;
    if (!on_host)
      if (const std::optional<CsrMatrix<T>> csr = csr_of(A); csr && csr->pattern.space == Space::device)
        return sampled_traits<T>(*A.context(), *csr);
    const ContextPtr host = on_host ? A.context() : Context::host();
    const CsrMatrix<T> csr = rows_on_host(A, host, "auto");
    return choice_traits<T>(*host, csr, is_symmetric_matrix(A, *host, csr));
  } catch (const NotAvailable&) { return none; } catch (const OutOfMemory&) {
    return none;
  } catch (const BadArgument&) { return none; }  // a caller's operator without a function for it
}

namespace {

// The relative residual at which the solve ends, which an absolute tolerance may raise when its baseline is known.
ChangeSituation with_goal(ChangeSituation situation, const StoppingRule& rule) {
  situation.goal = rule.relative_tolerance, situation.max_iterations = rule.max_iterations;
  return situation;
}

}  // namespace

std::string text_of(const PreconditionerChange& change) {
  const char* const verb = change.action == PreconditionerChange::Action::changed      ? "goes on with"
                           : change.action == PreconditionerChange::Action::taken_back ? "goes back to"
                                                                                       : "stays with";
  const std::string& to = change.action == PreconditionerChange::Action::refused ? change.from : change.to;
  return fmt::format("iteration {}: preconditioner auto {} {}: {}", change.iteration, verb, to,
                     change.reason);
}

void note_tried(PreconditionerChoice& choice, const std::vector<PreconditionerChange>& changes) {
  for (const PreconditionerChange& one : changes) {
    if (one.action == PreconditionerChange::Action::changed) continue;
    const std::string& tried = one.action == PreconditionerChange::Action::refused ? one.to : one.from;
    choice.note_tried(
        tried, fmt::format("jacobi: {} was tried at iteration {}: {}", tried, one.iteration, one.reason));
  }
}

template <class T>
double application_seconds(const Preconditioner<T>& M, std::int64_t columns) {
  const ContextPtr& context = M.context();
  MultiVector<T> R(context, M.cols(), columns, VectorLayout::interleaved),
      Z(context, M.rows(), columns, VectorLayout::interleaved);
  fill<T>(*context, T(1), VectorView<T>{R.data(), M.cols() * columns, R.space()});
  MultiScratch<T> scratch;
  const auto apply = [&] {
    if (columns == 1)
      M.apply(R.view().column(0), Z.view().column(0));
    else
      multi_apply<T>(M, T(1), R.view(), T(0), Z.view(), &scratch);
    context->synchronize();
  };
  apply();
  Stopwatch clock;
  apply();
  return clock.lap();
}

template <class T>
PreconditionerWatch<T>::PreconditionerWatch(const LinearOperator<T>& A, Chosen<T>& chosen,
                                            const PreconditionerOptions& options,
                                            const ChangeSituation& situation, const StoppingRule& rule,
                                            const PreconditionerChoice& choice)
    : A_(A),
      chosen_(chosen),
      options_(options),
      stopping_(rule),
      revision_(A.revision()),
      situation_(with_goal(situation, rule)),
      rule_(situation_),
      columns_(situation.columns) {
  for (const ChangeCandidate& one : change_candidates())
    if (choice.was_tried(one.id)) rule_.exclude(one.id);
}

template <class T>
SolveObserver* PreconditionerWatch<T>::begin_part(SolveObserver* next, Part part) {
  next_ = next, part_ = std::move(part);
  wanted_ = Next::none;
  rule_.begin_part(Stopwatch::seconds());
  return this;
}

template <class T>
bool PreconditionerWatch<T>::on_iteration(const IterationInfo& info) {
  const double now = Stopwatch::seconds();
  last_ = info;
  if (next_ && !next_->on_iteration(info)) {
    stopped_ = true;
    return false;
  }
  if (!begun_) {
    begun_ = true;
    baseline_ = info.relative_residual > 0 ? info.residual / info.relative_residual : 0;
    if (baseline_ > 0) rule_.raise_goal(stopping_.absolute_tolerance / baseline_);
  }
  // New values in the middle of a solve: what was measured is of another matrix.
  if (baseline_ <= 0 || A_.revision() != revision_) {
    ready_.reset();
    return true;
  }
  const ChangeOrder order = rule_.on_iteration(info.iteration, info.residual / baseline_, now);
  // A clock may take longer than the rule: it is read again only if something else was done since.
  const bool waited = next_ || ready_ || order.step != ChangeStep::go_on;
  const bool goes_on = act(order, info);
  if (waited) rule_.resume(Stopwatch::seconds());
  return goes_on;
}

template <class T>
std::int64_t PreconditionerWatch<T>::next_stop() const noexcept {
  return next_ ? next_->next_stop() : SolveObserver::next_stop();
}

template <class T>
bool PreconditionerWatch<T>::reads_solution(const IterationInfo& info) const noexcept {
  return ready_ || (next_ && next_->reads_solution(info));  // a trial begins from it
}

// Returns whether the present part of the solve goes on.
template <class T>
bool PreconditionerWatch<T>::act(ChangeOrder order, const IterationInfo& info) {
  // It was set up after the last iteration, so that the solver has been asked for x since.
  if (ready_) {
    if (try_out(info)) wanted_ = Next::change;
    if (wanted_ == Next::change || stopped_) return false;
    order = rule_.again();
  }
  for (; order.step != ChangeStep::go_on; order = rule_.again()) {
    if (order.step == ChangeStep::go_back) {
      wanted_ = Next::way_back;
      return false;
    }
    if (order.step == ChangeStep::look) {
      Stopwatch clock;
      ChoiceTraits traits = choice_traits_of(A_);
      rule_.note_traits(traits, clock.lap());
    } else {
      if (set_up(order, info)) return true;
      if (stopped_) return false;
    }
  }
  return true;
}

// Returns whether it is ready for a trial.
template <class T>
bool PreconditionerWatch<T>::set_up(const ChangeOrder& order, const IterationInfo& info) {
  Stopwatch clock;
  const ContextPtr& context = A_.context();
  ready_id_ = order.candidate->id;
  std::string_view end;
  bool too_long = false;
  try {
    PreconditionerOptions options = preconditioner_options_read_by(ready_id_, options_);
    if (order.candidate->for_diffusion && options.unknowns == 1 && !options.near_null_space)
      options.unknowns = rule_.traits().unknowns;
    // The steps that are queued take their time before it.
    context->synchronize();
    const double queued = clock.passed();
    std::unique_ptr<Preconditioner<T>> M;
    {
      const EndableWork endable(*context, [&] {
        const double passed = clock.passed();
        if (stop_asked())
          end = "it was interrupted", stopped_ = true;
        else if (info.seconds + passed >= part_.max_seconds)
          end = "its setup took the rest of max_seconds";
        else if (passed - queued >= order.limit)
          end = "its setup took longer than may be spent on it", too_long = true;
        return !end.empty();
      });
      M = make_preconditioner<T>(ready_id_, A_, options);
      M->ensure(A_);
      context->synchronize();
    }
    const double setup = clock.passed() - queued;
    const double application = application_seconds(*M, columns_);
    if (rule_.note_setup(setup, application, clock.passed() - queued)) {
      ready_ = std::move(M);
      return true;
    }
    refuse(info);
  } catch (const WorkEnded&) { fail(info, clock.passed(), end, too_long); } catch (const DeviceError&) {
    throw;  // the device is not usable any more
  } catch (const Error& error) { fail(info, clock.passed(), error.what()); } catch (const std::bad_alloc&) {
    fail(info, clock.passed(), "there is not enough memory for its setup");
  }
  return false;
}

namespace {

// Of a trial: the residuals, and the time of its iterations.
class TrialObserver final : public SolveObserver {
 public:
  explicit TrialObserver(double max_seconds) : max_seconds_(max_seconds) {}
  bool on_iteration(const IterationInfo& info) override {
    if (info.iteration == 0) begin_ = Stopwatch::seconds(), first_ = least_ = info.residual;
    least_ = std::min(least_, info.residual);
    end_ = Stopwatch::seconds();
    stopped = stop_asked();
    return !stopped && info.seconds < max_seconds_;
  }
  double seconds() const { return end_ - begin_; }
  double fall() const { return first_ > 0 && least_ > 0 ? std::log(first_ / least_) : 0; }
  bool stopped = false;

 private:
  double max_seconds_, begin_ = 0, end_ = 0, first_ = 0, least_ = 0;
};

}  // namespace

// Returns whether the solve goes on with the candidate.
template <class T>
bool PreconditionerWatch<T>::try_out(const IterationInfo& info) {
  Stopwatch clock;
  const ContextPtr& context = A_.context();
  try {
    TrialObserver observer(part_.max_seconds - info.seconds);
    const SolveReport report = part_.trial(*ready_, x_of_trial_, rule_.iterations_of_trial(), observer);
    context->synchronize();
    stopped_ = observer.stopped;
    // A method that breaks down with it has not passed.
    const bool good = report.converged() || report.reason == StopReason::max_iterations;
    if (!good) {
      fail(info, clock.passed(),
           stopped_ ? "its trial was interrupted"
                    : fmt::format("in a trial the method ended with {}{}{}", to_string(report.reason),
                                  report.detail.empty() ? "" : ": ", report.detail));
    } else if (rule_.note_trial(
                   report.converged() ? std::numeric_limits<double>::infinity() : observer.fall(),
                   observer.seconds(), clock.passed())) {
      return true;
    } else {
      refuse(info);
    }
  } catch (const DeviceError&) { throw; } catch (const Error& error) {
    fail(info, clock.passed(), error.what());
  } catch (const std::bad_alloc&) { fail(info, clock.passed(), "there is not enough memory for its trial"); }
  ready_.reset(), x_of_trial_.clear();
  return false;
}

template <class T>
void PreconditionerWatch<T>::fail(const IterationInfo& info, double seconds, std::string_view why,
                                  bool too_long) {
  rule_.note_failure(seconds, why, too_long);
  PreconditionerChange change =
      record(PreconditionerChange::Action::refused, chosen_.taken(), ready_id_, info);
  change.reason = rule_.reason(), change.setup_seconds = seconds;
  note(std::move(change));
}

template <class T>
void PreconditionerWatch<T>::refuse(const IterationInfo& info) {
  PreconditionerChange change =
      record(PreconditionerChange::Action::refused, chosen_.taken(), ready_id_, info);
  change.reason = rule_.reason();
  change.setup_seconds = rule_.setup_seconds(), change.application_seconds = rule_.application();
  note(std::move(change));
}

template <class T>
bool PreconditionerWatch<T>::candidate_failed(std::span<const SolveReport> reports,
                                              const ColumnNumbers& part) {
  if (stopped_ || !rule_.current()) return false;
  const auto failed =
      std::find_if(part.begin(), part.end(), [&](std::size_t c) { return has_failed(reports[c].reason); });
  if (failed == part.end()) return false;
  wanted_ = Next::way_back;
  const SolveReport& report = reports[*failed];
  failure_ = report.detail.empty() ? std::string(to_string(report.reason))
                                   : fmt::format("{}: {}", to_string(report.reason), report.detail);
  return true;
}

template <class T>
void PreconditionerWatch<T>::give_up(std::string why) {
  wanted_ = Next::way_back, failure_ = std::move(why);
  gave_up_ = true;  // the x of before, whatever x is now
}

template <class T>
void PreconditionerWatch<T>::carry_out(std::span<SolveReport> reports, const MultiVectorView<T>& X,
                                       std::int64_t iterations) {
  using Action = PreconditionerChange::Action;
  if (std::exchange(wanted_, Next::none) == Next::change) {
    const std::string from(chosen_.taken());
    const std::string reason = rule_.reason();
    rule_.note_change();
    const std::string_view id = rule_.current()->id;
    // It goes on from the better of both x, and keeps that for the way back.
    x_of_trial_.share_better(X, reports);
    x_before_ = std::exchange(x_of_trial_, {});
    first_ = chosen_.exchange(id, std::move(ready_));
    PreconditionerChange change = record(Action::changed, from, id, last_);
    change.iteration = iterations, change.reason = reason;
    change.setup_seconds = rule_.setup_seconds(), change.application_seconds = rule_.application();
    note(std::move(change));
    return;
  }
  const std::string from(chosen_.taken());
  const double gained = rule_.gained();
  rule_.note_way_back(std::exchange(failure_, {}));
  // With new values the two residuals would be of two systems.
  const bool same_values = A_.revision() == revision_, whatever = std::exchange(gave_up_, false);
  for (std::size_t i = 0; i < x_before_.columns().size(); ++i) {
    SolveReport& report = reports[x_before_.columns()[i]];
    const bool worse = !(report.true_residual <= x_before_.norms[i].residual);
    if (same_values && !report.converged() && (worse || whatever)) x_before_.bring_back(i, X, report);
  }
  x_before_.clear();
  (void)chosen_.exchange("jacobi", std::move(first_));
  PreconditionerChange change = record(Action::taken_back, from, "jacobi", last_);
  change.iteration = iterations, change.reason = rule_.reason(), change.gained_seconds = gained;
  note(std::move(change));
}

template <class T>
bool PreconditionerWatch<T>::teach(PreconditionerChoice& choice, double seconds,
                                   std::span<const SolveReport> reports) const {
  if (changes_.empty()) return false;
  note_tried(choice, changes_);
  const double unit = situation_.deterministic ? 0 : rule_.unit();
  const bool interrupted = std::any_of(reports.begin(), reports.end(), [](const SolveReport& one) {
    return one.reason == StopReason::interrupted;
  });
  if (const ChangeCandidate* const now = rule_.current()) {
    const PreconditionerChange& last = changes_.back();
    choice.note_changed(now->id, rule_.all_iterations(), unit, seconds,
                        fmt::format("{} took the place of {} at iteration {}: {}", now->id, last.from,
                                    last.iteration, last.reason),
                        situation_.columns);
  } else if (!interrupted) {
    choice.note_solve(
        situation_.columns * rule_.first_iterations(), unit * static_cast<double>(rule_.first_iterations()),
        std::all_of(reports.begin(), reports.end(), [](const SolveReport& one) { return one.converged(); }),
        situation_.columns);
  }
  return true;
}

template <class T>
std::vector<PreconditionerChange> PreconditionerWatch<T>::take_changes() {
  if (rule_.current()) changes_.back().gained_seconds = rule_.gained();  // nothing follows a change
  return std::move(changes_);
}

template <class T>
PreconditionerChange PreconditionerWatch<T>::record(PreconditionerChange::Action action,
                                                    std::string_view from, std::string_view to,
                                                    const IterationInfo& info) const {
  PreconditionerChange change;
  change.action = action, change.from = from, change.to = to;
  change.iteration = info.iteration + part_.iterations, change.seconds = info.seconds + part_.seconds;
  change.relative_residual = part_.relative_residual ? part_.relative_residual()
                             : baseline_ > 0         ? info.residual / baseline_
                                                     : 0;
  change.columns = columns_;
  return change;
}

template <class T>
void PreconditionerWatch<T>::note(PreconditionerChange change) {
  if (on_change) on_change(text_of(change));
  changes_.push_back(std::move(change));
}

#define PROTEAN_INSTANTIATE(T)                                                    \
  template class PreconditionerWatch<T>;                                          \
  template double application_seconds<T>(const Preconditioner<T>&, std::int64_t); \
  template ChoiceTraits choice_traits_of<T>(const LinearOperator<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace detail
}  // namespace protean
