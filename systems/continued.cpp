#include "systems/continued.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace protean::detail {
namespace {

double ratio(double residual, double baseline) noexcept {
  if (baseline > 0) return residual / baseline;
  return residual > 0 ? std::numeric_limits<double>::infinity() : residual;
}

std::string limit_detail(StopReason limit, const StoppingRule& rule, std::int64_t iterations,
                         double seconds) {
  return limit == StopReason::max_iterations ? fmt::format("{} iterations", iterations)
                                             : fmt::format("{:.3g} s of {:.3g} s", seconds, rule.max_seconds);
}

}  // namespace

double baseline_of(const StoppingRule& rule, const SolveReport& first) noexcept {
  return rule.baseline == Baseline::rhs ? first.rhs_norm : first.initial_residual;
}

bool broke_down_for(StopReason reason) noexcept {
  return reason == StopReason::breakdown || reason == StopReason::indefinite_preconditioner;
}

bool broke_down(const SolveReport& report) noexcept { return broke_down_for(report.reason); }

bool has_failed(StopReason reason) noexcept {
  return !converged(reason) && reason != StopReason::running && reason != StopReason::interrupted &&
         reason != StopReason::max_iterations && reason != StopReason::time_limit;
}

StoppingRule rest_of(const StoppingRule& rule, const SolveReport& first, double seconds) noexcept {
  StoppingRule rest = rule;
  rest.max_iterations = std::max<std::int64_t>(rule.max_iterations - first.iterations, 0);
  rest.max_seconds = std::max(rule.max_seconds - seconds, 0.0);
  // Its own initial residual, for the x of the breakdown, counts for nothing.
  const double baseline = baseline_of(rule, first);
  if (rule.baseline == Baseline::initial_residual) {
    rest.baseline = Baseline::rhs, rest.relative_tolerance = 0;
    rest.absolute_tolerance = std::max(rule.relative_tolerance * baseline, rule.absolute_tolerance);
  }
  const double too_large = rule.divergence * std::max(baseline, first.initial_residual);
  const double next = too_large / std::max(first.rhs_norm, first.true_residual);
  if (std::isfinite(next)) rest.divergence = std::max(1.0, next);
  return rest;
}

StopReason used_up(const StoppingRule& rule, const SolveReport& first, double seconds) noexcept {
  if (first.iterations >= rule.max_iterations) return StopReason::max_iterations;
  return seconds >= rule.max_seconds ? StopReason::time_limit : StopReason::running;
}

SolveReport joined(const StoppingRule& rule, const SolveReport& first, SolveReport second, double seconds) {
  SolveReport& all = second;
  all.iterations += first.iterations, all.restarts += first.restarts + 1;
  all.corrections += first.corrections;
  if (all.left_rounding.empty()) all.left_rounding = first.left_rounding;
  all.graphs_recorded += first.graphs_recorded, all.graphs_made += first.graphs_made;
  all.seconds = seconds, all.initial_residual = first.initial_residual;
  if (rule.baseline == Baseline::initial_residual) {
    const double baseline = first.initial_residual;
    all.recurrence_relative = ratio(all.recurrence_residual, baseline);
    all.true_relative = ratio(all.true_residual, baseline);
    if (all.reason == StopReason::absolute_tolerance &&
        all.true_residual <= rule.relative_tolerance * baseline)
      all.reason = StopReason::relative_tolerance;
  }
  if (all.reason == StopReason::max_iterations || all.reason == StopReason::time_limit)
    all.detail = limit_detail(all.reason, rule, all.iterations, seconds);
  return second;
}

SolveReport ended_by(StopReason limit, const StoppingRule& rule, SolveReport first, double seconds,
                     bool old) {
  first.reason = limit;
  first.detail = fmt::format(
      "{}; the preconditioner{} broke down{}{}", limit_detail(limit, rule, first.iterations, seconds),
      old ? ", which is of older values," : "", first.detail.empty() ? "" : ": ", first.detail);
  const char* const more = limit == StopReason::max_iterations ? "iterations" : "time";
  first.advice =
      old ? fmt::format(
                "The limit was reached with a preconditioner of older values, which broke down. "
                "Set it up for the new values (refresh: every), or allow more {}.",
                more)
          : fmt::format("The limit was reached with a preconditioner that broke down. Allow more {}.", more);
  return first;
}

