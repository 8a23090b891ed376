// Texts: whether one has a part, and what an error says.
#pragma once
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace protean::test {

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Empty if the call throws no such error.
template <class E = Error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) { return error.what(); }
  return {};
}

}  // namespace protean::test
