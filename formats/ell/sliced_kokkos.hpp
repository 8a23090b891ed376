// The product of sliced ELLPACK by Kokkos; defined in builds with Kokkos only.
#pragma once
#include "formats/ell/slots.hpp"

namespace protean::formats {

void start_sliced_kokkos(const Context& context);

// All positions of a sliced product; with_dot is not used.
void kokkos_sliced_product(const SlotProduct<double>& product);
void kokkos_sliced_product(const SlotProduct<float>& product);

}  // namespace protean::formats
