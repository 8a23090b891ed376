// The operations of device_cycle.hpp: the kernels of a GPU, or the same on a simulated device.
#include "preconditioners/multigrid/device/device_cycle.hpp"

#include "core/simulated_device.hpp"

namespace protean::detail {

template <class T>
void first_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r, VectorView<T> z,
                 VectorView<T> rest) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context.simulated()) return device::first_sweep<T>(context, d, r, z, rest);
#endif
  const DeviceWork work(context, {d.data, r.data, z.data, rest.data});
  if (work.ended()) return;
  for (std::int64_t i = 0; i < z.size; ++i) z.data[i] = d.data[i] * r.data[i], rest.data[i] = r.data[i];
}

template <class T>
void next_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r,
                VectorView<const T> product, VectorView<T> z) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context.simulated()) return device::next_sweep<T>(context, d, r, product, z);
#endif
  const DeviceWork work(context, {d.data, r.data, product.data, z.data});
  if (work.ended()) return;
  for (std::int64_t i = 0; i < z.size; ++i) z.data[i] += d.data[i] * (r.data[i] - product.data[i]);
}

template <class T>
void dense_product(const Context& context, VectorView<const T> X, VectorView<const T> r, VectorView<T> z) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context.simulated()) return device::dense_product<T>(context, X, r, z);
#endif
  const DeviceWork work(context, {X.data, r.data, z.data});
  if (work.ended()) return;
  for (std::int64_t i = 0; i < z.size; ++i) {
    T sum = 0;
    for (std::int64_t j = 0; j < z.size; ++j) sum += X.data[i * z.size + j] * r.data[j];
    z.data[i] = sum;
  }
}

#define PROTEAN_INSTANTIATE(T)                                                                               \
  template void first_sweep<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<T>,      \
                               VectorView<T>);                                                               \
  template void next_sweep<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<const T>, \
                              VectorView<T>);                                                                \
  template void dense_product<T>(const Context&, VectorView<const T>, VectorView<const T>, VectorView<T>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
