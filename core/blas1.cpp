// Checks arguments and splits the vectors into fixed parts; the loops are in blas1_simd.cpp. Contexts
// with vector kernels of Kokkos have all operations in blas1_kokkos.cpp.
#include "core/blas1.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/blas1_instances.hpp"
#include "core/blas1_loops.hpp"
#include "core/communicator.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/blas1.hpp"
#endif
#if defined(PROTEAN_HAVE_KOKKOS)
#include "core/blas1_kokkos.hpp"
#endif

namespace protean {
namespace {

using Size = std::int64_t;
using detail::blas1_loops;

// Leaves the function if the operation is not ours on the host: by Kokkos, or on a device. Macros, since they
// return, and since builds without Kokkos or CUDA have no such functions. The scalars are named by their
// addresses; views know their space themselves.
#if defined(PROTEAN_HAVE_KOKKOS)
#define PROTEAN_BY_KOKKOS(call) \
  if (context.vector_kernels() == VectorKernels::kokkos) return kokkos::call
#else
#define PROTEAN_BY_KOKKOS(call)
#endif
#if defined(PROTEAN_HAVE_CUDA)
#define PROTEAN_ALWAYS_ON_DEVICE(call, ...)                     \
  const detail::DeviceWork device_work(context, {__VA_ARGS__}); \
  const detail::DeviceScope device_scope(context);              \
  PROTEAN_BY_KOKKOS(call);                                      \
  if (context.space() == Space::device && !context.simulated()) return device::call
#else
#define PROTEAN_ALWAYS_ON_DEVICE(call, ...)                     \
  const detail::DeviceWork device_work(context, {__VA_ARGS__}); \
  PROTEAN_BY_KOKKOS(call)
#endif
// For an operation whose kernels heed the end of a run (DeviceState::stop), which a simulated device does here.
#define PROTEAN_ON_DEVICE(call, ...)           \
  PROTEAN_ALWAYS_ON_DEVICE(call, __VA_ARGS__); \
  if (device_work.ended()) return

// All views have n entries in the context's space.
template <class... Views>
void check(const Context& context, Size n, const Views&... views) {
  const auto check_one = [&](const auto& view) {
    if (view.size != n)
      throw ShapeMismatch(
          fmt::format("vectors of one operation have {} and {} entries; they must agree", n, view.size));
    if (n > 0 && view.space != context.space())
      throw WrongSpace(
          fmt::format("a vector lies in {} memory; the operation runs on {} memory (copy it by name)",
                      to_string(view.space), to_string(context.space())));
    if (n > 0 && context.simulated()) detail::require_simulated_memory(context, view.data, "a vector");
  };
  (check_one(views), ...);
}

// Borders at whole cache lines, so that no two threads write the same one.
constexpr Size grain = 64;

// body(loops, begin, size) for each part of 0 .. n-1
template <class T, class Body>
void for_parts(const Context& context, Size n, Body&& body) {
  const auto& loops = blas1_loops<T>();
  parallel(useful_parts(context, n), [&](int part, int parts) {
    const Range range = even_range(n, part, parts, grain);
    body(loops, range.begin, range.size());
  });
}

// Deterministic mode: body(loops, begin, size, sums) for strips of fixed borders, which are added over chunks
// of them, and these one after another. Allocates nothing.
constexpr Size strip = 1024;
constexpr Size most_chunks = 256;
template <int K, class T, class Body>
void sum_strips(const Context& context, Size n, T* result, Body&& body) {
  const auto& loops = blas1_loops<T>();
  const Size chunks = std::clamp<Size>((n + strip - 1) / strip, 1, most_chunks);
  std::array<std::array<T, K>, most_chunks> sums;
  parallel(static_cast<int>(std::min<Size>(useful_parts(context, n), chunks)), [&](int part, int parts) {
    const Range mine = even_range(chunks, part, parts);
    for (Size chunk = mine.begin; chunk < mine.end; ++chunk) {
      const Range range = even_range(n, static_cast<int>(chunk), static_cast<int>(chunks), strip);
      std::array<T, K> total{}, one;
      for (Size begin = range.begin; begin < range.end; begin += strip) {
        body(loops, begin, std::min(strip, range.end - begin), one.data());
        for (int k = 0; k < K; ++k) total[k] += one[k];
      }
      sums[chunk] = total;
    }
  });
  for (int k = 0; k < K; ++k) {
    T sum = 0;
    for (Size chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk][k];
    result[k] = sum;
  }
}

// body(loops, begin, size, sums) leaves K sums of its part, which are then added in the order of the parts.
// No memory is allocated for up to 64 threads.
template <int K, class T, class Body>
void sum_parts(const Context& context, Size n, T* result, Body&& body) {
  if (context.deterministic()) return sum_strips<K>(context, n, result, body);
  struct alignas(64) Line {
    T sums[K];
  };
  const auto& loops = blas1_loops<T>();
  const int parts = useful_parts(context, n);
  std::array<Line, 64> few;
  std::vector<Line> many(parts > 64 ? static_cast<std::size_t>(parts) : 0);
  Line* const lines = parts > 64 ? many.data() : few.data();
  parallel(parts, [&](int part, int count) {
    const Range range = even_range(n, part, count, grain);
    body(loops, range.begin, range.size(), lines[part].sums);
  });
  for (int k = 0; k < K; ++k) {
    T sum = lines[0].sums[k];
    for (int part = 1; part < parts; ++part) sum += lines[part].sums[k];
    result[k] = sum;
  }
}

template <class T>
bool is_plain_zero(const Coefficient<T>& c) {
  return c.factor == T(0) && !c.numerator && !c.denominator;
}

template <class T>
T* offset(VectorView<T> view, Size begin) {
  return view.size > 0 ? view.data + begin : nullptr;
}

}  // namespace

template <class T>
void copy(const Context& context, VectorView<const T> from, VectorView<T> to) {
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated() && from.size == to.size) {
    const detail::DeviceScope device_scope(context);
    if (from.space == to.space && from.space == Space::device) {
      PROTEAN_BY_KOKKOS(copy<T>(context, from, to));
    }
    return device::copy<T>(context, from, to);
  }
#endif
  if (context.simulated() && from.size == to.size)
    return detail::copy_bytes(context, to.data, to.space, from.data, from.space,
                              static_cast<std::size_t>(from.size) * sizeof(T));
  check(context, from.size, from, to);
  PROTEAN_BY_KOKKOS(copy<T>(context, from, to));
  for_parts<T>(context, from.size, [&](const auto& loops, Size begin, Size size) {
    loops.copy(size, from.data + begin, to.data + begin);
  });
}

