// The preconditioner that a SystemSolver keeps: when it is set up again, and which one it is for type auto, also in the
// middle of a solve.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "preconditioners/fields/fields.hpp"
#include "systems/continued.hpp"
#include "systems/preconditioner_change.hpp"
#include "systems/seconds.hpp"
#include "systems/sequence.hpp"

namespace protean {
namespace {

// With storage auto these methods take doubles. gmres and bicgstab2 compute M^-1 y for a sum y of many directions, and
// expect the sum of what M has made of each: rounding r to float then ends a cycle at about 1e-7 of its first residual.
// minres never makes its vectors orthogonal again, and takes up to several times the iterations for small tolerances.
bool takes_doubles(std::string_view method) {
  return method == "gmres" || method == "bicgstab2" || method == "minres";
}

PreconditionerOptions stored_for(std::string_view method, PreconditionerOptions options) {
  if (options.storage == PreconditionerStorage::automatic && takes_doubles(method))
    options.storage = PreconditionerStorage::double_precision;
  return options;
}

}  // namespace

template <class T>
PreconditionerOptions SystemSolver<T>::preconditioner_options() const {
  return stored_for(method_, settings_.preconditioning);
}

// Of M itself, or of what it was made for.
template <class T>
std::string SystemSolver<T>::storage_reason() const {
  const auto asks = [](const PreconditionerOptions& options) {
    return options.storage == PreconditionerStorage::automatic;
  };
  const std::vector<PreconditionerPart>& parts = settings_.parts;
  const bool asked = parts.empty() ? asks(settings_.preconditioning)
                                   : std::any_of(parts.begin(), parts.end(),
                                                 [&](const auto& part) { return asks(part.options); });
  if (!M_ || maker_ || !asked) return {};
  std::string own = M_->storage_reason();
  if (!own.empty() || M_->storage().starts_with("float")) return own;
  if (takes_doubles(method_))
    return fmt::format("method {} loses digits or iterations with a preconditioner that rounds r to float",
                       method_);
  const std::string_view name = sequence_->chosen ? sequence_->chosen->taken() : M_->name();
  return fmt::format("{} has no form in float with these options", name);
}

template <class T>
double SystemSolver<T>::set_up_preconditioner(SystemMatrix<T>& matrix, bool again) {
  stage("setting up");
  Stopwatch clock;
  Sequence& now = *sequence_;
  const bool limited = std::isfinite(now.max_seconds);
  try {
    const detail::EndableWork endable(*matrix.context(), [&] {
      if (limited && now.used_seconds + before_.setup + clock.passed() >= now.max_seconds)
        now.ended = StopReason::time_limit;
      else if (detail::stop_asked())
        now.ended = StopReason::interrupted;
      return now.ended != StopReason::running;
    });
    renew_preconditioner(matrix.A(), again);
    // Method auto expected fields to be taken, and they were refused.
    if (!again && now.chosen && now.traits && (now.traits->constraint || now.traits->cells) &&
        now.chosen->taken() != "fields" && settings_.method == detail::automatic_method) {
      now.traits->constraint = now.traits->cells = false;
      choose_method(matrix);
      make_method(now.columns);
      renew_preconditioner(matrix.A(), false);
    }
    matrix.context()->synchronize();
  } catch (const detail::WorkEnded&) {
    now.renew = true;  // what has been made of it is not used
  }
  const double seconds = clock.lap();
  before_.setup += seconds;
  // It may be complete, and too late.
  if (limited && M_ && now.ended == StopReason::running &&
      now.used_seconds + before_.setup >= now.max_seconds)
    now.ended = StopReason::time_limit;
  // A candidate of type auto that takes so long is none.
  if (now.ended == StopReason::time_limit && now.chosen && now.chosen->asked() != "jacobi")
    now.choice.refuse("its setup took all of max_seconds");
  return seconds;
}

// Of a solve whose setup has taken all the time, or was ended.
template <class T>
void SystemSolver<T>::explain_setup(SolveReport& report, StopReason ended) const {
  if (report.converged() || report.reason == StopReason::not_finite) return;
  report.reason = ended;
  const Sequence& now = *sequence_;
  // It may have been ended while it was made.
  const std::string_view name = now.chosen                ? now.chosen->taken()
                                : M_                      ? M_->name()
                                : settings_.parts.empty() ? std::string_view(settings_.preconditioner)
                                                          : "composition";
  report.detail =
      fmt::format("the setup of preconditioner {} took {:.3g} s", name, now.used_seconds + before_.setup);
  if (ended == StopReason::interrupted) {
    report.detail += " and was interrupted";
    report.advice = "The solve was interrupted before its first iteration. x is the initial guess.";
    return;
  }
  report.detail += fmt::format(" of {:.3g} s", now.max_seconds);
  report.advice = fmt::format(
      "The setup of preconditioner {} took the time: allow more (max_seconds), or take one with less setup, "
      "such as jacobi{}.",
      name, name == "ic" || name == "ilu" ? fmt::format(" or {}0", name) : "");
}

template <class T>
void SystemSolver<T>::renew_preconditioner(const LinearOperator<T>& A, bool again) {
  Sequence& now = *sequence_;
  if (now.serial != A.serial()) {
    now.serial = 0, now.chosen = nullptr;
    std::vector<PreconditionerPart> parts = settings_.parts;
    for (PreconditionerPart& part : parts) part.options = stored_for(method_, std::move(part.options));
    M_ = maker_           ? maker_(A)
         : !parts.empty() ? make_composition<T>(A, parts, settings_.combine)
                          : make_preconditioner<T>(settings_.preconditioner, A, preconditioner_options());
    now.serial = A.serial(), now.renew = true;
    now.chosen = dynamic_cast<detail::Chosen<T>*>(M_.get());
    const bool symmetric = make_solver<double>(method_)->needs_symmetric_preconditioner();
    if (now.chosen)
      now.chosen->require_definite(symmetric), now.chosen->let_be_unsymmetric(!symmetric);
    else if (M_ && !maker_)
      detail::let_be_unsymmetric(*M_, !symmetric);
    now.choice = new_choice(A);
  }
  if (!M_) return;
  const Revision revision = A.revision();
  if (revision.pattern != now.revision.pattern) now.renew = true;
  if (revision.values != now.revision.values) now.refresh.note_new_values();
  now.revision = revision;
  // In the middle of a solve it remains the one that it is.
  if (again)
    now.renew = true;
  else if (now.chosen)
    choose_preconditioner(A);
  if (!now.renew && !now.refresh.due(refresh())) return;
  Stopwatch clock;
  ensure_preconditioner(A);
  A.context()->synchronize();
  const double seconds = clock.lap();
  now.refresh.note_setup(seconds), now.choice.note_setup(seconds);
  now.renew = false;
  if (now.chosen && now.choice.on_trial()) measure_application(A);
}

template <class T>
detail::PreconditionerChoice SystemSolver<T>::new_choice(const LinearOperator<T>& A) const {
  return detail::PreconditionerChoice(
      {.space = A.context()->space(),
       .needs_symmetric = make_solver<double>(method_)->needs_symmetric_preconditioner(),
       .expected = settings_.preconditioning.solves,
       .iterations = settings_.expected_iterations,
       .deterministic = A.context()->deterministic(),
       .near_null_space = settings_.preconditioning.near_null_space != nullptr,
       .products = static_cast<double>(find_solver(method_).products)});
}

// Null also if auto takes none, or one that changes nothing, so that no vector is copied or multiplied for it.
template <class T>
const Preconditioner<T>* SystemSolver<T>::used_preconditioner() const noexcept {
  const detail::Chosen<T>* const chosen = sequence_->chosen;
  return chosen && (!chosen->refused().empty() || chosen->changes_nothing()) ? nullptr : M_.get();
}

// Of a candidate of type auto, which goes if that takes too long.
template <class T>
void SystemSolver<T>::measure_application(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  const ContextPtr& context = A.context();
  Stopwatch clock;
  try {
    const double seconds = detail::application_seconds<T>(*M_, now.columns);
    now.choice.note_application(seconds / static_cast<double>(now.columns), clock.lap());
  } catch (const OutOfMemory&) { return; }
  if (now.choice.current() == now.chosen->asked()) return;
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
    // when_slower decides by times.
    const bool timed = sequence_->chosen && !sequence_->chosen->context()->deterministic();
    return timed ? Refresh::when_slower : Refresh::every;
  }
  Refresh often = Refresh::never;
  for (const PreconditionerPart& part : settings_.parts) {
    const Refresh asked = part.options.refresh;
    often = std::min(often, asked == Refresh::automatic ? Refresh::every : asked);
  }
  return often;
}

