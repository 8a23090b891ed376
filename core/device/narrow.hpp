// Sizes for libraries that take a smaller integer type.
#pragma once
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace protean {

// `value` converted to Target. Throws BadArgument, which names `what`, if Target cannot hold it.
template <class Target, class Source>
Target narrow(Source value, std::string_view what, SourceLocation where = SourceLocation::current()) {
  const auto result = static_cast<Target>(value);
  if (static_cast<Source>(result) != value || ((result < Target{}) != (value < Source{})))
    throw BadArgument(std::string(what) + " = " + std::to_string(value) + " does not fit its integer type",
                      where);
  return result;
}

}  // namespace protean