template <class T>
void fill(const Context& context, T value, VectorView<T> x) {
  check(context, x.size, x);
  PROTEAN_ALWAYS_ON_DEVICE(fill<T>(context, value, x));
  for_parts<T>(context, x.size,
               [&](const auto& loops, Size begin, Size size) { loops.fill(size, value, x.data + begin); });
}

template <class T>
void scale(const Context& context, Coefficient<T> a, VectorView<T> x) {
  if (is_plain_zero(a)) return fill(context, T(0), x);
  check(context, x.size, x);
  PROTEAN_ON_DEVICE(axpby<T>(context, a, x, T(0), false, x), a.numerator, a.denominator);
  const T av = a.value();
  for_parts<T>(context, x.size, [&](const auto& loops, Size begin, Size size) {
    loops.scale(size, av, x.data + begin, x.data + begin);
  });
}

template <class T>
void axpy(const Context& context, Coefficient<T> a, VectorView<const T> x, VectorView<T> y) {
  check(context, x.size, x, y);
  PROTEAN_ON_DEVICE(axpby<T>(context, a, x, T(1), true, y), a.numerator, a.denominator);
  const T av = a.value();
  for_parts<T>(context, x.size, [&](const auto& loops, Size begin, Size size) {
    loops.axpy(size, av, x.data + begin, y.data + begin);
  });
}

