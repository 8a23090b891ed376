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
  scalars.begin();
}

template <class T>
void gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j, bool corrected) {
  const DeviceWork work(context, {scalars.data});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated())
    return device_gmres_rotate(context, scalars, j, corrected);
#endif
  scalars.rotate(j, corrected);
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

#define PROTEAN_INSTANTIATE(T)                                                               \
  template void gmres_begin<T>(const Context&, const GmresScalars<T>&);                      \
  template void gmres_rotate<T>(const Context&, const GmresScalars<T>&, std::int64_t, bool); \
  template void gmres_solve<T>(const Context&, const GmresScalars<T>&, std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
