#include "solvers/gmres_scalars.hpp"

#include "core/simulated_device.hpp"

#if defined(PROTEAN_HAVE_CUDA)
#include "solvers/gmres_scalars_device.hpp"
#endif

namespace protean::detail {

template <class T>
void gmres_begin(const Context& context, const GmresScalars<T>& scalars) {
  const DeviceWork work(context, {scalars.data});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated()) return device_gmres_begin(context, scalars);
#endif
  if (!work.ended()) scalars.begin();
}

template <class T>
void gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j, bool corrected) {
  const DeviceWork work(context, {scalars.data});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_rotate(context, scalars, j, corrected);
#endif
  if (!work.ended()) scalars.rotate(j, corrected);
}

template <class T>
void gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns) {
  const DeviceWork work(context, {scalars.data});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_solve(context, scalars, columns);
#endif
  scalars.solve(columns);
}

namespace {

template <class T, class Body>
void for_running(const GmresLanes<T>& lanes, const T* running, Body body) {
  for (std::int64_t lane = 0; lane < lanes.width; ++lane)
    if (running[lane] != T(0)) body(lane);
}

}  // namespace

template <class T>
void gmres_begin(const Context& context, const GmresLanes<T>& lanes, const T* running) {
  const DeviceWork work(context, {lanes.records, running});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_begin(context, lanes, running);
#endif
  for_running(lanes, running, [&](std::int64_t lane) { lanes.begin(lane); });
}

template <class T>
void gmres_rotate(const Context& context, const GmresLanes<T>& lanes, std::int64_t j, bool corrected,
                  const T* running) {
  const DeviceWork work(context, {lanes.records, running});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_rotate(context, lanes, j, corrected, running);
#endif
  for_running(lanes, running, [&](std::int64_t lane) { lanes.rotate(lane, j, corrected); });
}

template <class T>
void gmres_solve(const Context& context, const GmresLanes<T>& lanes, std::int64_t columns, const T* running) {
  const DeviceWork work(context, {lanes.records, running});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_solve(context, lanes, columns, running);
#endif
  for_running(lanes, running, [&](std::int64_t lane) { lanes.solve(lane, columns); });
}

#define PROTEAN_INSTANTIATE(T)                                                                       \
  template void gmres_begin<T>(const Context&, const GmresScalars<T>&);                              \
  template void gmres_rotate<T>(const Context&, const GmresScalars<T>&, std::int64_t, bool);         \
  template void gmres_solve<T>(const Context&, const GmresScalars<T>&, std::int64_t);                \
  template void gmres_begin<T>(const Context&, const GmresLanes<T>&, const T*);                      \
  template void gmres_rotate<T>(const Context&, const GmresLanes<T>&, std::int64_t, bool, const T*); \
  template void gmres_solve<T>(const Context&, const GmresLanes<T>&, std::int64_t, const T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
