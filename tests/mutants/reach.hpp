// Appended to tests/support/crash_trace.cpp in the tree of the drawn mutants, which all test programs are linked with:
// writes behind each case which mutants' code it ran, one line "case milliseconds numbers...", into the file of marks
// (switch.hpp) with ".cases" behind its name.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "switch.hpp"

namespace protean_mutants {

class Reach final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    const std::string file = std::string(std::getenv("PROTEAN_MUTANT_REACHED")) + ".cases";
    std::FILE* const out = std::fopen(file.c_str(), "a");
    if (!out) std::abort();
    std::fprintf(out, "%s.%s %lld", test.test_suite_name(), test.name(),
                 static_cast<long long>(test.result()->elapsed_time()));
    for (unsigned long number = 0; number < numbers; ++number)
      if (reached[number]) std::fprintf(out, " %lu", number);
    std::fprintf(out, test.result()->Failed() ? " failed\n" : "\n");
    std::fclose(out);
    std::memset(reached, 0, numbers);
  }
};

[[maybe_unused]] inline const bool listens = [] {
  if (reached) testing::UnitTest::GetInstance()->listeners().Append(new Reach);
  return true;
}();

}  // namespace protean_mutants
