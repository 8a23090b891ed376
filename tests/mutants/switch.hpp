// Which mutant is switched on: the number in the environment variable PROTEAN_MUTANT, none without it. Included by
// the copies of source files that mutants.py makes, and by nothing else. One load and one comparison a place: the
// variable is read when the program starts, before any SIMD target is entered.
#pragma once
#include <cstdlib>

namespace protean_mutants {
inline const int active = [] {
  const char* const number = std::getenv("PROTEAN_MUTANT");
  return number ? std::atoi(number) : 0;
}();
}  // namespace protean_mutants

#define PROTEAN_MUTANT(number) (protean_mutants::active == (number))

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
