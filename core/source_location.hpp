// std::source_location, or the part of it used here where the compiler has none (clang before 16).
#pragma once
#include <cstdint>
#include <version>

#if defined(__cpp_lib_source_location)
#include <source_location>
namespace protean {
using SourceLocation = std::source_location;
}  // namespace protean
#else
namespace protean {
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
  constexpr std::uint_least32_t column() const noexcept { return 0; }

 private:
  const char *file_ = "", *function_ = "";
  std::uint_least32_t line_ = 0;
};
}  // namespace protean
#endif
