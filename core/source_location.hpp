// The part of std::source_location that is used here. It is a member of exceptions, which cross the border of the
// shared library, so it is the same class for all compilers: clang before 16 has no std::source_location.
#pragma once
#include <cstdint>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          std::uint_least32_t line = __builtin_LINE()) noexcept {
    SourceLocation here;
    here.file_ = file, here.function_ = function, here.line_ = line;
    return here;
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr const char* function_name() const noexcept { return function_; }
  constexpr std::uint_least32_t line() const noexcept { return line_; }

 private:
  const char *file_ = "", *function_ = "";
  std::uint_least32_t line_ = 0;
};

}  // namespace protean
