#include "core/extremes.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/extremes.hpp"
#endif

namespace protean::detail {

template <class T>
Extremes<T> extremes(const Context& context, VectorView<const T> v) {
#if defined(PROTEAN_HAVE_CUDA)
  if (v.space == Space::device && !context.simulated()) return device::extremes(context, v);
#endif
  const DeviceWork work(context);
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const int workers = useful_parts(context, v.size);
  std::vector<Extremes<T>> found(static_cast<std::size_t>(workers), {infinity, -infinity});
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(v.size, part, parts);
    Extremes<T> own{infinity, -infinity};
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const T value = v.data[i];
      own.least = value < own.least ? value : own.least, own.most = value > own.most ? value : own.most;
    }
    found[static_cast<std::size_t>(part)] = own;
  });
  Extremes<T> all{infinity, -infinity};
  for (const Extremes<T>& one : found)
    all.least = std::min(all.least, one.least), all.most = std::max(all.most, one.most);
  return all;
}
template Extremes<float> extremes<float>(const Context&, VectorView<const float>);
template Extremes<double> extremes<double>(const Context&, VectorView<const double>);

}  // namespace protean::detail
