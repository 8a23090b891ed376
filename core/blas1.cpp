#include "core/blas1.hpp"

#include <vector>

#include "core/parallel.hpp"

namespace protean {

template <class T>
void dot(const Context& context, VectorView<const T> x, VectorView<const T> y, T* result) {
  std::vector<T> partial(static_cast<std::size_t>(context.threads()), T(0));
  parallel(context, [&](int part, int parts) {
    const Range range = even_range(x.size, part, parts);
    T sum = 0;
    for (std::int64_t i = range.begin; i < range.end; ++i) sum += x.data[i] * y.data[i];
    partial[part] = sum;
  });
  *result = 0;
  for (T p : partial) *result += p;
}
template void dot<float>(const Context&, VectorView<const float>, VectorView<const float>, float*);
template void dot<double>(const Context&, VectorView<const double>, VectorView<const double>, double*);

}  // namespace protean
