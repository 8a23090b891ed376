// The word of parameter `values` (narrow_values.hpp). Private to the library.
#pragma once
#include <string_view>

#include "operators/format_params.hpp"

namespace protean::detail {

// auto, double or float. Empty if the kernel does not have the parameter: mgpu-csr has a number of that name.
std::string_view values_word(const FormatParams& params);

}  // namespace protean::detail
