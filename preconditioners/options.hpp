// The table of the options of preconditioners.
#pragma once
#include <span>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/core/options.hpp>
#include <protean/preconditioners/preconditioner.hpp>

namespace PROTEAN_EXPORT protean {

// An entry for each member of PreconditionerOptions except near_null_space and schur_operator, under the name of the
// member.
std::span<const Option<PreconditionerOptions>> preconditioner_options() noexcept;

// Whether this preconditioner reads near_null_space.
bool reads_near_null_space(std::string_view id) noexcept;

// `options`, with the default for each one that this preconditioner does not read, which make_preconditioner() would
// refuse.
PreconditionerOptions preconditioner_options_read_by(std::string_view id,
                                                     const PreconditionerOptions& options);

}  // namespace protean