template <class T>
void axpby(const Context& context, Coefficient<T> a, VectorView<const T> x, Coefficient<T> b,
           VectorView<T> y) {
  check(context, x.size, x, y);
  PROTEAN_ON_DEVICE(axpby<T>(context, a, x, b, !is_plain_zero(b), y), a.numerator, a.denominator, b.numerator,
                    b.denominator);
  const T av = a.value(), bv = b.value();
  const bool overwrite = is_plain_zero(b);
  for_parts<T>(context, x.size, [&](const auto& loops, Size begin, Size size) {
    if (overwrite)
      loops.scale(size, av, x.data + begin, y.data + begin);
    else
      loops.axpby(size, av, x.data + begin, bv, y.data + begin);
  });
}

template <class T>
void multiply(const Context& context, VectorView<const T> x, VectorView<const T> y, VectorView<T> z) {
  check(context, x.size, x, y, z);
  PROTEAN_ON_DEVICE(multiply<T>(context, x, y, z));
  for_parts<T>(context, x.size, [&](const auto& loops, Size begin, Size size) {
    loops.multiply(size, x.data + begin, y.data + begin, z.data + begin);
  });
}

template <class T>
void reciprocal(const Context& context, VectorView<T> d, T* result) {
  detail::sum_over_parts(context, result, 1, [&] {
    check(context, d.size, d);
    PROTEAN_ON_DEVICE(reciprocal<T>(context, d, result), result);
    sum_parts<1>(context, d.size, result, [&](const auto& loops, Size begin, Size size, T* sums) {
      sums[0] = loops.reciprocal(size, d.data + begin);
    });
  });
}

namespace {
template <class T>
void largest_of_part(const Context& context, VectorView<const T> x, T* result) {
  check(context, x.size, x);
  PROTEAN_ON_DEVICE(max_abs<T>(context, x, result), result);
  const auto& loops = blas1_loops<T>();
  const int parts = useful_parts(context, x.size);
  std::vector<T> largest(static_cast<std::size_t>(parts), T(0));
  parallel(parts, [&](int part, int count) {
    const Range range = even_range(x.size, part, count, grain);
    largest[part] = loops.max_abs(range.size(), x.data + range.begin);
  });
  *result = 0;
  // Written so that a NaN, once found, stays.
  for (T value : largest)
    if (!(value <= *result)) *result = *result != *result ? *result : value;
}
}  // namespace

template <class T>
void max_abs(const Context& context, VectorView<const T> x, T* result) {
  largest_of_part<T>(context, x, result);
  if (detail::Communicator* const all = detail::communicator_of(context)) all->largest(context, result);
}

template <class T>
void scalar_product([[maybe_unused]] const Context& context, Coefficient<T> a, Coefficient<T> b, T* result) {
  PROTEAN_ON_DEVICE(scalar_product<T>(context, a, b, result), a.numerator, a.denominator, b.numerator,
                    b.denominator, result);
  *result = a.value() * b.value();
}

template <class T>
void dot(const Context& context, VectorView<const T> x, VectorView<const T> y, T* result) {
  detail::sum_over_parts(context, result, 1, [&] {
    check(context, x.size, x, y);
    PROTEAN_ON_DEVICE(dot<T>(context, x, y, result), result);
    sum_parts<1>(context, x.size, result, [&](const auto& loops, Size begin, Size size, T* sums) {
      sums[0] = loops.dot(size, x.data + begin, y.data + begin);
    });
  });
}

template <class T>
void dot_pair(const Context& context, VectorView<const T> x, VectorView<const T> y, VectorView<const T> z,
              T* result) {
  detail::sum_over_parts(context, result, 2, [&] {
    check(context, x.size, x, y, z);
    PROTEAN_ON_DEVICE(dot_pair<T>(context, x, y, z, result), result);
    sum_parts<2>(context, x.size, result, [&](const auto& loops, Size begin, Size size, T* sums) {
      loops.dot_pair(size, x.data + begin, y.data + begin, z.data + begin, sums);
    });
  });
}

