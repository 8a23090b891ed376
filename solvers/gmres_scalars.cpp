#include "solvers/gmres_scalars.hpp"

#include "core/simulated_device.hpp"

#if defined(PROTEAN_HAVE_CUDA)
#include "solvers/gmres_scalars_device.hpp"
#endif

namespace protean::detail {
namespace {

template <class T, class Body>
void for_lanes(const GmresScalars<T>& scalars, const GmresLanes<T>& lanes, Body body) {
  for (std::int64_t lane = 0; lane < lanes.width; ++lane)
    if (lanes.run(lane)) body(scalars.of(lane));
}

}  // namespace

template <class T>
void gmres_begin(const Context& context, const GmresScalars<T>& scalars, const GmresLanes<T>& lanes) {
  const DeviceWork work(context, {scalars.data, lanes.running});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_begin(context, scalars, lanes);
#endif
  if (!work.ended()) for_lanes(scalars, lanes, [](const GmresScalars<T>& own) { own.begin(); });
}

template <class T>
void gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j, bool corrected,
                  const GmresLanes<T>& lanes) {
  const DeviceWork work(context, {scalars.data, lanes.running});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_rotate(context, scalars, j, corrected, lanes);
#endif
  if (!work.ended()) for_lanes(scalars, lanes, [=](const GmresScalars<T>& own) { own.rotate(j, corrected); });
}

template <class T>
void gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns,
                 const GmresLanes<T>& lanes) {
  const DeviceWork work(context, {scalars.data, lanes.running});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_solve(context, scalars, columns, lanes);
#endif
  for_lanes(scalars, lanes, [=](const GmresScalars<T>& own) { own.solve(columns); });
}

#define PROTEAN_INSTANTIATE(T)                                                                \
  template void gmres_begin<T>(const Context&, const GmresScalars<T>&, const GmresLanes<T>&); \
  template void gmres_rotate<T>(const Context&, const GmresScalars<T>&, std::int64_t, bool,   \
                                const GmresLanes<T>&);                                        \
  template void gmres_solve<T>(const Context&, const GmresScalars<T>&, std::int64_t, const GmresLanes<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
