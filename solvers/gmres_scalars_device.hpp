// GMRES' scalars on a device: gmres_scalars_device.cu. Private to solvers/; CUDA builds only.
#pragma once
#include "solvers/gmres_scalars.hpp"

namespace protean::detail {

// For at most 256 lanes.
template <class T>
void device_gmres_begin(const Context& context, const GmresScalars<T>& scalars, const GmresLanes<T>& lanes);
template <class T>
void device_gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j,
                         bool corrected, const GmresLanes<T>& lanes);
template <class T>
void device_gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns,
                        const GmresLanes<T>& lanes);

}  // namespace protean::detail
