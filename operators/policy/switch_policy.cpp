// The bounds that the rule guarantees, with their proof.
//
// S_k: seconds that k iterations take in the first format. T_k: seconds they took with changes. The excess is
// E_k = T_k - S_k. Two assumptions:
//   (P) A change begun with price bound W raises E by at most W until the product of its format has been
//       measured.
//   (K) A format that is kept is no slower than the first one. The policy goes back as soon as a format is
//       measured slower than the first. An error d of that measurement adds at most d S_N.
//
// 1. Always: T_N <= forecast_factor S_N. A change begins only if E + W <= (f - 1) S_k for some f <= forecast_factor. E
//    stays below that bound until the format is measured, and does not rise afterwards. S_k does not fall. Therefore
//    E_k <= (forecast_factor - 1) S_k for all k, by induction over the changes.
// 2. T_N <= worst_factor S_N, when every change begun on the forecast gets what the forecast promised: at
//    least `low` more iterations, each shorter by at least the pessimistic gain. Changes begun on the account
//    keep E <= (worst_factor - 1) S_k as in 1. A change begun on the forecast at iteration k costs at most W.
//    Before the solve ends it saves at least payback (W + max(E_k, 0)) >= W + E_k. So E <= 0 once it has paid
//    for itself. Later changes begin with the excess of their own iteration.
// 3. With forecast_factor = worst_factor no change begins on the forecast, and 2. holds always.
//
// If the steps of the solve are recorded (a graph of a GPU), they are recorded again after a change and once more after
// a change back. W has both, each as long as the last recording took (record_seconds); what one takes longer is added
// to E.
//
// A change of the order of the rows is a change like any other. Its price W has the time to find the order and to
// permute the matrix, and the vectors of the solve that are permuted at the change and on the way back. A product in
// another order has the permutations of vectors that the preconditioner then needs, so (K) holds for iterations.
//
// A format whose values are in float may need more iterations (stretch). S_k counts the iterations that the values as
// they were given would have taken: k / stretch of them. The price W has the iterations of a trial, in which at most
// stretch + 2 uncertainty times as many are needed. Where a solve needs more of them, (P) does not hold: float disturbs
// the directions of search, and the way back to the given values does not bring back what they were. docs/precision.md
// has what that has cost.
//
// Assumption (P) for a build while the solve waits: it takes at most convert_margin times the predicted time.
// For a build next to the solve no assumption is needed. It is cancelled when E + (check, trial, way back, both
// recordings) reaches the bound on which it was begun, and, if it was begun on the forecast, when it has cost W. Both
// limits are exceeded by at most the slowdown between two looks. In both cases a product of the new format is
// assumed to take at most 1 + 2 uncertainty times the predicted time. If it takes longer, the trial is made twice as
// long, since other work may have disturbed it: check and trials add (1 + 2 trial_products) times the difference to E,
// once for each change, before the policy goes back.
#include "operators/policy/switch_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.hpp"

namespace protean {
namespace {

constexpr double check_products = 2;       // the old and the new product are compared before a change
constexpr double recordings_in_worst = 2;  // after a change and after the way back
// b - A x and the residual of the recurrence may differ by this part of b - A x. Where CG in float needs at most 1.2
// times the iterations, they differed by 2e-3 at most, in a prototype: matrices of docs/precision.md and generated
// diffusion problems.
constexpr double most_jump = 1e-2;

// Gain and cost of a change to one candidate, in seconds.
struct Offer {
  double gain = 0;      // saved in each iteration, with the predicted product
  double low_gain = 0;  // the same with the pessimistic product
  double cost = 0;      // predicted
  double worst = 0;     // upper bound: with margins, check, trial, way back and recordings
};

class Decider {
 public:
  Decider(const PolicyOptions& options, const PolicyState& state)
      : options_(options), state_(state), current_(state.candidates[state.current]) {}

