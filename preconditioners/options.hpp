// The table of the options of preconditioners.
#pragma once
#include <span>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/core/options.hpp>
#include <protean/preconditioners/preconditioner.hpp>

namespace PROTEAN_EXPORT protean {

// An entry for each member of PreconditionerOptions, under the name of the member.
std::span<const Option<PreconditionerOptions>> preconditioner_options() noexcept;

// `options` with the defaults of those that this preconditioner does not read, which make_preconditioner() would
// refuse.
PreconditionerOptions preconditioner_options_read_by(std::string_view id,
                                                     const PreconditionerOptions& options);

}  // namespace protean
