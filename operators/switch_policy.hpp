// When to change the storage format of a matrix during a solve: a pure function of numbers, so that it can be
// tested on recorded and made-up solves without any matrix.
//
// The rule is the one for renting or buying skis, with an account. `excess` is the time the solve has taken
// so far beyond what the same iterations would have taken in the format it began with; negative once a change
// has paid.
//   - A change is begun on the account when excess + what it can cost is at most (worst_factor - 1) times the
//   time
//     without changes so far. Nothing need be known about the future for that.
//   - It is begun earlier, on the forecast, when the fewest iterations that remain pay for it with a margin,
//   even
//     with the pessimistic product; and then only up to the larger allowance (forecast_factor - 1).
// What that guarantees is proven in switch_policy.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <protean/operators/forecast.hpp>

namespace protean {

// One format the matrix may have.
struct SwitchCandidate {
  std::string name;  // for people
  bool admitted = true;
  std::string why;             // not admitted, or lost: the reason
  std::size_t bytes = 0;       // of the matrix in it
  double product_seconds = 0;  // y = A x: measured where `measured`, else predicted
  double convert_seconds = 0;  // of a build by all threads while the solve waits, predicted or measured
  double uncertainty = 0.1;    // relative, of a predicted product_seconds
  bool measured = false;
  bool lost = false;  // tried: slower than what it replaced, failed, or given up
};

struct PolicyOptions {
  double worst_factor = 1.05;     // total time over time without changes, when the forecast keeps its word
  double forecast_factor = 1.5;   // the same when it does not
  double pessimism = 0.5;         // a product may take this many uncertainties more than predicted
  double payback = 1.0;           // what a forecast must promise, in prices
  double convert_margin = 1.25;   // a conversion is taken to need at most this many times what was predicted
  double hysteresis = 0.03;       // of an iteration: smaller gains are not worth a change
  int most_switches = 3;          // going back to the first format does not count
  int trial_products = 8;         // until the product of a new format counts as measured
  bool overlapped = true;         // build beside the solve; else it waits
  double overlap_slowdown = 0.3;  // of an iteration while a build runs beside it
  double overlap_stretch = 2;     // how many times longer a build takes beside the solve
};

// What a build beside the solve is doing.
enum class BuildState : unsigned char { none, running, ready };

// What the policy sees between two iterations. Seconds are of the wall clock.
struct PolicyState {
  std::int64_t iteration = 0;
  double seconds = 0;            // since the solve began
  double stay_seconds = 0;       // what these iterations would have taken in the first format
  double iteration_seconds = 0;  // of an iteration now, in the present format, with nothing beside it
  double products_per_iteration = 1;
  Forecast remaining;
  std::span<const SwitchCandidate> candidates;
  std::size_t first = 0, current = 0;  // of candidates: the format the solve began with, and the present one
  int switches = 0;                    // so far, without goings back
  BuildState build = BuildState::none;
  std::size_t building = 0;  // the candidate, where a build runs or is ready
  double granted = 0;        // SwitchDecision::granted of the decision that began it,
  double price = std::numeric_limits<double>::infinity();  // and its worst_seconds
  double excess_before = 0;                                // and its excess_seconds
};

enum class SwitchAction : unsigned char {
  stay,     // go on as it is (a running build goes on, too)
  begin,    // build `candidate`: beside the solve, or now
  adopt,    // what was built
  cancel,   // the running build: it has become too dear
  go_back,  // to the first format: the present one is slower
};
std::string_view to_string(SwitchAction action) noexcept;

struct SwitchDecision {
  SwitchAction action = SwitchAction::stay;
  std::size_t candidate = 0;  // for stay without a build: the best of those looked at, or the current one
  double gain_seconds = 0;    // an iteration would save, as predicted
  double cost_seconds = 0;    // price of the change in solve time, as predicted
  double worst_seconds = 0;   // the price that was compared with the account
  double excess_seconds = 0, allowed_seconds = 0;  // of the account, when it was taken
  double granted = 0;  // worst_factor or forecast_factor: what the change was begun on
  Forecast remaining;
  std::string reason;  // one sentence
};

SwitchDecision decide(const PolicyOptions& options, const PolicyState& state);

// The iteration at which to decide next when there is no build running: intervals grow with the solve, so
// that deciding costs nothing. With a build under way, decide after each iteration.
std::int64_t next_look(std::int64_t iteration) noexcept;

}  // namespace protean