void Numbered::go_on(const StoppingRule& rule, const SolveReport& first, double seconds) noexcept {
  second_ = true, seconds_ = seconds;
  iterations_ = first.iterations, restarts_ = first.restarts + 1;
  baseline_ = baseline_of(rule, first);
}

IterationInfo Numbered::whole(const IterationInfo& info) const noexcept {
  if (!second_) return info;
  IterationInfo of = info;
  of.iteration += iterations_, of.restarts += restarts_, of.seconds += seconds_;
  of.relative_residual = ratio(info.residual, baseline_);
  return of;
}

bool Numbered::on_iteration(const IterationInfo& info) {
  if (is_known(info)) return true;
  const IterationInfo of_all = whole(info);
  seen_ = of_all.iteration;
  const bool go_on = next_->on_iteration(of_all);
  stopped_ = stopped_ || !go_on;
  return go_on;
}

std::int64_t Numbered::next_stop() const noexcept {
  const std::int64_t stop = next_->next_stop();
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  return stop == none ? none : stop - iterations_;
}

bool Numbered::reads_solution(const IterationInfo& info) const noexcept {
  return !is_known(info) && next_->reads_solution(whole(info));
}

void NumberedColumns::go_on(std::int64_t iterations, double seconds, ColumnNumbers columns,
                            std::vector<double> baselines) {
  // A part that ended by an exception may have shown more.
  iterations_ = std::max(iterations, last_), seconds_ = seconds;
  columns_ = std::move(columns), baselines_ = std::move(baselines);
  runs_.assign(columns_.size(), 1), seen_ = false;
}

ColumnNumbers NumberedColumns::running() const {
  ColumnNumbers running;
  for (std::size_t k = 0; k < runs_.size(); ++k)
    if (runs_[k] != 0) running.push_back(k);
  return running;
}

double NumberedColumns::relative_residual() const noexcept {
  double largest = 0;
  for (std::size_t k = 0; k < runs_.size(); ++k)
    if (runs_[k] != 0) largest = std::max(largest, whole_.relative[columns_.empty() ? k : columns_[k]]);
  return largest;
}

std::int64_t NumberedColumns::next_stop() const noexcept {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  const std::int64_t stop = next_ ? next_->next_stop() : none;
  return stop == none ? none : stop - iterations_;
}

// `of` holds what was seen last.
MultiIterationInfo NumberedColumns::whole(const MultiIterationInfo& info, Whole& of) const {
  if (columns_.empty()) {
    of.residuals.assign(info.residuals.begin(), info.residuals.end());
    of.relative.assign(info.relative_residuals.begin(), info.relative_residuals.end());
    of.reasons.assign(info.reasons.begin(), info.reasons.end());
    of.runs.assign(info.runs.begin(), info.runs.end());
  } else {
    of.runs.assign(of.residuals.size(), 0);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const std::size_t c = columns_[k];
      of.runs[c] = info.runs[k], of.reasons[c] = info.reasons[k];
      of.residuals[c] = info.residuals[k], of.relative[c] = ratio(info.residuals[k], baselines_[k]);
    }
  }
  return {.iteration = info.iteration + iterations_,
          .running = info.running,
          .broken = std::count_if(of.reasons.begin(), of.reasons.end(), broke_down_for),
          .residuals = of.residuals,
          .relative_residuals = of.relative,
          .runs = of.runs,
          .reasons = of.reasons,
          .seconds = info.seconds + seconds_};
}

bool NumberedColumns::reads_solution(const MultiIterationInfo& info) const noexcept {
  if (!next_ || !seen_) return false;
  Whole of = whole_;
  return next_->reads_solution(whole(info, of));
}

bool NumberedColumns::on_iteration(const MultiIterationInfo& info) {
  runs_.assign(info.runs.begin(), info.runs.end());
  const MultiIterationInfo of_all = whole(info, whole_);
  last_ = of_all.iteration;
  // Iteration 0 of a later part is the last one of the part before.
  if (next_ && std::exchange(seen_, true)) {
    if (next_->reads_solution(of_all)) show_();
    stopped_ = !next_->on_iteration(of_all);
  }
  return !stopped_ && std::none_of(info.reasons.begin(), info.reasons.end(), ends_all_);
}

}  // namespace protean::detail