  SwitchDecision operator()() const {
    if (state_.current != state_.first)
      if (std::optional<Why> harm = harm_of_rounding())
        return answer(SwitchAction::go_back, state_.first, offer(state_.candidates[state_.first]),
                      *std::move(harm));
    if (state_.build == BuildState::running) return continue_or_cancel_build();
    if (state_.build == BuildState::ready) return adopt_or_drop_build();
    if (!current_.measured)
      return answer(SwitchAction::stay, state_.current, {}, {.reason = Reason::not_measured});
    if (const SwitchCandidate& first = state_.candidates[state_.first];
        state_.current != state_.first && current_.product_seconds > first.product_seconds)
      return answer(SwitchAction::go_back, state_.first, offer(first),
                    {.reason = Reason::slower_than_first,
                     .name = current_.name,
                     .other = first.name,
                     .cost_seconds = current_.product_seconds,
                     .allowed_seconds = first.product_seconds});
    if (const SwitchCandidate& first = state_.candidates[state_.first];
        state_.current != state_.first && current_.stretch > 1 && current_.stretch_uncertainty == 0)
      if (const Offer back = offer(first); back.gain > 0 && net(back) > 0)
        return answer(SwitchAction::go_back, state_.first, back,
                      {.reason = Reason::rounding_slows,
                       .name = current_.name,
                       .share = current_.stretch,
                       .least_share = (state_.iteration_seconds - back.gain) * current_.stretch /
                                      state_.iteration_seconds});
    return choose_candidate();
  }

 private:
  // What shows without times that values in float do harm.
  std::optional<Why> harm_of_rounding() const {
    if (!state_.no_rounding.empty())
      return Why{.reason = Reason::rounding_refused, .other = state_.no_rounding};
    if (!state_.left_rounding.empty())
      return Why{.reason = Reason::rounding_left, .name = current_.name, .other = state_.left_rounding};
    if (state_.jump > most_jump)
      return Why{.reason = Reason::rounding_jumps,
                 .name = current_.name,
                 .share = state_.jump,
                 .least_share = most_jump};
    return {};
  }
  double excess() const { return state_.seconds - state_.stay_seconds; }
  double allowed(double factor) const { return (factor - 1) * state_.stay_seconds; }
  // Upper bound of the time after the build until the policy may have gone back to the first format: the
  // adoption and a trial, in which products are slower than predicted by two uncertainties, and the way back with
  // another recording of the steps.
  double trial_seconds(const SwitchCandidate& candidate) const {
    const double slow = candidate.product_seconds * (candidate.measured ? 1 : 1 + 2 * candidate.uncertainty);
    const double loss = std::max(0.0, slow - current_.product_seconds);
    const SwitchCandidate& first = state_.candidates[state_.first];
    return adoption_seconds(candidate, slow) + options_.trial_products * loss + state_.record_seconds +
           options_.convert_margin * first.convert_seconds + permute_seconds(candidate, first) +
           lost_in_trial(candidate);
  }
  // Until the iterations of a candidate that rounds have been judged, there are more of them than predicted.
  double lost_in_trial(const SwitchCandidate& candidate) const {
    if (candidate.stretch_uncertainty <= 0) return 0;
    const double stretch = candidate.stretch + 2 * candidate.stretch_uncertainty;
    return (stretch / current_.stretch - 1) * state_.trial_iterations * state_.iteration_seconds;
  }
  // After the build: the comparison of the products, in another order the vectors of the solve, and the recording of
  // the steps.
  double adoption_seconds(const SwitchCandidate& candidate, double product_seconds) const {
    return check_products / 2 * (current_.product_seconds + product_seconds) +
           permute_seconds(current_, candidate) + state_.record_seconds;
  }
  double worst_loading(const SwitchCandidate& candidate) const {
    return options_.convert_margin * candidate.load_seconds;
  }
  double permute_seconds(const SwitchCandidate& from, const SwitchCandidate& to) const {
    return from.order == to.order ? 0 : state_.permute_seconds;
  }

