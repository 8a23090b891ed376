// A profiling tool that Kokkos loads from KOKKOS_PROFILE_LIBRARY. It counts the loops that ran by name and
// writes "count name" lines to the file PROTEAN_KOKKOS_LOOPS names.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace {
std::map<std::string, long>& counts() {
  static auto* const map = new std::map<std::string, long>;  // outlives the exit handlers
  return *map;
}
}  // namespace

extern "C" {
void kokkosp_begin_parallel_for(const char* name, std::uint32_t, std::uint64_t*) { ++counts()[name]; }
void kokkosp_begin_parallel_reduce(const char* name, std::uint32_t, std::uint64_t*) { ++counts()[name]; }
void kokkosp_finalize_library() {
  if (const char* path = std::getenv("PROTEAN_KOKKOS_LOOPS")) {
    std::ofstream file(path);
    for (const auto& [name, count] : counts()) file << count << ' ' << name << '\n';
  }
}
}
