// SELL-C-sigma multiplied by Kokkos.
#include "formats/ell/slots_kokkos.hpp"

namespace protean::formats {
PROTEAN_DEFINE_KOKKOS_KERNEL(sell_c_sigma, SlotKokkos)
}  // namespace protean::formats
