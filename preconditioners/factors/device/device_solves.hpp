// Which triangular solves a device takes: the factors by colours, or the solves of device_sweeps.hpp. Private to
// preconditioners/.
#pragma once
#include <cstdint>
#include <memory>

#include "preconditioners/triangular/device_sweeps.hpp"

namespace protean::detail {

// Solves stage after stage: DeviceFactors for few colours, otherwise make_levels().
template <class T>
std::unique_ptr<DeviceSweep<T>> make_stages(const ContextPtr& device, const SweepPattern& pattern);

// Seconds of one solve by each way that was measured; negative: not measured.
struct MeasuredSolves {
  double levels = -1, cusparse = -1;
};
// The way that `how` names, with these values. automatic: levels in a deterministic context and on a simulated device;
// else one solve of levels and of cusparse is measured, and the faster one is taken. cuSPARSE's is left out if
// there are too many entries for it, or no memory. Throws NotAvailable for cusparse if it cannot be had.
template <class T>
std::unique_ptr<DeviceSweep<T>> make_solves(const ContextPtr& device, const SweepPattern& pattern,
                                            const SweepValues<T>& values, TriangularSolve how,
                                            std::int64_t sweeps, MeasuredSolves& measured);

}  // namespace protean::detail