template <class T>
void axpy_dot(const Context& context, Coefficient<T> a, VectorView<const T> x, VectorView<T> y, T* result) {
  detail::sum_over_parts(context, result, 1, [&] {
    check(context, x.size, x, y);
    PROTEAN_ON_DEVICE(axpy_dot<T>(context, a, x, y, result), a.numerator, a.denominator, result);
    const T av = a.value();
    sum_parts<1>(context, x.size, result, [&](const auto& loops, Size begin, Size size, T* sums) {
      sums[0] = loops.axpy_dot(size, av, x.data + begin, y.data + begin);
    });
  });
}

template <class T>
void multiply_add(const Context& context, VectorView<const T> d, VectorView<const T> x, Coefficient<T> b,
                  VectorView<T> y) {
  if (d.size == 0) return axpby<T>(context, T(1), x, b, y);
  if (is_plain_zero(b)) return multiply<T>(context, d, x, y);
  check(context, y.size, d, x, y);
  PROTEAN_ON_DEVICE(multiply_add<T>(context, d, x, b, y), b.numerator, b.denominator);
  const T bv = b.value();
  for_parts<T>(context, y.size, [&](const auto& loops, Size i, Size size) {
    loops.multiply_add(size, d.data + i, x.data + i, bv, y.data + i);
  });
}

template <class T>
void cg_residual(const Context& context, Coefficient<T> a, VectorView<const T> q, VectorView<const T> d,
                 VectorView<T> r, T* result) {
  detail::sum_over_parts(context, result, 2, [&] {
    check(context, r.size, q, r);
    if (d.size > 0) check(context, r.size, d);
    PROTEAN_ON_DEVICE(cg_residual<T>(context, a, q, d, r, result), a.numerator, a.denominator, result);
    const T av = a.value();
    if (context.deterministic()) {
      // As axpy, multiply and dot would one after another.
      sum_parts<2>(context, r.size, result, [&](const auto& loops, Size i, Size size, T* sums) {
        loops.axpy(size, -av, q.data + i, r.data + i);
        sums[0] = sums[1] = loops.dot(size, r.data + i, r.data + i);
        if (d.size == 0) return;
        std::array<T, strip> z;
        loops.multiply(size, d.data + i, r.data + i, z.data());
        sums[1] = loops.dot(size, r.data + i, z.data());
      });
      return;
    }
    sum_parts<2>(context, r.size, result, [&](const auto& loops, Size i, Size size, T* sums) {
      loops.cg_residual(size, av, q.data + i, offset(d, i), r.data + i, sums);
    });
  });
}

template <class T>
void cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d, VectorView<const T> z,
                  Coefficient<T> b, VectorView<T> x, VectorView<T> p) {
  check(context, p.size, z, x, p);
  if (d.size > 0) check(context, p.size, d);
  PROTEAN_ON_DEVICE(cg_direction<T>(context, a, d, z, b, x, p), a.numerator, a.denominator, b.numerator,
                    b.denominator);
  const T av = a.value(), bv = b.value();
  for_parts<T>(context, p.size, [&](const auto& loops, Size i, Size size) {
    loops.cg_direction(size, av, offset(d, i), z.data + i, bv, x.data + i, p.data + i);
  });
}

template <class T>
void bicgstab_direction(const Context& context, VectorView<const T> r, Coefficient<T> b, Coefficient<T> w,
                        VectorView<const T> v, VectorView<const T> d, VectorView<T> p, VectorView<T> z) {
  check(context, r.size, r, v, p);
  if (d.size > 0) check(context, r.size, d, z);
  if (is_plain_zero(b)) {
    copy<T>(context, r, p);
    if (d.size > 0) multiply<T>(context, d, r, z);
    return;
  }
  PROTEAN_ON_DEVICE(bicgstab_direction<T>(context, r, b, w, v, d, p, z), b.numerator, b.denominator,
                    w.numerator, w.denominator);
  const T bv = b.value(), wv = w.value();
  for_parts<T>(context, r.size, [&](const auto& loops, Size i, Size size) {
    loops.bicgstab_direction(size, r.data + i, bv, wv, v.data + i, offset(d, i), p.data + i,
                             d.size > 0 ? z.data + i : nullptr);
  });
}

