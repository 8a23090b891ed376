// The device side of matrices that are composed of others: composed.hpp with the cuts of a device.
#pragma once
#include "formats/engines/composed/composed.hpp"

namespace protean::formats {

template <ComposedPlanner planner>
Admission admit_composed_on_device(const Context& context, const SparsityPattern& pattern,
                                   const FormatParams& params, std::size_t value_bytes) {
  return admit_composed_with(cuts_on_device(), planner, context, pattern, params, value_bytes);
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_composed_on_device(const BuildRequest<T>& request) {
  return make_composed_with(cuts_on_device(), request);
}
constexpr Kernel composed_device_kernel{.name = "native",
                                        .device = true,
                                        .make_f64 = make_composed_on_device<double>,
                                        .make_f32 = make_composed_on_device<float>};

}  // namespace protean::formats
