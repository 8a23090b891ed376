// What the policy of a solve is given: its options, and the survey of the formats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <protean/core/context.hpp>
#include <protean/core/export.hpp>
#include <protean/core/locality.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/operators/policy/switch_records.hpp>
#include <protean/solvers/stopping.hpp>

namespace PROTEAN_EXPORT protean {

// Returns the formats that the matrix can have, in the order of its rows at the time of the call (the orders of their
// specs are not read). It is called once, when the solve has lasted long enough for a change, and again after a change
// of order. For a host matrix it runs in the thread of the solve, and its time counts as spent. For a device matrix it
// runs in another thread as background work, which is cancelled when the solve ends. survey_formats() of a Matrix does
// this.
using FormatSurvey = std::function<std::vector<SwitchTarget>()>;

struct AutoSwitchOptions {
  PolicyOptions policy;
  double goal = 1e-8;        // the relative residual at which the solve will stop
  double absolute_goal = 0;  // or the 2-norm of the residual
  std::int64_t max_iterations = 10000;
  double survey_seconds = 0.3e-3;  // assumed time of a survey
  // The iterations that earlier solves like this one needed; 0: not known. They are the forecast until half of them are
  // done.
  std::int64_t expected_iterations = 0;
  // The expected number of iterations of later solves that will also use the format.
  double following_iterations = 0;
  // The order of the rows that is considered next to the present one: a name of FormatSpec::order. Empty: none. It is
  // not considered in deterministic mode, for element matrices, and if x has at most cached_x bytes. On a device it is
  // not considered if the search would have so many levels that the host would make it.
  std::string order = "rcm";
  // In a solve by MultiSolver: the number of its right-hand sides. A product is then a product with all columns that
  // have not ended, and the order of the rows stays. 0: a solve by Solver.
  std::int64_t columns = 0;
  // The selector that names the formats to survey; empty: all formats that may be the fastest. SystemMatrix follows it;
  // the policy itself takes what the survey finds.
  std::string selector = {};
  // Whether formats with values in float are surveyed (SolveSettings::precision), and why this solve may not change to
  // one whose values are rounded; empty: it may.
  bool rounding = false;
  std::string no_rounding = {};
  std::size_t cached_x = cached_bytes_of_x;
  // Forecasts the gain of that order from the pattern in the space of the solve. It is called once: in another thread
  // if builds are overlapped or on a device, else in the thread of the solve. Empty: forecast_order().
  std::function<OrderForecast(const SparsityPattern& pattern, std::size_t value_bytes)> forecast_order = {};
  // Calls `decide` if no other solve uses the operator, keeps others from beginning meanwhile, and returns whether it
  // called it. If it did not, the policy changes nothing and asks again. Empty: this solve alone uses the operator.
  std::function<bool(const std::function<void()>& decide)> alone = {};
  // Asked before a change is begun, with the seconds of a product in the present format and in the new one. If it
  // returns false, nothing changes, and it is asked again after each iteration in which the change pays. Empty: every
  // change is allowed.
  std::function<bool(double now, double then)> approve = {};
};

// The options for a solve in this context that ends by `rule`. A build next to the solve (policy.overlapped) needs a
// separate processor, so the host overlaps if the context has fewer threads than there are processors. On a device the
// build and the solve share the memory bandwidth, and a build takes the time of a few products, so the solve waits for
// the build.
AutoSwitchOptions switch_options(const Context& context, const StoppingRule& rule,
                                 const PolicyOptions& policy = {});

}  // namespace protean
