// The table of the options of the policy.
#pragma once
#include <span>

#include <protean/core/options.hpp>
#include <protean/operators/policy/switch_policy.hpp>

namespace protean {

// An entry for each member of PolicyOptions except `overlapped` and the numbers that follow from it, which
// switch_options() sets for a machine.
std::span<const Option<PolicyOptions>> policy_options() noexcept;

// For a solve without policy: throws BadArgument for the first of these options that is not its default.
void require_no_policy(const PolicyOptions& options);

}  // namespace protean