// Of type auto: another preconditioner, if its rule says so.
template <class T>
void SystemSolver<T>::choose_preconditioner(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  if (now.chosen->taken() == "fields") return;
  const std::string_view id = now.choice.decide([&] { return detail::choice_traits_of(A); });
  if (id != now.chosen->asked()) now.renew = true;
}

// Of type auto: takes the one that was chosen, too. What a candidate refuses the one before it, or jacobi, may take;
// the reason says so.
template <class T>
void SystemSolver<T>::ensure_preconditioner(const LinearOperator<T>& A) {
  Sequence& now = *sequence_;
  if (!now.chosen) return M_->ensure(A);
  const auto try_current = [&] {
    if (now.chosen->asked() != now.choice.current()) now.chosen->take(now.choice.current(), A);
    M_->ensure(A);
  };
  while (now.choice.current() != "jacobi") {
    try {
      return try_current();
    } catch (const BadMatrix& error) { now.choice.refuse(error.what()); } catch (const OutOfMemory& error) {
      now.choice.refuse(error.what());
    } catch (const NotAvailable& error) {
      now.choice.refuse(error.what());
    } catch (const BadArgument& error) { now.choice.refuse(error.what()); }
  }
  try_current();
}

// Whether M is of other values than the matrix now, which may have got them in the middle of the solve.
template <class T>
bool SystemSolver<T>::has_old_preconditioner(const LinearOperator<T>& A) const {
  return M_ && (sequence_->refresh.old() || sequence_->revision != A.revision());
}

#define PROTEAN_INSTANTIATE(T)                                                                       \
  template double SystemSolver<T>::set_up_preconditioner(SystemMatrix<T>&, bool);                    \
  template std::string SystemSolver<T>::storage_reason() const;                                      \
  template PreconditionerOptions SystemSolver<T>::preconditioner_options() const;                    \
  template detail::PreconditionerChoice SystemSolver<T>::new_choice(const LinearOperator<T>&) const; \
  template void SystemSolver<T>::explain_setup(SolveReport&, StopReason) const;                      \
  template void SystemSolver<T>::renew_preconditioner(const LinearOperator<T>&, bool);               \
  template void SystemSolver<T>::choose_preconditioner(const LinearOperator<T>&);                    \
  template void SystemSolver<T>::ensure_preconditioner(const LinearOperator<T>&);                    \
  template void SystemSolver<T>::measure_application(const LinearOperator<T>&);                      \
  template Refresh SystemSolver<T>::refresh() const;                                                 \
  template const Preconditioner<T>* SystemSolver<T>::used_preconditioner() const noexcept;           \
  template bool SystemSolver<T>::has_old_preconditioner(const LinearOperator<T>&) const;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
