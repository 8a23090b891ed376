// A simulated solve without a matrix: a World gives the times, and decide() is called as in a real solve.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "operators/policy/switch_policy.hpp"

namespace protean::test {

// The true times of a format, and the predictions that the policy gets before it has measured.
struct SimulatedFormat {
  double product = 1, convert = 0;                      // true seconds
  double predicted_product = 1, predicted_convert = 0;  // predictions of the cost model
  bool build_fails = false;
  std::string order = "none";                   // of the rows
  double ordering = 0, predicted_ordering = 0;  // added to the conversion from another order
};

struct World {
  std::vector<SimulatedFormat> formats;  // [0]: the one the solve begins with
  double rest = 0.3;                     // seconds of an iteration without its product
  std::int64_t iterations = 1000;        // when the solve ends
  std::function<double(std::int64_t)> residual = [](std::int64_t k) { return std::pow(0.99, k); };
  double goal = 1e-8;
  double permute = 0, predicted_permute = 0;  // seconds in which the vectors of the solve are permuted
  double record = 0, predicted_record = 0;    // seconds in which steps are recorded again after each change
  double slowdown = 0.3, stretch = 2;         // while a build runs next to the solve
  double noise = 0;                           // relative, of each measured time
  std::uint32_t seed = 1;
};

struct Outcome {
  double seconds = 0, stay = 0;  // true: with the policy, and without any change
  double check_and_trial = 0;    // of it, products of checks
  // By how much conversions, permutations and recordings exceeded what they were said to cost at most.
  double beyond_price = 0;
  double beyond_trial = 0;   // trial products slower than the policy reckons with
  double between_looks = 0;  // the slowdown of the last iteration of each build next to the solve
  double slow_kept = 0;      // iterations in formats measured no slower but truly slower (noise)
  // The largest time above the bound after any iteration and any change: above the largest factor that was granted
  // until then, times the time without changes, and above what breaks the assumptions of the proof: the three times
  // named here.
  double above_bound = -INFINITY;
  int switches = 0, begun = 0, backs = 0, cancelled = 0;
  std::size_t last_format = 0;
  bool forecast_used = false;
  std::vector<SwitchDecision> decisions;
};

inline Outcome simulate(const World& world, const PolicyOptions& options) {
  std::mt19937 random(world.seed);
  std::normal_distribution<double> normal(0, 1);
  const auto noisy = [&](double seconds) {
    return world.noise > 0 ? seconds * std::exp(world.noise * normal(random)) : seconds;
  };

  std::vector<SwitchCandidate> candidates;
  for (std::size_t i = 0; i < world.formats.size(); ++i) {
    SwitchCandidate candidate;
    candidate.name = fmt::format("format {}", i);
    candidate.product_seconds = world.formats[i].predicted_product;
    candidate.order = world.formats[i].order;
    candidates.push_back(std::move(candidate));
  }

  Outcome outcome;
  PolicyState state;
  ResidualForecast forecast;
  double now = 0, build_end = 0;
  std::int64_t look = 8, in_format = 0;
  std::vector<double> products;  // measured in the present format, latest last
  double granted = options.worst_factor, last_slowdown = 0;
  const auto check_bound = [&] {
    const double bound =
        granted * outcome.stay + outcome.beyond_price + outcome.beyond_trial + outcome.between_looks;
    outcome.above_bound = std::max(outcome.above_bound, now - bound);
  };
  const auto reorders = [&](std::size_t format) {
    return world.formats[format].order != world.formats[state.current].order;
  };
  const auto convert = [&](std::size_t format) {
    return world.formats[format].convert + (reorders(format) ? world.formats[format].ordering : 0);
  };
  const double permute_beyond = std::max(0.0, world.permute - world.predicted_permute);
  const auto switch_to = [&](std::size_t format, double seconds) {
    now += seconds + (reorders(format) ? world.permute : 0) + world.record;
    if (reorders(format)) outcome.beyond_price += permute_beyond;
    outcome.beyond_price += std::max(0.0, world.record - world.predicted_record);
    if (format != 0)
      ++outcome.switches, ++state.switches;
    else
      ++outcome.backs;
    state.current = format, in_format = 0;
    products.clear();
    state.build = BuildState::none;
  };

  for (std::int64_t k = 0; k <= world.iterations; ++k) {
    forecast.add(k, world.residual(k));
    if (k == world.iterations) break;
    // The work of the observer between two iterations.
    const bool was_building = state.build == BuildState::running;
    if (state.build == BuildState::running && now >= build_end) {
      if (world.formats[state.building].build_fails) {
        candidates[state.building].lost = true;
        state.build = BuildState::none;
      } else {
        state.build = BuildState::ready;
      }
    }
    if (k >= look || state.build != BuildState::none) {
      if (state.build == BuildState::none) look = detail::next_look(k);
      SwitchCandidate& current = candidates[state.current];
      if (in_format >= options.trial_products) {
        std::vector<double> latest(products.end() - std::min<std::ptrdiff_t>(16, std::ssize(products)),
                                   products.end());
        std::nth_element(latest.begin(), latest.begin() + std::ssize(latest) / 2, latest.end());
        current.product_seconds = latest[latest.size() / 2], current.measured = true;
      }
      state.iteration = k, state.seconds = now;
      state.stay_seconds = static_cast<double>(k) * (world.rest + world.formats[0].product);
      state.iteration_seconds = world.rest + current.product_seconds;
      state.remaining = forecast.remaining(world.goal, 1'000'000);
      state.permute_seconds = world.predicted_permute, state.record_seconds = world.predicted_record;
      for (std::size_t i = 0; i < candidates.size(); ++i)
        candidates[i].convert_seconds =
            world.formats[i].predicted_convert + (reorders(i) ? world.formats[i].predicted_ordering : 0);
      state.candidates = candidates;
      const SwitchDecision decision = decide(options, state);
      const std::size_t chosen = decision.candidate;
      const double check = world.formats[state.current].product +
                           (chosen < candidates.size() ? world.formats[chosen].product : 0);
      const double slowest = candidates[chosen].product_seconds *
                             (candidates[chosen].measured ? 1 : 1 + 2 * candidates[chosen].uncertainty);
      // In the check and in the trial.
      const double too_slow = static_cast<double>(1 + options.trial_products) *
                              std::max(0.0, world.formats[chosen].product - slowest);
      if (decision.action != SwitchAction::stay) outcome.decisions.push_back(decision);
      switch (decision.action) {
        case SwitchAction::stay:
          break;
        case SwitchAction::begin:
          ++outcome.begun;
          state.granted = decision.granted, state.price = decision.worst_seconds;
          state.excess_before = decision.excess_seconds;
          outcome.forecast_used |= decision.granted > options.worst_factor;
          granted = std::max(granted, decision.granted);
          if (options.overlapped) {
            state.build = BuildState::running, state.building = chosen;
            build_end = now + convert(chosen) * world.stretch;
          } else {
            const double built = convert(chosen);
            outcome.beyond_price +=
                std::max(0.0, built - options.convert_margin * candidates[chosen].convert_seconds);
            if (world.formats[chosen].build_fails) {
              now += built;
              candidates[chosen].lost = true;
              break;
            }
            outcome.beyond_trial += too_slow;
            outcome.check_and_trial += check;
            switch_to(chosen, built + check);
          }
          break;
        case SwitchAction::adopt:
          outcome.beyond_trial += too_slow;
          outcome.check_and_trial += check;
          switch_to(chosen, check);
          break;
        case SwitchAction::cancel:
          ++outcome.cancelled;
          candidates[chosen].lost = true;
          state.build = BuildState::none;
          break;
        case SwitchAction::go_back:
          candidates[state.current].lost = true;
          switch_to(0, convert(0));
          break;
      }
      if (decision.action != SwitchAction::stay) look = k + options.trial_products;
    }
    // A build that has come to its end, or to its limit, had one iteration more than the last look allowed.
    if (was_building && state.build != BuildState::running) outcome.between_looks += last_slowdown;
    check_bound();
    // One iteration.
    const double product = world.formats[state.current].product;
    const double factor = state.build == BuildState::running ? 1 + world.slowdown : 1;
    now += (world.rest + product) * factor;
    outcome.stay += world.rest + world.formats[0].product;
    last_slowdown = (world.rest + product) * (factor - 1);
    if (state.build != BuildState::running) products.push_back(noisy(product));
    ++in_format;
    outcome.slow_kept += std::max(0.0, product - world.formats[0].product);
  }
  // The solve has ended; so has a build next to it.
  if (state.build == BuildState::running) outcome.between_looks += last_slowdown;
  check_bound();
  outcome.seconds = now, outcome.last_format = state.current;
  return outcome;
}

}  // namespace protean::test
