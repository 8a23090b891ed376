#include "preconditioners/factors/device/device_solves.hpp"

#include "core/error.hpp"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::detail {

template <class T>
std::unique_ptr<DeviceSweep<T>> make_stages(const ContextPtr& device, const SweepPattern& pattern) {
  if (pattern.coloured && pattern.forward.count() <= most_stage_launches)
    return std::make_unique<DeviceFactors<T>>(device, pattern, false);
  return make_levels<T>(device, pattern);
}

namespace {

#if defined(PROTEAN_HAVE_CUDA)
template <class T>
std::unique_ptr<DeviceSweep<T>> faster(const ContextPtr& device, const SweepPattern& pattern,
                                       const SweepValues<T>& values, MeasuredSolves& measured) {
  auto levels = make_stages<T>(device, pattern);
  levels->set_values(pattern, values);
  measured.levels = device::seconds_of<T>(device, *levels, pattern.n);
  try {
    auto cusparse = device::make_cusparse_sweep<T>(device, pattern);
    cusparse->set_values(pattern, values);
    measured.cusparse = device::seconds_of<T>(device, *cusparse, pattern.n);
    if (measured.cusparse < measured.levels) return cusparse;
  } catch (const OutOfMemory&) {
  } catch (const NotAvailable&) {}
  return levels;
}
#endif

}  // namespace

template <class T>
std::unique_ptr<DeviceSweep<T>> make_solves(const ContextPtr& device, const SweepPattern& pattern,
                                            const SweepValues<T>& values, TriangularSolve how,
                                            std::int64_t sweeps, MeasuredSolves& measured) {
  measured = {};
  std::unique_ptr<DeviceSweep<T>> made;
#if defined(PROTEAN_HAVE_CUDA)
  if (!device->simulated()) {
    if (how == TriangularSolve::automatic && !device->deterministic() && pattern.n > 0)
      return faster<T>(device, pattern, values, measured);
    if (how == TriangularSolve::cusparse) made = device::make_cusparse_sweep<T>(device, pattern);
  }
#endif
  if (!made && how == TriangularSolve::cusparse)
    throw NotAvailable("solve: cusparse needs a GPU; take levels or sweeps");
  if (how == TriangularSolve::sweeps) made = make_iteration<T>(device, pattern, sweeps);
  if (!made) made = make_stages<T>(device, pattern);
  made->set_values(pattern, values);
  return made;
}

#define PROTEAN_INSTANTIATE(T)                                                                     \
  template std::unique_ptr<DeviceSweep<T>> make_stages<T>(const ContextPtr&, const SweepPattern&); \
  template std::unique_ptr<DeviceSweep<T>> make_solves<T>(const ContextPtr&, const SweepPattern&,  \
                                                          const SweepValues<T>&, TriangularSolve,  \
                                                          std::int64_t, MeasuredSolves&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
