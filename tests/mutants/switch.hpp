// Which mutant is switched on: the number in the environment variable PROTEAN_MUTANT, none without it. Included by
// the copies of source files that mutants.py makes, and by nothing else. One load and one comparison a place: the
// variable is read when the program starts, before any SIMD target is entered.
// With PROTEAN_MUTANT_REACHED, a file, each place that is run leaves a mark there at the number of its mutant: a test
// that leaves none cannot see that mutant. The file is mapped and shared, so that programs started by a test mark it,
// too.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>

namespace protean_mutants {
inline constexpr unsigned long numbers = 65536;

inline unsigned char* const reached = []() -> unsigned char* {
  const char* const file = std::getenv("PROTEAN_MUTANT_REACHED");
  const int opened = file ? ::open(file, O_RDWR) : -1;
  if (opened < 0) return nullptr;
  void* const at = ::mmap(nullptr, numbers, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  return at == MAP_FAILED ? nullptr : static_cast<unsigned char*>(at);
}();

inline const int active = [] {
  const char* const number = std::getenv("PROTEAN_MUTANT");
  return number ? std::atoi(number) : 0;
}();
}  // namespace protean_mutants

#define PROTEAN_MUTANT(number)                                                         \
  ((protean_mutants::reached ? static_cast<void>(protean_mutants::reached[number] = 1) \
                             : static_cast<void>(0)),                                  \
   protean_mutants::active == (number))

// Warnings are errors in this project; a mutant may well deserve some.
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wempty-body"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#pragma GCC diagnostic ignored "-Wtype-limits"
