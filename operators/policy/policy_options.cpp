#include "operators/policy/policy_options.hpp"

#include <fmt/format.h>

#include "core/option_checks.hpp"

namespace protean {
namespace {

using P = PolicyOptions;
constexpr Option<PolicyOptions> table[] = {
    option<&P::worst_factor>(
        {.name = "worst_factor",
         .range = {1, finite},
         .about = "Upper bound of the total time, relative to the time without changes"}),
    option<&P::forecast_factor>(
        {.name = "forecast_factor",
         .range = {1, finite},
         .about = "Upper bound of the total time, relative to the time without changes, if the forecast of "
                  "iterations is wrong"}),
    option<&P::pessimism>(
        {.name = "pessimism",
         .range = {0, finite},
         .about = "The time of a product is at worst its prediction plus this many uncertainties"}),
    option<&P::payback>({.name = "payback",
                         .range = {0, finite},
                         .about = "A change that relies on the forecast must save this many times its cost"}),
    option<&P::convert_margin>(
        {.name = "convert_margin",
         .range = {1, finite},
         .about = "Upper bound of the time of a conversion, relative to its prediction"}),
    option<&P::hysteresis>(
        {.name = "hysteresis",
         .range = {0, finite},
         .about = "Smallest gain that justifies a change, relative to the time of an iteration"}),
    option<&P::most_switches>(
        {.name = "most_switches",
         .range = {0, 1000000},
         .about = "Most changes to another format; a change back to the first format does not count"}),
    option<&P::trial_products>(
        {.name = "trial_products",
         .range = {1, 1000000},
         .about = "Number of products in a new format before its time counts as measured"}),
};

// For switch_options() alone.
constexpr Option<PolicyOptions> of_the_machine[] = {
    option<&P::overlap_slowdown>({.name = "overlap_slowdown",
                                  .range = {0, finite},
                                  .about = "Relative slowdown of an iteration while a build runs"}),
    option<&P::overlap_stretch>(
        {.name = "overlap_stretch",
         .range = {0, finite, true},
         .about = "Time of a build during the solve, relative to a build while the solve waits"}),
};

}  // namespace

std::span<const Option<PolicyOptions>> policy_options() noexcept { return table; }

void check_policy(const PolicyOptions& options) {
  check_options<PolicyOptions>(table, options);
  check_options<PolicyOptions>(of_the_machine, options);
}

void require_no_policy(const PolicyOptions& options) {
  for (const Option<PolicyOptions>& one : table)
    if (!one.is_default(options))
      refuse_unread(
          fmt::format("{} is for a policy, and the solve has none: leave it at {}, or ask for the "
                      "policy",
                      one.name, value_text(one, one.default_value())));
}

}  // namespace protean
