// admit() for a kernel that is not the default one: for formats that are made of other formats. And for formats that no
// host can have.
#pragma once
#include <string>
#include <string_view>

#include "operators/assembled_matrix.hpp"

namespace protean::detail {

// What make_matrix() with this kernel will find: its exact bytes, or a refusal. An empty name is the default kernel.
// Throws as admit(), and BadArgument for a kernel that the format has not.
Admission admit_kernel(const FormatEntry& entry, const Context& context, const SparsityPattern& pattern,
                       const FormatParams& params, std::size_t value_bytes, std::string_view kernel);

// Why no build has a kernel of this format on a host: its admit() refuses every matrix there, with this reason. Empty
// for a format that has kernels there. admit() and make_matrix() refuse such a format on a host.
std::string why_not_on_host(const FormatEntry& entry);

}  // namespace protean::detail
