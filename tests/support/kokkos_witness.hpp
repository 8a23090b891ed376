// Counts what Kokkos runs, by its own profiling hooks.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace protean::test {

// While it lives, the loops and reductions that Kokkos starts are counted by name. Make it after Kokkos has been
// started. In builds without Kokkos it counts nothing.
class KokkosWitness {
 public:
  KokkosWitness();
  ~KokkosWitness();
  KokkosWitness(const KokkosWitness&) = delete;
  KokkosWitness& operator=(const KokkosWitness&) = delete;
  const std::map<std::string, std::int64_t>& loops() const;
};

}  // namespace protean::test
