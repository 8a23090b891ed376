// What the rule guarantees.
//
// S_k is the time that k iterations take in the first format, T_k the time they took; excess E_k = T_k - S_k.
// Let a change begun with price bound W raise E by at most W until its format has been measured (assumption
// P, below), and let a format that is kept be no slower than the first one. (The policy goes back from a
// format as soon as it is measured slower than the first. What is left of the difference is the error of
// measured times, d: it adds at most d S_N.)
//
// 1. Always: T_N <= forecast_factor S_N. A change begins only where E + W <= (f - 1) S_k with f <=
// forecast_factor.
//    Until it is measured E stays below that bound; afterwards E does not rise; S does not fall. So E_k <=
//    (forecast_factor - 1) S_k at all k, by induction over the changes.
// 2. When every change begun on the forecast keeps its promise (at least `low` more iterations, each shorter
// by at
//    least the pessimistic gain): T_N <= worst_factor S_N. Changes begun on the account keep E <=
//    (worst_factor - 1) S_k as in 1. One begun on the forecast at k costs at most W and saves, before the
//    solve ends, at least payback (W + max(E_k, 0)) >= W + E_k, so that E_N <= 0 once it is paid back;
//    changes after it begin at the excess there is then.
// 3. With forecast_factor = worst_factor the forecast is never relied on, and 2. holds always.
//
// Assumption P, for a build while the solve waits: it takes at most convert_margin times what was predicted.
// For a build beside the solve nothing need be trusted: it is cancelled when E + (check, trial, way back)
// reaches the bound it was begun on and, where that is the forecast's, when it has cost W. So both are
// exceeded by no more than the slowdown between two looks. For both: a product of the new format takes at
// most 1 + 2 uncertainty times what was predicted. Where it takes longer, the trial adds trial_products times
// the difference to E, once a change, before the policy goes back.
#include "operators/switch_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace protean {
namespace {

constexpr double check_products = 2;  // old against new, before a format is adopted

// What one candidate promises and costs, in seconds.
struct Offer {
  double gain = 0, low_gain = 0;  // an iteration saves: as predicted, and by its pessimistic product
  double cost = 0, worst = 0;     // as predicted, and with margins, check and trial
};

class Decider {
 public:
  Decider(const PolicyOptions& options, const PolicyState& state)
      : options_(options), state_(state), current_(state.candidates[state.current]) {}

  SwitchDecision operator()() const {
    if (state_.build == BuildState::running) return watch_build();
    if (state_.build == BuildState::ready) return take_build();
    if (!current_.measured)
      return answer(SwitchAction::stay, state_.current, {}, "the present format has not been measured yet");
    if (const SwitchCandidate& first = state_.candidates[state_.first];
        state_.current != state_.first && current_.product_seconds > first.product_seconds)
      return answer(SwitchAction::go_back, state_.first, offer(first),
                    fmt::format("a product takes {} in {} and took {} in {}", time(current_.product_seconds),
                                current_.name, time(first.product_seconds), first.name));
    return look_around();
  }

 private:
  static std::string time(double seconds) {
    if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
    if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
    return fmt::format("{:.3g} s", seconds);
  }

  double excess() const { return state_.seconds - state_.stay_seconds; }
  double allowed(double factor) const { return (factor - 1) * state_.stay_seconds; }
  // The check of a new format, its trial at a product a good deal slower than predicted, and the way back.
  double trial_seconds(const SwitchCandidate& candidate) const {
    const double slow = candidate.product_seconds * (candidate.measured ? 1 : 1 + 2 * candidate.uncertainty);
    const double loss = std::max(0.0, slow - current_.product_seconds);
    const SwitchCandidate& first = state_.candidates[state_.first];
    return check_seconds(candidate) + options_.trial_products * loss +
           options_.convert_margin * first.convert_seconds;
  }
  double check_seconds(const SwitchCandidate& candidate) const {
    return check_products / 2 * (current_.product_seconds + candidate.product_seconds);
  }

  Offer offer(const SwitchCandidate& candidate) const {
    const double products = state_.products_per_iteration;
    const double pessimistic =
        candidate.product_seconds * (candidate.measured ? 1 : 1 + options_.pessimism * candidate.uncertainty);
    Offer result;
    result.gain = products * (current_.product_seconds - candidate.product_seconds);
    result.low_gain = products * (current_.product_seconds - pessimistic);
    const double slowdown = options_.overlap_slowdown;
    const double build = candidate.convert_seconds *
                         (options_.overlapped ? options_.overlap_stretch * slowdown / (1 + slowdown) : 1);
    result.cost = build + check_seconds(candidate);
    result.worst = options_.convert_margin * build + trial_seconds(candidate);
    return result;
  }

  // Iterations to reckon with when nothing better is known: as many as there were.
  double likely_iterations() const {
    return state_.remaining.known ? state_.remaining.likely : static_cast<double>(state_.iteration);
  }
  double net(const Offer& o) const { return likely_iterations() * o.gain - o.cost; }

  SwitchDecision answer(SwitchAction action, std::size_t candidate, const Offer& o, std::string reason,
                        double granted = 0) const {
    SwitchDecision result;
    result.action = action, result.candidate = candidate;
    result.gain_seconds = o.gain, result.cost_seconds = o.cost, result.worst_seconds = o.worst;
    result.excess_seconds = excess();
    result.allowed_seconds = allowed(granted > 0 ? granted : options_.worst_factor);
    result.granted = granted, result.remaining = state_.remaining, result.reason = std::move(reason);
    return result;
  }

