// admit() for a kernel that is not the default one. For formats that are made of other formats.
#pragma once
#include <string_view>

#include "operators/assembled_matrix.hpp"

namespace protean::detail {

// What make_matrix() with this kernel will find: its exact bytes, or a refusal. An empty name is the default kernel.
// Throws as admit(), and BadArgument for a kernel that the format has not.
Admission admit_kernel(const FormatEntry& entry, const Context& context, const SparsityPattern& pattern,
                       const FormatParams& params, std::size_t value_bytes, std::string_view kernel);

}  // namespace protean::detail
