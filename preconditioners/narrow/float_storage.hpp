// Option `storage`: preconditioners of a solve in double precision that store and compute in float. Private to
// preconditioners/.
#pragma once
#include <memory>
#include <string_view>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// Whether the options ask for it: storage float, or auto if float is possible. Throws BadArgument for storage float of
// amg with setup classical.
bool stores_floats(std::string_view id, const PreconditionerOptions& options);

// The type `entry` by its maker for float, in an object that takes and gives doubles. With storage auto the maker for
// double takes its place, with a reason, if the entries or the setup ask for it.
std::unique_ptr<Preconditioner<double>> make_float_storage(const PreconditionerEntry& entry,
                                                           const LinearOperator<double>& A,
                                                           const PreconditionerOptions& options);

}  // namespace protean::detail
