#include "preconditioners/choice/change_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "operators/policy/switch_policy.hpp"

namespace protean::detail {
namespace {

// Of the account: the part of the useful time, and the part of it and of the low forecast.
constexpr double most_share = 0.1, most_share_by_forecast = 0.5;
constexpr double margin = 0.1;    // of its price, that a candidate must gain by the low forecast
constexpr double clearly = 1.25;  // the predicted iterations are careful
constexpr double trial_iterations = 8, least_trial = 3;
constexpr double trials_in_price = 2;  // after it has passed one, it may lose as much before it is taken back
constexpr std::int64_t first_look = 16, first_gaps = 8;
constexpr double look = 8;        // iterations that a look at the matrix takes
constexpr double at_least = 0.8;  // of the fall by the likely forecast, that a trial must reach
constexpr double near_least = 2;  // a change waits for a residual of at most this times the smallest one,
constexpr std::int64_t most_waits = 32;  // at most this many iterations
constexpr double eight_digits = 18.42;   // -log(1e-8)
constexpr double forever = std::numeric_limits<double>::infinity();

// Fitted to solves of 27 systems on two threads of an Intel Xeon, the row of a GPU to setups and iterations of three
// grids on an H200; docs/results/preconditioners.md has what the table gives. The number of iterations that factors
// save depends on the system (6 to 60 % of the iterations of jacobi are left), so the forecast alone never pays for
// ic0. It is tried if that costs little. On a GPU factors and their approximate inverses do not pay for their setups in
// one solve.
constexpr ChangeCandidate measured[] = {
    {"amg", Space::host, false, true, true, 35, 0, 4.7, 250, 1},
    {"ic0", Space::host, true, true, false, 4, 0.2, 2, 50, 2.5, 0, 0, 1.4, true},
    {"ilu0", Space::host, false, false, false, 4, 0.15, 1.5, 45, 2, 0, 0, 1.4, true},
    {"amg", Space::device, false, true, true, 35, 0, 9.6, 130, 1, 480e-6, 10e-3, 1.25},
};

}  // namespace

std::span<const ChangeCandidate> change_candidates() noexcept {
  if (!other_change_candidates.empty()) return other_change_candidates;
  return measured;
}

ChangeRule::ChangeRule(ChangeSituation situation, std::span<const ChangeCandidate> candidates)
    : situation_(situation) {
  for (const ChangeCandidate& one : candidates)
    if (one.space == situation_.space && (one.symmetric || !situation_.needs_symmetric))
      left_.push_back({&one});
}

void ChangeRule::exclude(std::string_view id) {
  std::erase_if(left_, [&](const Untried& one) { return one.candidate->id == id; });
}

void ChangeRule::begin_part(double seconds) {
  residuals_ = {}, has_residual_ = false;
  iteration_ = 0, next_look_ = first_look, waited_ = 0;
  part_useful_ = 0;
  resume(seconds);
}

double ChangeRule::useful() const noexcept { return useful_ + part_useful_; }

// The median of the last ones on a host. A device reports iterations in bursts: there it is the mean of the part.
void ChangeRule::measure_unit(double gap) {
  if (situation_.deterministic) {
    unit_ = first_unit_ = 1;
    return;
  }
  if (situation_.space != Space::host) {
    unit_ = first_unit_ = part_useful_ / static_cast<double>(std::max<std::int64_t>(iteration_, 1));
    return;
  }
  gaps_[static_cast<std::size_t>(gap_count_++) % gaps_.size()] = gap;
  if (gap_count_ <= first_gaps) first_unit_ = unit_ = unit();
}

double ChangeRule::unit() const noexcept {
  if (gap_count_ == 0) return unit_;
  auto sorted = gaps_;
  const auto count = std::min<std::int64_t>(gap_count_, std::ssize(gaps_));
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  return sorted[static_cast<std::size_t>(count / 2)];
}

void ChangeRule::note_time(double iterations, double seconds) {
  if (situation_.deterministic) seconds = last_ + iterations * (current_ ? measured_iteration() : 1);
  const double gap = std::max(seconds - last_, 0.0);
  last_ = seconds, part_useful_ += gap;
  if (!current_) first_iterations_ += iterations, measure_unit(gap / iterations);
}

ChangeOrder ChangeRule::on_iteration(std::int64_t iteration, double relative_residual, double seconds) {
  if (iteration > iteration_) {
    const auto more = static_cast<double>(iteration - std::exchange(iteration_, iteration));
    note_time(more, seconds);
  } else {
    resume(seconds);
  }
  if (!(relative_residual > 0) || !std::isfinite(relative_residual)) return {};
  log_ = std::log(relative_residual);
  if (!has_residual_) start_log_ = log_;
  least_log_ = has_residual_ ? std::min(least_log_, log_) : log_;
  has_residual_ = true;
  if (current_) {
    const bool within_cycle = has_short_cycles() && iteration_ % situation_.cycle != 0;
    if (iteration_ < trial_ || within_cycle || loss() <= most_loss_) return {};
    reason_ = fmt::format("the residual falls more slowly with {} than before", current_->id);
    return {ChangeStep::go_back, current_};
  }
  residuals_.add(iteration_, relative_residual);
  if (being_set_up_) return {};  // its trial comes first
  if (iteration_ < next_look_ || left_.empty()) return {};
  unit_ = unit();
  if (unit_ <= 0) return {};
  if (log_ > least_log_ + std::log(near_least) && waited_ < most_waits) {
    ++waited_;
    return {};
  }
  return consider();
}

void ChangeRule::resume(double seconds) noexcept {
  if (!situation_.deterministic) last_ = seconds;
}

ChangeOrder ChangeRule::again() { return left_.empty() ? ChangeOrder{} : consider(); }

// What was said of the solve, or what earlier ones took, is a better forecast than the first residuals.
Forecast ChangeRule::forecast() const {
  const double left = static_cast<double>(situation_.expected) - first_iterations_;
  if (situation_.expected > 0 && 2 * left >= static_cast<double>(situation_.expected))
    return {left / 2, left, 2 * left, true};
  return residuals_.remaining(situation_.goal, situation_.max_iterations);
}

// Forecast::low is half of the smallest estimate, and at most 1.5 times the iterations done. In seven
// of ten solves to which the table was fitted, that estimate is at most a third too large.
double ChangeRule::cautious(const Forecast& left) const {
  return std::min(1.4 * left.low, std::max(left.low, 1.5 * static_cast<double>(iteration_)));
}

double ChangeRule::allowed(double low) const {
  return low < 0 ? most_share * useful() : most_share_by_forecast * (useful() + low * unit_);
}

double ChangeRule::iterations_of(const ChangeCandidate& candidate, double iterations) const {
  const double digits = std::max(log_ - std::log(situation_.goal), 0.0) / eight_digits;
  const double twice = candidate.for_diffusion && situation_.near_null_space && !traits_.diffusion ? 2 : 1;
  return std::max(twice * candidate.least * digits / situation_.products, candidate.factor * iterations);
}

// Predicted, of all columns; an iteration of the method has `products` of them, and takes as long as that many of the
// table.
double ChangeRule::application_of(const ChangeCandidate& candidate) const noexcept {
  const bool deterministic = situation_.deterministic, one_pass = candidate.one_pass && !deterministic;
  const auto columns = static_cast<double>(situation_.columns);
  const double passes = one_pass ? 1 : columns / situation_.iteration_of_columns;
  const double launches = deterministic ? 0 : (one_pass ? 1 : columns) * candidate.iteration_seconds;
  return passes * candidate.application * first_unit_ / situation_.products + launches;
}

double ChangeRule::seconds_of_iteration(const ChangeCandidate& candidate) const {
  return unit_ + situation_.products * application_of(candidate);
}

double ChangeRule::look_price() const noexcept { return look * unit_ / situation_.products; }

bool ChangeRule::has_short_cycles() const noexcept {
  return static_cast<double>(situation_.cycle) <= trial_iterations;
}

double ChangeRule::shortest_trial() const noexcept {
  return has_short_cycles() ? std::max(static_cast<double>(situation_.cycle), least_trial) : least_trial;
}

double ChangeRule::whole_cycles(double iterations) const noexcept {
  const auto cycle = static_cast<double>(situation_.cycle);
  return std::ceil(iterations / cycle) * cycle;
}

ChangeRule::Offer ChangeRule::offer(const Untried& untried, const Forecast& left) const {
  const ChangeCandidate& candidate = *untried.candidate;
  const double likely = left.known ? left.likely : static_cast<double>(iteration_);
  const double one = seconds_of_iteration(candidate);
  Offer o{.candidate = &candidate};
  const double table_unit = first_unit_ / situation_.iteration_of_columns / situation_.products;
  o.setup = untried.setup *
            (candidate.setup * table_unit + (situation_.deterministic ? 0 : candidate.setup_seconds));
  double trial = std::clamp(iterations_of(candidate, likely), shortest_trial(), trial_iterations);
  // The rest of a long cycle is not asked for; the trial has it if the account pays.
  if (situation_.cycle > 1 && has_short_cycles()) trial = whole_cycles(trial);
  o.trial = trial * one;
  o.solve = iterations_of(candidate, likely) * one;
  o.price = candidate.setup_bound * o.setup + trials_in_price * o.trial + (known_traits_ ? 0 : look_price());
  o.gain = likely * unit_ - o.solve - o.setup;
  o.allowed = allowed(-1);
  if (o.gain > 0 && spent_ + o.price > o.allowed && left.low > 0) {
    const double low = cautious(left);
    const double low_gain = low * unit_ - candidate.doubt * iterations_of(candidate, low) * one - o.setup;
    if (low_gain >= margin * o.price) o.by_forecast = true, o.allowed = allowed(low);
  }
  return o;
}

bool ChangeRule::fits(const ChangeCandidate& candidate) const {
  return traits_.entries && (!candidate.for_symmetric || traits_.symmetric) &&
         (!candidate.for_diffusion || traits_.diffusion || situation_.near_null_space);
}

ChangeOrder ChangeRule::consider() {
  next_look_ = detail::next_look(iteration_), waited_ = 0;
  const Forecast left = forecast();
  Offer best;
  for (const Untried& one : left_) {
    if (known_traits_ && !fits(*one.candidate)) continue;
    const Offer o = offer(one, left);
    if (o.gain > 0 && spent_ + o.price <= o.allowed && (!best.candidate || o.gain > best.gain))
      best = o, setup_factor_ = one.setup;
  }
  if (!best.candidate) return {};
  if (!known_traits_) return {ChangeStep::look, best.candidate};
  const double likely = left.known ? left.likely : static_cast<double>(iteration_);
  taken_ = best, being_set_up_ = best.candidate;
  remaining_ = likely;
  if (left.known && likely > 0)
    rate_ = std::max(least_log_ - std::log(situation_.goal), 0.0) / (likely * unit_);
  else
    rate_ = part_useful_ > 0 ? std::max(start_log_ - least_log_, 0.0) / part_useful_ : 0;
  exclude(best.candidate->id);
  reason_ = fmt::format(
      "{} {:.0f} iterations are left; predicted are {:.0f} with {}, each as long as {:.1f}, and {:.0f} for "
      "its setup ({})",
      left.known ? "likely" : "perhaps", likely, iterations_of(*best.candidate, likely), best.candidate->id,
      seconds_of_iteration(*best.candidate) / unit_, best.setup / unit_,
      best.by_forecast ? "by the low forecast" : "within 10 % of the time so far");
  const double limit =
      situation_.deterministic ? forever : best.allowed - spent_ - trials_in_price * best.trial;
  return {ChangeStep::set_up, best.candidate, limit};
}

void ChangeRule::note_traits(const ChoiceTraits& traits, double seconds) {
  traits_ = traits, known_traits_ = true;
  spent_ += situation_.deterministic ? look_price() : seconds;
}

bool ChangeRule::note_setup(double setup, double application, double all) {
  const ChangeCandidate& one = *being_set_up_;
  measured_setup_ = setup, measured_application_ = application;
  if (situation_.deterministic) setup = all = taken_.setup, application = application_of(one);
  setup_seconds_ = setup, application_ = application;
  spent_ += all;
  const double iteration = measured_iteration();
  // The trial has what the account has left for it: whole cycles, if that is enough for one.
  const double rest = std::max((taken_.allowed - spent_) / trials_in_price, taken_.trial);
  const double affordable = std::floor(rest / iteration), whole = whole_cycles(trial_iterations);
  const auto cycle = static_cast<double>(situation_.cycle);
  trial_ = static_cast<int>(affordable >= whole   ? whole
                            : affordable >= cycle ? std::floor(affordable / cycle) * cycle
                                                  : affordable);
  const double then = iterations_of(one, remaining_) * iteration, now = remaining_ * unit_;
  if (then > clearly * now || trial_ < shortest_trial()) {
    reason_ = fmt::format(
        "one application of {} takes as long as {:.1f} iterations: {:.0f} iterations with it would take as long as "
        "{:.0f}, and likely {:.0f} are left",
        one.id, application / unit_, iterations_of(one, remaining_), then / unit_, remaining_);
    if (then <= clearly * now) reason_ += "; the account does not pay for a trial";
    being_set_up_ = nullptr;
    return false;
  }
  most_loss_ = std::max(trial_ * iteration, std::min(rest, most_share * useful()));
  return true;
}

bool ChangeRule::note_trial(double fall, double seconds, double all) {
  if (situation_.deterministic) seconds = all = trial_ * measured_iteration();
  spent_ += all;
  const double before = rate_ * seconds;
  if (fall > 0 && fall >= at_least * before) return true;
  reason_ = fmt::format(
      "in a trial of {} iterations with {} the residual fell to {:.3g} of what it was; in that time it is likely to "
      "fall to {:.3g} without it",
      trial_, being_set_up_->id, std::exp(-fall), std::exp(-before));
  being_set_up_ = nullptr;
  return false;
}

void ChangeRule::note_failure(double seconds, std::string_view why, bool too_long) {
  spent_ += situation_.deterministic ? taken_.setup : seconds;
  reason_ = fmt::format("{}: {}", being_set_up_->id, why);
  constexpr double longer = 2;
  if (too_long && setup_factor_ == 1) left_.push_back({being_set_up_, longer});
  being_set_up_ = nullptr;
}

void ChangeRule::note_change() {
  current_ = std::exchange(being_set_up_, nullptr);
  before_ = log_;
  useful_ += part_useful_, part_useful_ = 0;
}

// Seconds of the candidate's part minus the seconds in which the first type would have come as far.
double ChangeRule::loss() const noexcept {
  const double fall = has_residual_ ? before_ - least_log_ : 0;
  if (rate_ <= 0) return fall > 0 ? 0 : part_useful_;
  return part_useful_ - fall / rate_;
}

double ChangeRule::gained() const noexcept {
  return current_ && !situation_.deterministic ? -loss() - setup_seconds_ : 0;
}

void ChangeRule::note_way_back(std::string_view why) {
  if (!why.empty()) reason_ = fmt::format("{}: {}", current_->id, why);
  const double lost = std::clamp(loss(), 0.0, part_useful_);
  spent_ += lost, useful_ += part_useful_ - lost, part_useful_ = 0;
  current_ = nullptr;
}

}  // namespace protean::detail
