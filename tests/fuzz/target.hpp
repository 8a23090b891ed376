// A fuzz target: what is done with any bytes, and a mutator that keeps inputs structurally valid.
// Each is a constant of this type in <name>.cpp and a line of targets.def. libfuzzer.cpp makes a program of one target,
// test_fuzz.cpp runs all targets for a short while without a fuzzer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

// Changes bytes at random: the function of libFuzzer, or of test_fuzz.cpp. Returns the new size, at most `most`.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace protean::fuzz {

using Bytes = std::string_view;

struct Target {
  const char* name;
  // Ends the process by broken() if a promise of the library does not hold.
  void (*run)(Bytes input);
  // As LLVMFuzzerMutate(), which it may call; null if only that is used.
  std::size_t (*mutate)(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) = nullptr;
};

#define PROTEAN_FUZZ_TARGET(name) extern const Target name;
#define PROTEAN_FUZZ_LIBRARY_TARGET(name) extern const Target name;
#include "fuzz/targets.def"
#undef PROTEAN_FUZZ_TARGET
#undef PROTEAN_FUZZ_LIBRARY_TARGET

// A promise does not hold: the fuzzer keeps the input as a crash.
[[noreturn]] inline void broken(const char* what) {
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// A number that depends on all bytes: which of several ways of reading this input takes.
inline std::uint32_t choice_of(Bytes input) {
  std::uint32_t hash = 2166136261u;
  for (const char c : input) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash ^ (hash >> 15);
}

}  // namespace protean::fuzz
