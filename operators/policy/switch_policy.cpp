// The bounds that the rule guarantees, with their proof.
//
// S_k: seconds that k iterations take in the first format. T_k: seconds they took with changes. The excess is
// E_k = T_k - S_k. Two assumptions:
//   (P) A change begun with price bound W raises E by at most W until the product of its format has been
//       measured.
//   (K) A format that is kept is no slower than the first one. The policy goes back as soon as a format is
//       measured slower than the first. An error d of that measurement adds at most d S_N.
//
// 1. Always: T_N <= forecast_factor S_N. A change begins only where E + W <= (f - 1) S_k for some
//    f <= forecast_factor. E stays below that bound until the format is measured, and does not rise
//    afterwards. S_k does not fall. Therefore E_k <= (forecast_factor - 1) S_k for all k, by induction over
//    the changes.
// 2. T_N <= worst_factor S_N, when every change begun on the forecast gets what the forecast promised: at
//    least `low` more iterations, each shorter by at least the pessimistic gain. Changes begun on the account
//    keep E <= (worst_factor - 1) S_k as in 1. A change begun on the forecast at iteration k costs at most W.
//    Before the solve ends it saves at least payback (W + max(E_k, 0)) >= W + E_k. So E <= 0 once it has paid
//    for itself. Later changes begin with the excess of their own iteration.
// 3. With forecast_factor = worst_factor no change begins on the forecast, and 2. holds always.
//
// A change of the order of the rows is a change like any other. Its price W has the time to find the order and to permute
// the matrix, and the vectors of the solve that are permuted at the change and on the way back. A product in another order
// has the permutations of vectors that the preconditioner then needs, so (K) holds for iterations.
//
// Assumption (P) for a build while the solve waits: it takes at most convert_margin times the predicted time.
// For a build beside the solve no assumption is needed. It is cancelled when E + (check, trial, way back)
// reaches the bound on which it was begun, and, if it was begun on the forecast, when it has cost W. Both
// limits are exceeded by at most the slowdown between two looks. In both cases a product of the new format is
// assumed to take at most 1 + 2 uncertainty times the predicted time. Where it takes longer, check and trial add
// (1 + trial_products) times the difference to E, once for each change, before the policy goes back.
#include "operators/policy/switch_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace protean {
namespace {

constexpr double check_products = 2;  // the old and the new product are compared before a change

// Gain and cost of a change to one candidate, in seconds.
struct Offer {
  double gain = 0;      // saved in each iteration, with the predicted product
  double low_gain = 0;  // the same with the pessimistic product
  double cost = 0;      // predicted
  double worst = 0;     // upper bound: with margins, check, trial and way back
};

class Decider {
 public:
  Decider(const PolicyOptions& options, const PolicyState& state)
      : options_(options), state_(state), current_(state.candidates[state.current]) {}

  SwitchDecision operator()() const {
    if (state_.build == BuildState::running) return continue_or_cancel_build();
    if (state_.build == BuildState::ready) return adopt_or_drop_build();
    if (!current_.measured)
      return answer(SwitchAction::stay, state_.current, {},
                    "the product of the current format has not been measured yet");
    if (const SwitchCandidate& first = state_.candidates[state_.first];
        state_.current != state_.first && current_.product_seconds > first.product_seconds)
      return answer(SwitchAction::go_back, state_.first, offer(first),
                    fmt::format("a product takes {} in {}; it took {} in {}", time(current_.product_seconds),
                                current_.name, time(first.product_seconds), first.name));
    return choose_candidate();
  }

 private:
  static std::string time(double seconds) {
    if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
    if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
    return fmt::format("{:.3g} s", seconds);
  }

  double excess() const { return state_.seconds - state_.stay_seconds; }
  double allowed(double factor) const { return (factor - 1) * state_.stay_seconds; }
  // Upper bound of the time after the build until the policy may have gone back to the first format: the
  // adoption and a trial, in which products are slower than predicted by two uncertainties, and the way back.
  double trial_seconds(const SwitchCandidate& candidate) const {
    const double slow = candidate.product_seconds * (candidate.measured ? 1 : 1 + 2 * candidate.uncertainty);
    const double loss = std::max(0.0, slow - current_.product_seconds);
    const SwitchCandidate& first = state_.candidates[state_.first];
    return adoption_seconds(candidate, slow) + options_.trial_products * loss +
           options_.convert_margin * first.convert_seconds + permute_seconds(candidate, first);
  }
  // After the build: the comparison of the products, and in another order the vectors of the solve.
  double adoption_seconds(const SwitchCandidate& candidate, double product_seconds) const {
    return check_products / 2 * (current_.product_seconds + product_seconds) +
           permute_seconds(current_, candidate);
  }
  double permute_seconds(const SwitchCandidate& from, const SwitchCandidate& to) const {
    return from.order == to.order ? 0 : state_.permute_seconds;
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
    result.cost = build + adoption_seconds(candidate, candidate.product_seconds);
    result.worst = options_.convert_margin * build + trial_seconds(candidate);
    return result;
  }

