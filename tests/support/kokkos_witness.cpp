#include "support/kokkos_witness.hpp"

#if defined(PROTEAN_HAVE_KOKKOS)
#include <Kokkos_Core.hpp>
#endif

namespace protean::test {
namespace {

std::map<std::string, std::int64_t>& counts() {
  static std::map<std::string, std::int64_t> map;
  return map;
}

using Callback = void (*)(const char*, std::uint32_t, std::uint64_t*);
void watch([[maybe_unused]] Callback callback) {
#if defined(PROTEAN_HAVE_KOKKOS)
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(callback);
  Kokkos::Tools::Experimental::set_begin_parallel_reduce_callback(callback);
#endif
}

}  // namespace

KokkosWitness::KokkosWitness() {
  counts().clear();
  watch([](const char* name, std::uint32_t, std::uint64_t*) { ++counts()[name]; });
}
KokkosWitness::~KokkosWitness() { watch(nullptr); }
const std::map<std::string, std::int64_t>& KokkosWitness::loops() const { return counts(); }

}  // namespace protean::test