  SwitchDecision watch_build() const {
    const SwitchCandidate& candidate = state_.candidates[state_.building];
    const Offer o = offer(candidate);
    // Begun on the forecast and dearer than it was said to be at the worst: what it was begun on does not
    // hold. On the account nothing was promised but the account, and a build near its end is worth waiting
    // for.
    const double spent = excess() - state_.excess_before;
    if (state_.granted > options_.worst_factor && spent > state_.price)
      return answer(SwitchAction::cancel, state_.building, o,
                    fmt::format("building {} has cost {}, more than the {} it was to cost at most",
                                candidate.name, time(spent), time(state_.price)),
                    state_.granted);
    if (excess() + trial_seconds(candidate) > allowed(state_.granted))
      return answer(SwitchAction::cancel, state_.building, o,
                    fmt::format("building {} has cost {} and would pass the allowance of {}", candidate.name,
                                time(excess()), time(allowed(state_.granted))),
                    state_.granted);
    return answer(SwitchAction::stay, state_.building, o, fmt::format("{} is being built", candidate.name),
                  state_.granted);
  }

  SwitchDecision take_build() const {
    const SwitchCandidate& candidate = state_.candidates[state_.building];
    Offer o = offer(candidate);
    o.cost = check_seconds(candidate);
    if (net(o) <= 0)
      return answer(SwitchAction::stay, state_.building, o,
                    fmt::format("{} is ready, but about {:.0f} iterations remain: too few to adopt it",
                                candidate.name, likely_iterations()),
                    state_.granted);
    return answer(SwitchAction::adopt, state_.building, o, fmt::format("{} is ready", candidate.name),
                  state_.granted);
  }

  SwitchDecision look_around() const {
    // The best offer that may be taken; else the best there is, to say why not.
    std::size_t best = state_.current, best_allowed = state_.current;
    double best_net = -INFINITY, best_allowed_net = 0, granted = 0;
    for (std::size_t i = 0; i < state_.candidates.size(); ++i) {
      const SwitchCandidate& candidate = state_.candidates[i];
      if (i == state_.current || i == state_.first || !candidate.admitted || candidate.lost) continue;
      const Offer o = offer(candidate);
      if (net(o) > best_net) best = i, best_net = net(o);
      const double grant = may_begin(o);
      if (grant > 0 && net(o) > best_allowed_net)
        best_allowed = i, best_allowed_net = net(o), granted = grant;
    }
    if (best_allowed != state_.current) return begin(best_allowed, granted);
    if (best == state_.current)
      return answer(SwitchAction::stay, best, {}, "there is no other format to change to");
    const Offer o = offer(state_.candidates[best]);
    return answer(SwitchAction::stay, best, o, why_not(state_.candidates[best], o));
  }

  // The factor on which this may be begun; 0 when it may not.
  double may_begin(const Offer& o) const {
    if (state_.switches >= options_.most_switches) return 0;
    if (o.gain < options_.hysteresis * state_.iteration_seconds || net(o) <= 0) return 0;
    if (excess() + o.worst <= allowed(options_.worst_factor)) return options_.worst_factor;
    const bool pays = state_.remaining.known && state_.remaining.low * o.low_gain >=
                                                    options_.payback * (o.worst + std::max(excess(), 0.0));
    return pays && excess() + o.worst <= allowed(options_.forecast_factor) ? options_.forecast_factor : 0;
  }

  SwitchDecision begin(std::size_t index, double granted) const {
    const SwitchCandidate& candidate = state_.candidates[index];
    const Offer o = offer(candidate);
    const std::string because =
        granted == options_.worst_factor
            ? fmt::format("its price of at most {} is within the allowance of {}", time(o.worst),
                          time(allowed(granted) - excess()))
            : fmt::format("at least {:.0f} iterations remain, which save {} for a price of at most {}",
                          state_.remaining.low, time(state_.remaining.low * o.low_gain), time(o.worst));
    return answer(SwitchAction::begin, index, o,
                  fmt::format("{} would save {} an iteration; {}", candidate.name, time(o.gain), because),
                  granted);
  }

  std::string why_not(const SwitchCandidate& candidate, const Offer& o) const {
    if (state_.switches >= options_.most_switches)
      return fmt::format("the format has been changed {} times, which is the most allowed", state_.switches);
    if (o.gain < options_.hysteresis * state_.iteration_seconds)
      return fmt::format("no format is expected to be faster by {:.0f} % of an iteration",
                         100 * options_.hysteresis);
    if (net(o) <= 0)
      return fmt::format(
          "{} would save {} an iteration and cost {}: about {:.0f} iterations remain, {:.0f} would be needed",
          candidate.name, time(o.gain), time(o.cost), likely_iterations(), o.cost / o.gain);
    return fmt::format(
        "{} may cost {}; the account allows {} so far, and the forecast does not promise enough",
        candidate.name, time(o.worst), time(std::max(allowed(options_.worst_factor) - excess(), 0.0)));
  }

  const PolicyOptions& options_;
  const PolicyState& state_;
  const SwitchCandidate& current_;
};

}  // namespace

std::string_view to_string(SwitchAction action) noexcept {
  switch (action) {
    case SwitchAction::stay:
      return "stay";
    case SwitchAction::begin:
      return "begin";
    case SwitchAction::adopt:
      return "adopt";
    case SwitchAction::cancel:
      return "cancel";
    case SwitchAction::go_back:
      return "go back";
  }
  return "?";
}

SwitchDecision decide(const PolicyOptions& options, const PolicyState& state) {
  return Decider(options, state)();
}

std::int64_t next_look(std::int64_t iteration) noexcept {
  return iteration + std::max<std::int64_t>(4, iteration / 8);
}

}  // namespace protean
