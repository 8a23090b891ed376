// Decides when to change the storage format of a matrix during a solve: a pure function of numbers, so that
// it can be tested on recorded and simulated solves without a matrix.
//
// The rule keeps an account, as in the problem of renting or buying skis. The excess is the time of the solve
// so far minus the time the same iterations would have taken in the first format. It is negative once a
// change has paid.
//   - A change begins on the account when the excess plus an upper bound of its cost is at most
//     (worst_factor - 1) times the time without changes so far. This needs no knowledge of the future.
//   - A change begins earlier, on the forecast, when the smallest forecast of remaining iterations pays for
//     it with the pessimistic product. The limit is then (forecast_factor - 1) times the time without
//     changes.
// switch_policy.cpp proves the bounds that this guarantees.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/reason.hpp>

namespace PROTEAN_EXPORT protean {

// One format the matrix may have, in one order of its rows.
struct SwitchCandidate {
  std::string name;            // for people
  std::string order = "none";  // of the rows; "none": the caller's numbering
  bool admitted = true;
  std::string why;             // the reason, if not admitted or lost
  std::size_t bytes = 0;       // of the matrix in it
  double product_seconds = 0;  // y = A x: measured if `measured`, else predicted
  // Seconds of a build by all threads while the solve waits, predicted or measured. If the order is not the current
  // one, they include finding the order and permuting the matrix.
  double convert_seconds = 0;
  // The part of convert_seconds for kernels that the driver loads when the process uses them first.
  double load_seconds = 0;
  double uncertainty = 0.1;  // relative, of a predicted product_seconds
  // How many times the iterations are needed that the values as they were given need, predicted or measured: above 1
  // if float rounds them. The uncertainty is absolute; 0: it was measured.
  double stretch = 1, stretch_uncertainty = 0;
  bool measured = false;
  bool lost = false;  // tried without success: it was slower, its build failed or was cancelled
};

struct PolicyOptions {
  // Bounds of total time / time without changes: if the forecast holds, and if it does not. At least 1.
  double worst_factor = 1.05, forecast_factor = 1.5;
  double pessimism = 0.5;        // the pessimistic product: this many uncertainties above the prediction
  double payback = 1.0;          // a change on the forecast must save this many times its cost
  double convert_margin = 1.25;  // upper bound of conversion time / predicted conversion time; at least 1
  double hysteresis = 0.03;      // smallest gain that justifies a change, relative to an iteration
  int most_switches = 3;         // changes back to the first format do not count
  // Products of a new format before its time counts as measured; at least 1. Twice as many if it is slower than 1 + 2
  // uncertainty times the prediction.
  int trial_products = 8;
  bool overlapped = true;         // build next to the solve; otherwise the solve waits
  double overlap_slowdown = 0.3;  // relative slowdown of an iteration while a build runs
  double overlap_stretch = 2;     // build time next to the solve / build time while the solve waits; above 0
};
// Throws BadArgument, which names the option, unless all numbers are finite, and 0 or more if nothing else is said.
void check_policy(const PolicyOptions& options);

// The state of a build next to the solve.
enum class BuildState : unsigned char { none, running, ready };

// Input of a decision, between two iterations. Times are wall-clock seconds.
struct PolicyState {
  std::int64_t iteration = 0;
  double seconds = 0;       // since the solve began
  double stay_seconds = 0;  // time the same iterations would have taken in the first format
  // Time of one iteration in the current format without a build next to it, and, like the times of products, without
  // interruptions by other work on the machine.
  double iteration_seconds = 0;
  double products_per_iteration = 1;
  double permute_seconds = 0;  // a change between two orders of the rows permutes the vectors of the solve
  double record_seconds = 0;   // after each change the steps are recorded again; 0: nothing is recorded
  Forecast remaining;
  std::span<const SwitchCandidate> candidates;
  std::size_t first = 0, current = 0;  // indices of the first format and of the current one
  // If the current candidate rounds its values: ||(b - A x) - r|| / ||b - A x|| when b - A x was computed last; and why
  // the solve has gone on with the values that were given (Matrix::leave_rounding), or why it must go on with them
  // (AutoSwitchOptions::no_rounding). Empty: it has not, and need not.
  double jump = 0;
  std::string left_rounding = {}, no_rounding = {};
  // Iterations after which it is known how many times the iterations a candidate needs that rounds.
  double trial_iterations = 0;
  int switches = 0;  // changes so far, without changes back to the first format
  BuildState build = BuildState::none;
  std::size_t building = 0;  // index of the candidate whose build is running or ready
  // From the decision that began this build: its granted, worst_seconds and excess_seconds.
  double granted = 0;
  double price = std::numeric_limits<double>::infinity();
  double excess_before = 0;
};

enum class SwitchAction : unsigned char {
  stay,    // change nothing; a running build continues
  begin,   // start to build `candidate`: next to the solve, or while the solve waits
  adopt,   // continue with the matrix that was built
  cancel,  // cancel the running build, which costs too much
  go_back,  // change back to the first format, because the current one is slower, or its values in float do harm
};
std::string_view to_string(SwitchAction action) noexcept;

struct SwitchDecision {
  SwitchAction action = SwitchAction::stay;
  std::size_t candidate = 0;  // for stay without a build: the best other format, or the current one
  double gain_seconds = 0;    // predicted saving of one iteration
  double cost_seconds = 0;    // predicted cost of the change in solve time
  double worst_seconds = 0;   // upper bound of that cost, which is compared with the account
  double excess_seconds = 0, allowed_seconds = 0;  // the account at the time of the decision
  double granted = 0;  // the factor that allowed the change to begin: worst_factor or forecast_factor
  Forecast remaining;
  Why why;
  std::string reason;  // text_of(why)
};

SwitchDecision decide(const PolicyOptions& options, const PolicyState& state);

namespace PROTEAN_HIDDEN detail {
// The iteration of the next decision while no build is running. Intervals grow with the solve, so that
// decisions cost little. While a build is running, decide after each iteration.
std::int64_t next_look(std::int64_t iteration) noexcept;
}  // namespace detail

}  // namespace protean
