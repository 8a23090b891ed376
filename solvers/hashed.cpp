#include "solvers/hashed.hpp"

#include "core/parallel.hpp"
#include "core/simulated_device.hpp"

namespace protean::detail {

template <class T>
void fill_hashed(const Context& context, std::uint64_t first, VectorView<T> v) {
  const DeviceWork work(context, {v.data});
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated()) return device_fill_hashed(context, first, v);
#endif
  if (work.ended()) return;
  parallel(useful_parts(context, v.size), [&](int part, int parts) {
    const Range mine = even_range(v.size, part, parts, 64);
    for (std::int64_t i = mine.begin; i < mine.end; ++i)
      v.data[i] = static_cast<T>(hashed(first + static_cast<std::uint64_t>(i)));
  });
}

template void fill_hashed<float>(const Context&, std::uint64_t, VectorView<float>);
template void fill_hashed<double>(const Context&, std::uint64_t, VectorView<double>);

}  // namespace protean::detail
