// The programs of libFuzzer, fuzz_readers and fuzz_library: for each the build defines PROTEAN_FUZZ_READERS or
// PROTEAN_FUZZ_LIBRARY. The name by which a program is called, fuzz_<target>, says which target it runs; the build
// makes links of these names.
#include <array>
#include <cstring>
#include <string>

#include "fuzz/target.hpp"

namespace {

using protean::fuzz::Target;

// Those of this program.
constexpr std::array all = {
#if defined(PROTEAN_FUZZ_READERS)
#define PROTEAN_FUZZ_TARGET(name) &protean::fuzz::name,
#else
#define PROTEAN_FUZZ_TARGET(name)
#endif
#if defined(PROTEAN_FUZZ_LIBRARY)
#define PROTEAN_FUZZ_LIBRARY_TARGET(name) &protean::fuzz::name,
#else
#define PROTEAN_FUZZ_LIBRARY_TARGET(name)
#endif
#include "fuzz/targets.def"
};

const Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
  const char* const path = (*arguments)[0];
  const char* const slash = std::strrchr(path, '/');
  const std::string name = slash ? slash + 1 : path;
  for (const Target* one : all)
    if (name == std::string("fuzz_") + one->name) chosen = one;
  if (!chosen) {
    std::fprintf(stderr, "%s: there is no such target; call this program fuzz_NAME (a link) with one of:",
                 name.c_str());
    for (const Target* one : all) std::fprintf(stderr, " %s", one->name);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return chosen->mutate ? chosen->mutate(data, size, most, seed) : LLVMFuzzerMutate(data, size, most);
}
