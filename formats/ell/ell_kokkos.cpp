// ELLPACK multiplied by Kokkos.
#include "formats/ell/slots_kokkos.hpp"

namespace protean::formats {
PROTEAN_DEFINE_KOKKOS_KERNEL(ell, SlotKokkos)
}  // namespace protean::formats
