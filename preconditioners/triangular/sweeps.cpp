#include "preconditioners/triangular/sweeps.hpp"

#include <algorithm>

namespace protean::detail {

void find_levels(const ContextPtr& context, SweepPattern& pattern, bool backward) {
  const std::int64_t n = pattern.n;
  Buffer<std::int32_t> level(context, n);
  std::int32_t count = 0;
  const auto place = [&](std::int64_t i, const Range& entries) {
    std::int32_t own = 0;
    for (std::int64_t p = entries.begin; p < entries.end; ++p) own = std::max(own, level[pattern.col[p]] + 1);
    level[i] = own;
    count = std::max(count, own + 1);
  };
  for (std::int64_t i = 0; i < n; ++i) place(i, pattern.lower(i));
  pattern.forward =
      Stages(context, level, count, true, false, [&](std::int64_t i) { return pattern.lower(i).size(); });
  if (!backward) return;
  count = 0;
  for (std::int64_t i = n; i-- > 0;) place(i, pattern.upper(i));
  pattern.backward =
      Stages(context, level, count, true, true, [&](std::int64_t i) { return pattern.upper(i).size(); });
}

void set_colour_stages(const ContextPtr& context, SweepPattern& pattern, const Buffer<std::int32_t>& colour,
                       std::int32_t count, bool both) {
  const std::int64_t n = pattern.n;
  pattern.coloured = true;
  pattern.forward =
      Stages(context, colour, count, false, false, [&](std::int64_t i) { return pattern.lower(i).size(); });
  // The backward solve begins with the last colour; without U its order does not matter.
  Buffer<std::int32_t> stage(context, n);
  for (std::int64_t i = 0; i < n; ++i) stage[i] = both ? count - 1 - colour[i] : 0;
  pattern.backward = Stages(context, stage, both ? count : (n > 0 ? 1 : 0), !both, false,
                            [&](std::int64_t i) { return pattern.upper(i).size(); });
}

template <class T>
void jacobi_sweeps(const Context& context, const SweepPattern& pattern, const SweepValues<T>& values,
                   std::int64_t count, VectorView<const T> r, VectorView<T> z, T* work_a, T* work_b) {
  const std::int32_t* const col = pattern.col.data();
  const T *const entries = values.entries.data(), *const d = values.d.data();
  // to := scale .* (rhs - N from), N = L or U
  const auto pass = [&](bool upper, const T* rhs, const T* from, const T* scale, T* to) {
    protean::parallel(useful_parts(context, pattern.n), [=, &pattern](int part, int parts) {
      const Range rows = even_range(pattern.n, part, parts);
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        T sum = rhs[i];
        // In ascending order of columns, as on a device.
        const Range own = upper ? pattern.upper(i) : pattern.lower(i);
        if (upper)
          for (std::int64_t p = own.end; p-- > own.begin;) sum -= entries[p] * from[col[p]];
        else
          for (std::int64_t p = own.begin; p < own.end; ++p) sum -= entries[p] * from[col[p]];
        to[i] = scale ? scale[i] * sum : sum;
      }
    });
  };
  jacobi_passes<T>(count, r.data, d, z.data, work_a, work_b, pass);
}

#define PROTEAN_INSTANTIATE(T)                                                                             \
  template void jacobi_sweeps<T>(const Context&, const SweepPattern&, const SweepValues<T>&, std::int64_t, \
                                 VectorView<const T>, VectorView<T>, T*, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
