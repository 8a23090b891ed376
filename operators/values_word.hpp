// The word of parameter `values` (narrow_values.hpp). Private to the library.
#pragma once
#include <string_view>
#include <utility>

#include "operators/narrow_values.hpp"

namespace protean::detail {

// auto, double or float. Empty if the kernel does not have the parameter: mgpu-csr has a number of that name.
std::string_view values_word(const FormatParams& params);

// as_admitted() for a matrix in T. In float there is nothing to decide.
template <class T>
FormatParams as_admitted_in(const FormatEntry& entry, std::string_view kernel, Space space,
                            FormatParams params) {
  if constexpr (sizeof(T) == 4) return params;
  return as_admitted(entry, kernel, space, std::move(params));
}

}  // namespace protean::detail
