#include "operators/policy/policy_options.hpp"

#include <fmt/format.h>

namespace protean {
namespace {

using P = PolicyOptions;
constexpr Option<PolicyOptions> table[] = {
    option<&P::worst_factor>({.name = "worst_factor",
                              .range = {1, finite},
                              .about = "bound of the total time over that without changes"}),
    option<&P::forecast_factor>({.name = "forecast_factor",
                                 .range = {1, finite},
                                 .about = "the same where the forecast of iterations is wrong"}),
    option<&P::pessimism>(
        {.name = "pessimism",
         .range = {0, finite},
         .about = "how many uncertainties above its prediction a product is expected at worst"}),
    option<&P::payback>({.name = "payback",
                         .range = {0, finite},
                         .about = "how many times its cost a change on the forecast must save"}),
    option<&P::convert_margin>({.name = "convert_margin",
                                .range = {1, finite},
                                .about = "upper bound of a conversion over its prediction"}),
    option<&P::hysteresis>({.name = "hysteresis",
                            .range = {0, finite},
                            .about = "smallest gain that justifies a change, relative to an iteration"}),
    option<&P::most_switches>(
        {.name = "most_switches",
         .range = {0, 1000000},
         .about = "changes to another format at most; a way back to the first one does not count"}),
    option<&P::trial_products>({.name = "trial_products",
                                .range = {1, 1000000},
                                .about = "products of a new format before its time counts as measured"}),
};

// For switch_options() alone.
constexpr Option<PolicyOptions> of_the_machine[] = {
    option<&P::overlap_slowdown>({.name = "overlap_slowdown",
                                  .range = {0, finite},
                                  .about = "relative slowdown of an iteration while a build runs"}),
    option<&P::overlap_stretch>(
        {.name = "overlap_stretch",
         .range = {0, finite, true},
         .about = "time of a build beside the solve over that of one while it waits"}),
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
