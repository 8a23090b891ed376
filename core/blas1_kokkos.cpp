// The loops of BLAS-1 by Kokkos, over whole vectors on its host device. Each carries the name
// protean::<loop>, under which Kokkos' profiling tools see it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/blas1_loops.hpp"
#include "core/kokkos.hpp"

namespace protean::detail {
namespace {

using Size = std::int64_t;

// body(i) for 0 .. n-1
template <class Body>
void for_each(const char* name, Size n, const Body& body) {
  const std::lock_guard lock(kokkos_mutex());
  Kokkos::parallel_for(name, KokkosRows(0, n), body);
  KokkosHost().fence();
}

template <int K, class T>
struct Sums {
  T of[K];
};

// body(i, sums) adds the terms of entry i to K sums, or takes the larger.
template <int K, class T, class Body>
struct Reduction {
  using value_type = Sums<K, T>;
  Body body;
  void operator()(Size i, value_type& sums) const { body(i, sums.of); }
  void init(value_type& sums) const {
    for (T& sum : sums.of) sum = 0;
  }
  void join(value_type& sums, const value_type& others) const {
    for (int k = 0; k < K; ++k) sums.of[k] += others.of[k];
  }
  // Kokkos before 4.0 joins volatile sums.
  void join(volatile value_type& sums, const volatile value_type& others) const {
    for (int k = 0; k < K; ++k) sums.of[k] = sums.of[k] + others.of[k];
  }
};

template <int K, class T, class Body>
void reduce(const char* name, Size n, T* result, const Body& body) {
  Sums<K, T> sums{};
  {
    const std::lock_guard lock(kokkos_mutex());
    Kokkos::parallel_reduce(name, KokkosRows(0, n), Reduction<K, T, Body>{body}, sums);
    KokkosHost().fence();
  }
  for (int k = 0; k < K; ++k) result[k] = sums.of[k];
}

template <class T, class Body>
T reduce(const char* name, Size n, const Body& body) {
  T result;
  reduce<1>(name, n, &result, body);
  return result;
}

template <class T>
T max_abs(Size n, const T* x) {
  // A maximum may lose a NaN, so those are counted.
  const T largest = [&] {
    T found = 0;
    const std::lock_guard lock(kokkos_mutex());
    Kokkos::parallel_reduce(
        "protean::max_abs", KokkosRows(0, n),
        [=](Size i, T& top) {
          const T size = x[i] < T(0) ? -x[i] : x[i];
          if (size > top) top = size;
        },
        Kokkos::Max<T>(found));
    KokkosHost().fence();
    return n > 0 ? found : T(0);
  }();
  const T missing = reduce<T>("protean::max_abs", n, [=](Size i, T* sum) { sum[0] += x[i] != x[i]; });
  return missing > T(0) ? std::numeric_limits<T>::quiet_NaN() : largest;
}

template <class T>
T reciprocal(Size n, T* d) {
  return reduce<T>("protean::reciprocal", n, [=](Size i, T* bad) {
    const T inverse = T(1) / d[i];
    const bool good = std::isfinite(d[i]) && std::isfinite(inverse);
    bad[0] += !good;
    d[i] = good ? inverse : T(1);
  });
}

template <class T>
void cg_residual(Size n, T a, const T* q, const T* d, T* r, T* sums) {
  reduce<2>("protean::cg_residual", n, sums, [=](Size i, T* sum) {
    r[i] -= a * q[i];
    const T square = r[i] * r[i];
    sum[0] += square;
    sum[1] += d ? d[i] * square : square;
  });
}

template <class T>
void cg_direction(Size n, T a, const T* d, const T* z, T b, T* x, T* p) {
  for_each("protean::cg_direction", n, [=](Size i) {
    x[i] += a * p[i];
    p[i] = (d ? d[i] * z[i] : z[i]) + b * p[i];
  });
}

template <class T>
void bicgstab_direction(Size n, const T* r, T b, T w, const T* v, const T* d, T* p, T* z) {
  for_each("protean::bicgstab_direction", n, [=](Size i) {
    p[i] = r[i] + b * (p[i] - w * v[i]);
    if (d) z[i] = d[i] * p[i];
  });
}

template <class T>
void bicgstab_update(Size n, T a, const T* p, T w, const T* s, const T* t, const T* r0, T* x, T* r, T* sums) {
  reduce<2>("protean::bicgstab_update", n, sums, [=](Size i, T* sum) {
    // s may be r itself: it is read before r is written.
    x[i] += a * p[i] + w * s[i];
    r[i] -= w * t[i];
    sum[0] += r[i] * r[i];
    sum[1] += r0[i] * r[i];
  });
}

// w is read once for this many columns.
constexpr int group = 4;

template <class T>
void block_dot(Size n, const T* V, Size stride, Size columns, const T* w, T* sums) {
  for (Size j = 0; j < columns; j += group) {
    const int some = static_cast<int>(std::min<Size>(group, columns - j));
    const T* const first = V + j * stride;
    T found[group];
    reduce<group>("protean::block_dot", n, found, [=](Size i, T* sum) {
      for (int k = 0; k < some; ++k) sum[k] += first[k * stride + i] * w[i];
    });
    for (int k = 0; k < some; ++k) sums[j + k] += found[k];
  }
}

template <class T>
T block_axpy(Size n, T factor, const T* V, Size stride, Size columns, const T* h, T* w) {
  return reduce<T>("protean::block_axpy", n, [=](Size i, T* sum) {
    T wi = w[i];
    for (Size j = 0; j < columns; ++j) wi += factor * h[j] * V[j * stride + i];
    w[i] = wi;
    sum[0] += wi * wi;
  });
}

template <class T>
constexpr Blas1Loops<T> loops = {
    .copy = [](Size n, const T* x, T* y) { for_each("protean::copy", n, [=](Size i) { y[i] = x[i]; }); },
    .fill = [](Size n, T value, T* x) { for_each("protean::fill", n, [=](Size i) { x[i] = value; }); },
    .reciprocal = reciprocal<T>,
    .dot =
        [](Size n, const T* x, const T* y) {
          return reduce<T>("protean::dot", n, [=](Size i, T* sum) { sum[0] += x[i] * y[i]; });
        },
    .dot_pair =
        [](Size n, const T* x, const T* y, const T* z, T* sums) {
          reduce<2>("protean::dot_pair", n, sums,
                    [=](Size i, T* sum) { sum[0] += x[i] * y[i], sum[1] += x[i] * z[i]; });
        },
    .max_abs = max_abs<T>,
    .scale = [](Size n, T a, const T* x,
                T* y) { for_each("protean::scale", n, [=](Size i) { y[i] = a * x[i]; }); },
    .axpy = [](Size n, T a, const T* x,
               T* y) { for_each("protean::axpy", n, [=](Size i) { y[i] += a * x[i]; }); },
    .axpby = [](Size n, T a, const T* x, T b,
                T* y) { for_each("protean::axpby", n, [=](Size i) { y[i] = a * x[i] + b * y[i]; }); },
    .multiply = [](Size n, const T* x, const T* y,
                   T* z) { for_each("protean::multiply", n, [=](Size i) { z[i] = x[i] * y[i]; }); },
    .axpy_dot =
        [](Size n, T a, const T* x, T* y) {
          return reduce<T>("protean::axpy_dot", n,
                           [=](Size i, T* sum) { y[i] += a * x[i], sum[0] += y[i] * y[i]; });
        },
    .axpy_dot_scaled =
        [](Size n, T a, const T* x, T* y, const T* d, T* z) {
          return reduce<T>("protean::axpy_dot_scaled", n, [=](Size i, T* sum) {
            y[i] += a * x[i];
            z[i] = d[i] * y[i];
            sum[0] += y[i] * y[i];
          });
        },
    .axpy_pair =
        [](Size n, T a, const T* x, T* y, T b, const T* v, T* w) {
          for_each("protean::axpy_pair", n, [=](Size i) { y[i] += a * x[i], w[i] += b * v[i]; });
        },
    .multiply_add =
        [](Size n, const T* d, const T* x, T b, T* y) {
          for_each("protean::multiply_add", n, [=](Size i) { y[i] = d[i] * x[i] + b * y[i]; });
        },
    .cg_residual = cg_residual<T>,
    .cg_direction = cg_direction<T>,
    .bicgstab_direction = bicgstab_direction<T>,
    .bicgstab_update = bicgstab_update<T>,
    .block_dot = block_dot<T>,
    .block_axpy = block_axpy<T>,
};

}  // namespace

template <>
const Blas1Loops<float>& kokkos_loops<float>() noexcept {
  return loops<float>;
}
template <>
const Blas1Loops<double>& kokkos_loops<double>() noexcept {
  return loops<double>;
}

}  // namespace protean::detail