template <class T>
void bicgstab_half(const Context& context, Coefficient<T> a, VectorView<const T> v, VectorView<const T> d,
                   VectorView<T> r, VectorView<T> z, T* result) {
  if (d.size == 0) return axpy_dot<T>(context, a, v, r, result);
  detail::sum_over_parts(context, result, 1, [&] {
    check(context, r.size, v, d, r, z);
    PROTEAN_ON_DEVICE(bicgstab_half<T>(context, a, v, d, r, z, result), a.numerator, a.denominator, result);
    const T av = a.value();
    sum_parts<1>(context, r.size, result, [&](const auto& loops, Size i, Size size, T* sums) {
      sums[0] = loops.axpy_dot_scaled(size, av, v.data + i, r.data + i, d.data + i, z.data + i);
    });
  });
}

template <class T>
void bicgstab_update(const Context& context, Coefficient<T> a, VectorView<const T> p, Coefficient<T> w,
                     VectorView<const T> s, VectorView<const T> t, VectorView<const T> r0, VectorView<T> x,
                     VectorView<T> r, T* result) {
  detail::sum_over_parts(context, result, 2, [&] {
    check(context, x.size, p, s, t, r0, x, r);
    PROTEAN_ON_DEVICE(bicgstab_update<T>(context, a, p, w, s, t, r0, x, r, result), a.numerator,
                      a.denominator, w.numerator, w.denominator, result);
    const T av = a.value(), wv = w.value();
    sum_parts<2>(context, x.size, result, [&](const auto& loops, Size i, Size size, T* sums) {
      loops.bicgstab_update(size, av, p.data + i, wv, s.data + i, t.data + i, r0.data + i, x.data + i,
                            r.data + i, sums);
    });
  });
}

// Columns in groups of this many, so that the partial sums of all threads have a fixed place.
constexpr int block_columns = 32;

template <class T>
void block_dot(const Context& context, VectorBlock<const T> V, VectorView<const T> w, T* result) {
  detail::sum_over_parts(context, result, static_cast<int>(V.count), [&] {
    check(context, w.size, w, V);
    PROTEAN_ALWAYS_ON_DEVICE(block_dot<T>(context, V, w, result), result);
    if (device_work.ended() && V.count <= detail::most_heeding_dots) return;
    for (Size first = 0; first < V.count; first += block_columns) {
      const Size columns = std::min<Size>(block_columns, V.count - first);
      const T* const data = V.data + first * V.stride;
      T sums[block_columns];
      sum_parts<block_columns>(
          context, w.size, sums, [&](const auto& loops, Size begin, Size size, T* partial) {
            std::fill_n(partial, block_columns, T(0));
            if (context.deterministic()) {  // as dot
              for (Size j = 0; j < columns; ++j)
                partial[j] = loops.dot(size, data + begin + j * V.stride, w.data + begin);
              return;
            }
            loops.block_dot(size, data + begin, V.stride, columns, w.data + begin, partial);
          });
      std::copy_n(sums, columns, result + first);
    }
  });
}

template <class T>
void block_axpy(const Context& context, T factor, VectorBlock<const T> V, const T* h, VectorView<T> w,
                T* result) {
  const auto update = [&] {
    check(context, w.size, w, V);
    PROTEAN_ON_DEVICE(block_axpy<T>(context, factor, V, h, w, result), h, result);
    T unused;
    sum_parts<1>(context, w.size, result ? result : &unused,
                 [&](const auto& loops, Size i, Size size, T* sums) {
                   sums[0] = loops.block_axpy(size, factor, V.data + i, V.stride, V.count, h, w.data + i);
                 });
  };
  if (!result) return update();
  detail::sum_over_parts(context, result, 1, update);
}

#define PROTEAN_INSTANTIATE(T)                                                               \
  PROTEAN_BLAS1_INSTANCES(T);                                                                \
  template void scale<T>(const Context&, Coefficient<T>, VectorView<T>);                     \
  template void axpy<T>(const Context&, Coefficient<T>, VectorView<const T>, VectorView<T>); \
  template void axpby<T>(const Context&, Coefficient<T>, VectorView<const T>, Coefficient<T>, VectorView<T>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