  // Seconds that an iteration of the current candidate is longer than the iterations, with a product of these seconds,
  // that come as far.
  double saved(double product_seconds, double stretch) const {
    const double iterations = stretch / current_.stretch;
    return iterations * state_.products_per_iteration * (current_.product_seconds - product_seconds) +
           (1 - iterations) * state_.iteration_seconds;
  }

  Offer offer(const SwitchCandidate& candidate) const {
    const double pessimistic =
        candidate.product_seconds * (candidate.measured ? 1 : 1 + options_.pessimism * candidate.uncertainty);
    Offer result;
    result.gain = saved(candidate.product_seconds, candidate.stretch);
    result.low_gain =
        saved(pessimistic, candidate.stretch + options_.pessimism * candidate.stretch_uncertainty);
    const double slowdown = options_.overlap_slowdown;
    const double build = candidate.convert_seconds *
                         (options_.overlapped ? options_.overlap_stretch * slowdown / (1 + slowdown) : 1);
    result.cost = build + adoption_seconds(candidate, candidate.product_seconds);
    result.worst = options_.convert_margin * build + trial_seconds(candidate);
    return result;
  }

  // Without a forecast: the solve is expected to last as long again as it has lasted.
  double likely_iterations() const {
    return state_.remaining.known ? state_.remaining.likely : static_cast<double>(state_.iteration);
  }
  double net(const Offer& o) const { return likely_iterations() * o.gain - o.cost; }

  SwitchDecision answer(SwitchAction action, std::size_t candidate, const Offer& o, Why why,
                        double granted = 0) const {
    SwitchDecision result;
    result.action = action, result.candidate = candidate;
    result.gain_seconds = o.gain, result.cost_seconds = o.cost, result.worst_seconds = o.worst;
    result.excess_seconds = excess();
    result.allowed_seconds = allowed(granted > 0 ? granted : options_.worst_factor);
    result.granted = granted, result.remaining = state_.remaining;
    result.reason = text_of(why), result.why = std::move(why);
    return result;
  }

  SwitchDecision continue_or_cancel_build() const {
    const SwitchCandidate& candidate = state_.candidates[state_.building];
    const Offer o = offer(candidate);
    // The build was started because of the forecast. It now costs more than the highest cost predicted, so
    // the forecast does not hold. A build started on the account may use the whole account: it may be nearly
    // finished.
    const double spent = excess() - state_.excess_before;
    if (state_.granted > options_.worst_factor && spent > state_.price)
      return answer(SwitchAction::cancel, state_.building, o,
                    {.reason = Reason::build_dear,
                     .name = candidate.name,
                     .cost_seconds = spent,
                     .allowed_seconds = state_.price},
                    state_.granted);
    if (excess() + trial_seconds(candidate) > allowed(state_.granted))
      return answer(SwitchAction::cancel, state_.building, o,
                    {.reason = Reason::build_over_limit,
                     .name = candidate.name,
                     .cost_seconds = excess(),
                     .allowed_seconds = allowed(state_.granted)},
                    state_.granted);
    return answer(SwitchAction::stay, state_.building, o,
                  {.reason = Reason::building, .name = candidate.name}, state_.granted);
  }

  SwitchDecision adopt_or_drop_build() const {
    const SwitchCandidate& candidate = state_.candidates[state_.building];
    Offer o = offer(candidate);
    o.cost = adoption_seconds(candidate, candidate.product_seconds);
    if (net(o) <= 0)
      return answer(
          SwitchAction::stay, state_.building, o,
          {.reason = Reason::ready_too_late, .name = candidate.name, .iterations = likely_iterations()},
          state_.granted);
    return answer(SwitchAction::adopt, state_.building, o, {.reason = Reason::ready, .name = candidate.name},
                  state_.granted);
  }

