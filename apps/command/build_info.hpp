// What this build is and which machine it runs on.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace protean::apps {

struct BuildInfo {
  std::string version, compiler, build_type;
  std::vector<std::string> simd_targets;                // compiled in, best first
  std::string simd_chosen;                              // used on this machine
  std::string openmp, kokkos, mkl, metis, hypre, cuda;  // a version, "yes", or "no" with the reason
};
BuildInfo build_info();

struct MachineInfo {
  std::string cpu, system;
  int cores = 0;                 // processors this process may use
  std::size_t memory_bytes = 0;  // of the machine
};
MachineInfo machine_info();

// The name of the first GPU; empty without one. Starts CUDA.
std::string gpu_name();

// The most memory that this process has held at any time, in bytes.
std::size_t peak_memory();

// What `protean --version` prints.
std::string version_text();

}  // namespace protean::apps
