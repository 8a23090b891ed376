#include "solvers/driver/course.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "solvers/advice.hpp"
#include "solvers/null_space.hpp"

namespace protean::detail {

template <class T>
bool Course<T>::begin(const Beginning& of) {
  SolveReport& r = report_;
  r.rhs_norm = of.rhs_norm;
  r.initial_residual = r.recurrence_residual = r.true_residual = of.initial_residual;
  two_rhs_norm_ = of.two_rhs_norm, two_initial_residual_ = of.two_initial_residual;
  largest_inverse_weight_ = of.largest_inverse_weight;
  control_.emplace(rule_, r.rhs_norm, r.initial_residual);
  if (!std::isfinite(r.rhs_norm) || !std::isfinite(r.initial_residual)) {
    (void)end(StopReason::not_finite,
              fmt::format("||b|| = {}, ||b - A x0|| = {}", r.rhs_norm, r.initial_residual));
  } else if (const StopReason good = control_->satisfied(r.true_residual); converged(good)) {
    (void)end(good);
  } else if (of.in_null_space > tolerance_of_2_norm()) {
    (void)end(StopReason::inconsistent, inconsistent_detail(of.in_null_space, tolerance_of_2_norm()));
  }
  return !ended();
}

template <class T>
void Course<T>::judge(std::span<const double> residuals, bool go_on, double seconds) {
  if (reason_ == StopReason::running) reason_ = verdict_.event, detail_ = verdict_.detail;
  if (!go_on && reason_ == StopReason::running) reason_ = StopReason::interrupted;
  std::int64_t iteration = report_.iterations - std::ssize(residuals);
  for (const double residual : residuals) {
    if (reason_ != StopReason::running) return;
    reason_ = control_->limit({.iteration = ++iteration, .residual = residual, .seconds = seconds}, detail_);
  }
}

template <class T>
Next Course<T>::follow(bool new_values, bool cycle_ended, Inquiry<T>& ask) {
  const double truth = report_.true_residual;
  if (const StopReason good = control_->satisfied(truth); converged(good)) return end(good);
  if (reason_ == StopReason::inconsistent) {
    Diagnosis found = check_least_squares<T>(ask.evidence(*this), two_rhs_norm_);
    reason_ = found.reason, detail_ = std::move(found.detail);
  }
  if (waits_ && reason_ == StopReason::running) {
    if (new_values) control_->restart(truth, report_.iterations);
    return Next::begin;
  }
  // A breakdown may be a happy one: x then solves the system up to the rounding of a large x0. Without progress in the
  // first step it would come again.
  const bool broke = reason_ == StopReason::breakdown;
  const bool goes_on = broke && report_.iterations < rule_.max_iterations &&
                       (steps_since_begin_ > 1 || truth < 0.9 * begun_from_);
  // At the limit it does not go on for that reason.
  if (broke && !goes_on && steps_since_begin_ > 1)
    reason_ = StopReason::max_iterations, detail_ = fmt::format("{} iterations", report_.iterations);
  if (reason_ != StopReason::running && !goes_on) {
    if (leave_rounding(reason_, detail_, ask)) return begin_again(false);
    return end_for_a_cause(reason_, std::move(detail_), ask);
  }
  reason_ = StopReason::running;
  const std::string detail = std::exchange(detail_, {});
  if (new_values) return begin_again(false);
  if (cycle_ended && !verdict_.reached && !goes_on) {
    if (truth > 0.9 * begun_from_ && !std::exchange(asked_for_solution_, true))
      if (auto none = find_inconsistent<T>(ask.evidence(*this), tolerance_of_2_norm()))
        return end(none->reason, std::move(none->detail));
    return begin_again(true);
  }
  const bool renews = verdict_.reached && ask.renews(*this);
  if (!renews && verdict_.reached && truth <= 2 * verdict_.residual && ask.resumes(*this)) {
    control_->aim_lower(verdict_.residual, truth);
    return Next::step;
  }
  if (restart_helps()) return renews ? Next::renew : begin_again(false);
  if (leave_rounding(StopReason::stagnation, "corrections no longer help", ask)) return begin_again(false);
  return end_for_a_cause(
      broke ? StopReason::breakdown : StopReason::stagnation,
      fmt::format(
          "{}{}the residual of the recurrence is {:.3g}, the residual b - A x is {:.3g}, and restarts no "
          "longer help",
          detail, detail.empty() ? "" : "; ", verdict_.residual, truth),
      ask);
}

template <class T>
Next Course<T>::correct(Inquiry<T>& ask) {
  if (const StopReason good = control_->satisfied(report_.true_residual); converged(good)) return end(good);
  if (!restart_helps() && leave_rounding(StopReason::stagnation, "corrections no longer help", ask))
    return begin_again(false);
  return Next::renew;
}

// Of two unplanned restarts, or corrections, at least one must reduce the true residual by a tenth or more.
template <class T>
bool Course<T>::restart_helps() noexcept {
  const double truth = report_.true_residual;
  fruitless_ = truth < 0.9 * smallest_restart_ ? 0 : fruitless_ + 1;
  smallest_restart_ = std::min(smallest_restart_, truth);
  return fruitless_ < 2;
}

// Rounded values may be why a solve cannot go on: as a matrix that is indefinite only after it was rounded.
template <class T>
bool Course<T>::leave_rounding(StopReason for_what, const std::string& detail, Inquiry<T>& ask) {
  switch (for_what) {
    case StopReason::stagnation:
    case StopReason::divergence:
    case StopReason::breakdown:
    case StopReason::indefinite_operator:
    case StopReason::not_finite:
    case StopReason::inconsistent:
      break;
    default:
      return false;
  }
  if (!std::isfinite(report_.true_residual)) return false;
  std::string why = fmt::format("{} at iteration {}{}{}", to_string(for_what), report_.iterations,
                                detail.empty() ? "" : ": ", detail);
  if (!ask.leaves_rounding(why)) return false;
  report_.left_rounding = std::move(why);
  reason_ = StopReason::running, detail_.clear();
  fruitless_ = 0, smallest_restart_ = std::numeric_limits<double>::infinity();
  return true;
}

template <class T>
Next Course<T>::begin_again(bool planned) {
  ++report_.restarts;
  if (!planned) control_->restart(report_.true_residual, report_.iterations);
  waits_ = true;
  verdict_.reached = false, verdict_.event = StopReason::running;
  return Next::begin;
}

template <class T>
Next Course<T>::end(StopReason reason, std::string detail) {
  report_.reason = reason, report_.detail = std::move(detail);
  return Next::end;
}

// The reason behind it may be another one.
template <class T>
Next Course<T>::end_for_a_cause(StopReason reason, std::string detail, Inquiry<T>& ask) {
  if (reason == StopReason::interrupted) return end(reason, std::move(detail));
  const bool first = report_.iterations <= 1 && report_.restarts == 0;
  const Evidence<T> evidence = ask.evidence(*this);
  Diagnosis found = diagnose<T>(evidence, verdict_, first, two_initial_residual_, reason, std::move(detail));
  if (may_be_inconsistent(found.reason))
    if (auto none = find_inconsistent<T>(evidence, tolerance_of_2_norm())) {
      if (!found.detail.empty()) none->detail += "; " + found.detail;
      found = std::move(*none);
    }
  // Overwrites b - A x, and so comes after all that reads it.
  if (depends_on_symmetry(found.reason) && find_solver(findings_->method).symmetric)
    ask_for_symmetry(evidence, found.detail);
  return end(found.reason, std::move(found.detail));
}

template <class T>
void Course<T>::ask_for_symmetry(const Evidence<T>& evidence, std::string& detail) {
  Findings& f = *findings_;
  if (!std::exchange(f.asked_for_symmetry, true)) {
    f.symmetric = is_symmetric<T>(evidence, f.why_not_symmetric);
    f.positive_diagonal = has_positive_diagonal<T>(evidence);
  }
  if (!f.why_not_symmetric.empty()) detail += (detail.empty() ? "" : "; ") + f.why_not_symmetric;
}

template <class T>
void Course<T>::conclude(const std::optional<BadEntry>& bad, Inquiry<T>& ask) {
  SolveReport& r = report_;
  const bool lost = bad && std::isfinite(r.true_residual);
  if (bad) {
    r.detail += (r.detail.empty() ? "" : "; ") + text_of<T>(*bad, lost, ask.evidence_for_caller());
    r.reason = StopReason::not_finite;
  }
  Findings& f = *findings_;
  const bool blames = blames_preconditioner(r.reason) && !f.preconditioner.empty();
  if (blames && !f.fault) f.fault = fault_of_preconditioner<T>(ask.evidence_for_caller());
  r.advice = advice_for(r.reason, {.method = f.method,
                                   .preconditioner = f.preconditioner,
                                   .symmetric = f.symmetric,
                                   .positive_diagonal = f.positive_diagonal,
                                   .preconditioner_fault = blames ? *f.fault : std::string_view(),
                                   .x_not_determined = lost});
  if (control_) {
    r.recurrence_relative = control_->relative(r.recurrence_residual);
    r.true_relative = control_->relative(r.true_residual);
  }
}

template class Course<float>;
template class Course<double>;

}  // namespace protean::detail