  SwitchDecision choose_candidate() const {
    // The best candidate whose change may begin. If there is none, the best of the candidates that would gain, to
    // report why its change may not begin.
    std::size_t best = state_.current, best_allowed = state_.current;
    double best_net = -INFINITY, best_allowed_net = 0, granted = 0;
    bool best_gains = false;
    for (std::size_t i = 0; i < state_.candidates.size(); ++i) {
      const SwitchCandidate& candidate = state_.candidates[i];
      if (i == state_.current || i == state_.first || !candidate.admitted || candidate.lost) continue;
      const Offer o = offer(candidate);
      const bool gains = gains_enough(o);
      if (gains != best_gains ? gains : net(o) > best_net) best = i, best_net = net(o), best_gains = gains;
      const double factor = allowing_factor(o);
      if (factor > 0 && net(o) > best_allowed_net)
        best_allowed = i, best_allowed_net = net(o), granted = factor;
    }
    if (best_allowed != state_.current) return begin(best_allowed, granted);
    if (best == state_.current) return answer(SwitchAction::stay, best, {}, {.reason = Reason::no_other});
    const Offer o = offer(state_.candidates[best]);
    return answer(SwitchAction::stay, best, o, why_not(state_.candidates[best], o));
  }

  bool gains_enough(const Offer& o) const { return o.gain >= options_.hysteresis * state_.iteration_seconds; }

  // The factor that allows this change to begin: worst_factor, forecast_factor, or 0 for neither.
  double allowing_factor(const Offer& o) const {
    if (state_.switches >= options_.most_switches) return 0;
    if (!gains_enough(o) || net(o) <= 0) return 0;
    if (excess() + o.worst <= allowed(options_.worst_factor)) return options_.worst_factor;
    // Time lost before must be saved, too. Time saved before is not spent: a change pays for itself.
    const bool pays = state_.remaining.known && state_.remaining.low * o.low_gain >=
                                                    options_.payback * (o.worst + std::max(excess(), 0.0));
    return pays && excess() + o.worst <= allowed(options_.forecast_factor) ? options_.forecast_factor : 0;
  }

  SwitchDecision begin(std::size_t index, double granted) const {
    const SwitchCandidate& candidate = state_.candidates[index];
    const Offer o = offer(candidate);
    Why why{.name = candidate.name,
            .gain_seconds = o.gain,
            .cost_seconds = o.worst,
            .record_seconds = recordings_in_worst * state_.record_seconds,
            .load_seconds = worst_loading(candidate)};
    if (granted == options_.worst_factor) {
      why.reason = Reason::within_account, why.allowed_seconds = allowed(granted) - excess();
    } else {
      why.reason = Reason::by_forecast, why.iterations = state_.remaining.low;
      why.allowed_seconds = state_.remaining.low * o.low_gain;
    }
    return answer(SwitchAction::begin, index, o, std::move(why), granted);
  }

  Why why_not(const SwitchCandidate& candidate, const Offer& o) const {
    if (state_.switches >= options_.most_switches)
      return {.reason = Reason::most_switches, .count = state_.switches};
    if (!gains_enough(o)) return {.reason = Reason::small_gain, .least_share = options_.hysteresis};
    if (net(o) <= 0)
      return {.reason = Reason::does_not_pay,
              .name = candidate.name,
              .gain_seconds = o.gain,
              .cost_seconds = o.cost,
              .record_seconds = state_.record_seconds,
              .load_seconds = candidate.load_seconds,
              .iterations = o.cost / o.gain,
              .more_iterations = likely_iterations()};
    return {.reason = Reason::beyond_account,
            .name = candidate.name,
            .cost_seconds = o.worst,
            .record_seconds = recordings_in_worst * state_.record_seconds,
            .load_seconds = worst_loading(candidate),
            .allowed_seconds = std::max(allowed(options_.worst_factor) - excess(), 0.0)};
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

std::int64_t detail::next_look(std::int64_t iteration) noexcept {
  return iteration + std::max<std::int64_t>(4, iteration / 8);
}

}  // namespace protean
