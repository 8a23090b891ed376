// GMRES' scalars on a device: gmres_scalars_device.cu. Private to solvers/; CUDA builds only.
#pragma once
#include "solvers/gmres_scalars.hpp"

namespace protean::detail {

template <class T>
void device_gmres_begin(const Context& context, const GmresScalars<T>& scalars);
template <class T>
void device_gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j,
                         bool corrected);
template <class T>
void device_gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns);

// For at most 256 lanes.
template <class T>
void device_gmres_begin(const Context& context, const GmresLanes<T>& lanes, const T* running);
template <class T>
void device_gmres_rotate(const Context& context, const GmresLanes<T>& lanes, std::int64_t j, bool corrected,
                         const T* running);
template <class T>
void device_gmres_solve(const Context& context, const GmresLanes<T>& lanes, std::int64_t columns,
                        const T* running);

}  // namespace protean::detail
