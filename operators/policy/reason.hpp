// Why a decision of the policy was taken: a value, of which the text for a person is made in one place.
#pragma once
#include <cstdint>
#include <string>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// The members of Why that belong to each reason are in brackets. A reason with a price also has [record_seconds], the
// part of the price in which the steps of the solve are recorded again.
enum class Reason : unsigned char {
  none,
  // To stay as it is.
  not_measured,    // the product of the current format
  no_other,        // there is no other format
  building,        // [name] is being built
  ready_too_late,  // [name] is ready, but about [iterations] remain
  most_switches,   // there were [count] changes, the largest number allowed
  small_gain,      // no format gains [least_share] of an iteration
  // [name] gains [gain_seconds] an iteration for [cost_seconds], which takes [iterations]; about [more_iterations]
  // remain
  does_not_pay,
  beyond_account,    // [name] may cost [cost_seconds], the account has [allowed_seconds]
  no_gain_by_table,  // the machine table sees none for which a product would be timed
  rows_kept,         // the matrix is in the shared memory of the GPU
  survey_failed,     // [other] says why
  shared,            // another solve uses the matrix
  not_approved,      // AutoSwitchOptions::approve has refused [name] for now
  no_memory,         // for the vectors with which a product would be timed: [other]
  // The order of the rows stays.
  order_of_elements,
  order_deterministic,
  order_not_square,
  order_cached,        // x of [count] rows is in the caches
  order_present,       // it is [name] already
  order_unavailable,   // [name] is not in this build: [other]
  order_shared,        // several solves use the operator
  order_unpriced,      // the machine table does not know [name]
  order_no_thread,     // [other] says why
  order_not_forecast,  // [other] says why
  order_small_gain,    // [other]: the lines; a product saves [share], [least_share] is wanted
  order_many_levels,   // a search has about [iterations] levels, at most [count]
  rounding_refused,    // values are not rounded in this solve: [other] says why
  // To begin a change to [name], which gains [gain_seconds] an iteration.
  within_account,  // [cost_seconds] at most, of [allowed_seconds]
  by_forecast,     // [iterations] remain, which save [allowed_seconds] for [cost_seconds] at most
  // To adopt.
  ready,  // [name]
  // To cancel.
  build_dear,        // of [name]: it has cost [cost_seconds], at most [allowed_seconds] were predicted
  build_over_limit,  // of [name]: it would exceed [allowed_seconds], the excess is [cost_seconds]
  // To go back.
  slower_than_first,  // a product of [name] takes [cost_seconds], of [other], the first, [allowed_seconds]
  // To go back for good from [name], whose values are in float: undone.
  // The residual falls [share] times as slowly; an iteration of the first takes [least_share] of the time.
  rounding_slows,
  rounding_jumps,  // b - A x differs from the residual of the recurrence by [share] of itself, at most [least_share]
  rounding_left,  // the solve has gone on with the values that were given: [other]
  // What became of a candidate.
  not_in_table,   // the machine table has no measurement of it
  change_failed,  // [other] says why
  order_failed,   // a change to [name], in this order, failed: [other]
  solve_ended     // before it was adopted
};

struct Why {
  Reason reason = Reason::none;
  std::string name = {}, other = {};
  double gain_seconds = 0, cost_seconds = 0, record_seconds = 0, load_seconds = 0, allowed_seconds = 0;
  double iterations = 0, more_iterations = 0;
  double share = 0, least_share = 0;
  std::int64_t count = 0;
};

// Whether one repeats the other: with other numbers only.
inline bool same_but_for_numbers(const Why& a, const Why& b) noexcept {
  return a.reason == b.reason && a.name == b.name;
}

// One sentence for a person, without a full stop. Empty for none.
std::string text_of(const Why& why);

}  // namespace protean
