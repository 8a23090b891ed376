// The text of an expected error.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace protean::test {

template <class Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) { return error.what(); }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace protean::test
