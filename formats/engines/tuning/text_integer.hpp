// Integers of parameters that also have words, such as `measured`. Private to formats/.
#pragma once
#include <string>

#include "core/error.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// Throws BadArgument when it is not an integer, or out of range.
inline std::int64_t integer_within(const FormatParams& params, std::string_view name, std::int64_t smallest,
                                   std::int64_t largest) {
  const std::int64_t value = params.integer(name);
  if (value < smallest || value > largest)
    throw BadArgument("parameter " + std::string(name) + " is " + std::to_string(value) +
                      "; it must be from " + std::to_string(smallest) + " to " + std::to_string(largest) +
                      ", or measured");
  return value;
}

}  // namespace protean::formats