  // Without a forecast: the solve is expected to last as long again as it has lasted.
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

  SwitchDecision continue_or_cancel_build() const {
    const SwitchCandidate& candidate = state_.candidates[state_.building];
    const Offer o = offer(candidate);
    // The build was started because of the forecast. It now costs more than the highest cost predicted, so
    // the forecast does not hold. A build started on the account may use the whole account: it may be nearly
    // finished.
    const double spent = excess() - state_.excess_before;
    if (state_.granted > options_.worst_factor && spent > state_.price)
      return answer(SwitchAction::cancel, state_.building, o,
                    fmt::format("building {} has cost {}; at most {} were predicted", candidate.name,
                                time(spent), time(state_.price)),
                    state_.granted);
    if (excess() + trial_seconds(candidate) > allowed(state_.granted))
      return answer(SwitchAction::cancel, state_.building, o,
                    fmt::format("building {} would exceed the allowance of {}; the excess is {} already",
                                candidate.name, time(allowed(state_.granted)), time(excess())),
                    state_.granted);
    return answer(SwitchAction::stay, state_.building, o, fmt::format("{} is being built", candidate.name),
                  state_.granted);
  }

  SwitchDecision adopt_or_drop_build() const {
    const SwitchCandidate& candidate = state_.candidates[state_.building];
    Offer o = offer(candidate);
    o.cost = adoption_seconds(candidate, candidate.product_seconds);
    if (net(o) <= 0)
      return answer(
          SwitchAction::stay, state_.building, o,
          fmt::format("{} is ready, but only about {:.0f} iterations remain; adopting it would cost more",
                      candidate.name, likely_iterations()),
          state_.granted);
    return answer(SwitchAction::adopt, state_.building, o, fmt::format("{} is ready", candidate.name),
                  state_.granted);
  }

  SwitchDecision choose_candidate() const {
    // The best candidate whose change may begin. If there is none, the best of those that would gain, to report why it may not.
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
    if (best == state_.current)
      return answer(SwitchAction::stay, best, {}, "there is no other format to change to");
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
    const std::string because =
        granted == options_.worst_factor
            ? fmt::format("its cost of at most {} is within the allowance of {}", time(o.worst),
                          time(allowed(granted) - excess()))
            : fmt::format("at least {:.0f} iterations remain, which save {} for a cost of at most {}",
                          state_.remaining.low, time(state_.remaining.low * o.low_gain), time(o.worst));
    return answer(SwitchAction::begin, index, o,
                  fmt::format("{} would save {} an iteration; {}", candidate.name, time(o.gain), because),
                  granted);
  }

  std::string why_not(const SwitchCandidate& candidate, const Offer& o) const {
    if (state_.switches >= options_.most_switches)
      return fmt::format("the format has been changed {} times, the largest number allowed", state_.switches);
    if (!gains_enough(o))
      return fmt::format("no format is expected to be faster by {:.0f} % of an iteration",
                         100 * options_.hysteresis);
    if (net(o) <= 0)
      return fmt::format(
          "{} would save {} an iteration and cost {}: that pays after {:.0f} iterations, and about {:.0f} "
          "remain",
          candidate.name, time(o.gain), time(o.cost), o.cost / o.gain, likely_iterations());
    return fmt::format("{} may cost {}; the account allows {} so far, and the forecast does not justify more",
                       candidate.name, time(o.worst),
                       time(std::max(allowed(options_.worst_factor) - excess(), 0.0)));
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

void check_policy(const PolicyOptions& options) {
  const auto require = [](const char* name, double value, bool in_range, const char* range) {
    if (!std::isfinite(value) || !in_range)
      throw BadArgument(fmt::format("{} is {}; it must be a finite number {}", name, value, range));
  };
  const auto at_least = [&](const char* name, double value, int smallest) {
    require(name, value, value >= smallest, smallest == 0 ? "of at least 0" : "of at least 1");
  };
  at_least("worst_factor", options.worst_factor, 1);
  at_least("forecast_factor", options.forecast_factor, 1);
  at_least("pessimism", options.pessimism, 0);
  at_least("payback", options.payback, 0);
  at_least("convert_margin", options.convert_margin, 1);
  at_least("hysteresis", options.hysteresis, 0);
  at_least("most_switches", options.most_switches, 0);
  at_least("trial_products", options.trial_products, 1);
  at_least("overlap_slowdown", options.overlap_slowdown, 0);
  require("overlap_stretch", options.overlap_stretch, options.overlap_stretch > 0, "above 0");
}

SwitchDecision decide(const PolicyOptions& options, const PolicyState& state) {
  return Decider(options, state)();
}

std::int64_t next_look(std::int64_t iteration) noexcept {
  return iteration + std::max<std::int64_t>(4, iteration / 8);
}

}  // namespace protean
