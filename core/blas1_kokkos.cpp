// The vector operations by Kokkos. Each is one functor, a template of the execution space, and one loop or
// reduction named protean::<operation>, under which Kokkos' profiling tools see it.
#include "core/blas1_kokkos.hpp"

#include <algorithm>
#include <limits>

#include "core/blas1_instances.hpp"
#include "core/kokkos.hpp"
#include "core/kokkos_loops.hpp"
#if defined(PROTEAN_KOKKOS_CUDA)
#include "core/device/primitives.hpp"
#endif

namespace protean::kokkos {
namespace {

template <class Exec, class T>
using In = KokkosArray<Exec, const T>;
template <class Exec, class T>
using Out = KokkosArray<Exec, T>;

template <class Exec, class T>
struct Copy {
  In<Exec, T> x;
  Out<Exec, T> y;
  KOKKOS_FUNCTION void operator()(Size i) const { y(i) = x(i); }
};

template <class Exec, class T>
struct Fill {
  T value;
  Out<Exec, T> x;
  KOKKOS_FUNCTION void operator()(Size i) const { x(i) = value; }
};

template <class Exec, class T>
struct Scale {
  Number<Exec, T> a;
  In<Exec, T> x;
  Out<Exec, T> y;
  KOKKOS_FUNCTION void operator()(Size i) const { y(i) = a() * x(i); }
};

template <class Exec, class T>
struct Axpby {
  Number<Exec, T> a;
  In<Exec, T> x;
  Number<Exec, T> b;
  Out<Exec, T> y;
  KOKKOS_FUNCTION void operator()(Size i) const { y(i) = a() * x(i) + b() * y(i); }
};

template <class Exec, class T>
struct Multiply {
  In<Exec, T> x, y;
  Out<Exec, T> z;
  KOKKOS_FUNCTION void operator()(Size i) const { z(i) = x(i) * y(i); }
};

template <class Exec, class T>
struct MultiplyAdd {
  In<Exec, T> d, x;
  Number<Exec, T> b;
  Out<Exec, T> y;
  KOKKOS_FUNCTION void operator()(Size i) const { y(i) = d(i) * x(i) + b() * y(i); }
};

template <class Exec, class T>
struct ScalarProduct {
  Number<Exec, T> a, b;
  Out<Exec, T> result;
  KOKKOS_FUNCTION void operator()(Size) const { result(0) = a() * b(); }
};

// An empty d stands for ones.
template <class Exec, class T>
struct CgDirection {
  Number<Exec, T> a;
  In<Exec, T> d, z;
  Number<Exec, T> b;
  Out<Exec, T> x, p;
  KOKKOS_FUNCTION void operator()(Size i) const {
    x(i) += a() * p(i);
    p(i) = (d.data() ? d(i) * z(i) : z(i)) + b() * p(i);
  }
};

template <class Exec, class T>
struct BicgstabDirection {
  In<Exec, T> r;
  Number<Exec, T> b, w;
  In<Exec, T> v, d;
  Out<Exec, T> p, z;
  KOKKOS_FUNCTION void operator()(Size i) const {
    p(i) = r(i) + b() * (p(i) - w() * v(i));
    if (d.data()) z(i) = d(i) * p(i);
  }
};

// x - x is 0 for finite numbers alone.
template <class T>
KOKKOS_FUNCTION bool is_finite(T x) {
  return x - x == T(0);
}

template <class Exec, class T>
struct Reciprocal : Adding {
  Out<Exec, T> d;
  KOKKOS_FUNCTION void operator()(Size i, T* bad) const {
    const T inverse = T(1) / d(i);
    const bool good = is_finite(d(i)) && is_finite(inverse);
    bad[0] += good ? T(0) : T(1);
    d(i) = good ? inverse : T(1);
  }
};

struct Largest {
  // A NaN, once found, stays.
  template <class T>
  KOKKOS_FUNCTION static void join(T& largest, const T& other) {
    if (largest == largest && !(other <= largest)) largest = other;
  }
};

template <class Exec, class T>
struct MaxAbs : Largest {
  In<Exec, T> x;
  KOKKOS_FUNCTION void operator()(Size i, T* largest) const {
    Largest::join(largest[0], x(i) < T(0) ? -x(i) : x(i));
  }
};

template <class Exec, class T>
struct Dot : Adding {
  In<Exec, T> x, y;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const { sums[0] += x(i) * y(i); }
};

template <class Exec, class T>
struct DotPair : Adding {
  In<Exec, T> x, y, z;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
    sums[0] += x(i) * y(i);
    sums[1] += x(i) * z(i);
  }
};

template <class Exec, class T>
struct AxpyDot : Adding {
  Number<Exec, T> a;
  In<Exec, T> x;
  Out<Exec, T> y;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
    const T yi = y(i) + a() * x(i);
    y(i) = yi;
    sums[0] += yi * yi;
  }
};

template <class Exec, class T>
struct CgResidual : Adding {
  Number<Exec, T> a;
  In<Exec, T> q, d;
  Out<Exec, T> r;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
    const T ri = r(i) - a() * q(i), square = ri * ri;
    r(i) = ri;
    sums[0] += square;
    sums[1] += d.data() ? d(i) * square : square;
  }
};

template <class Exec, class T>
struct BicgstabHalf : Adding {
  Number<Exec, T> a;
  In<Exec, T> v, d;
  Out<Exec, T> r, z;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
    const T ri = r(i) + a() * v(i);
    r(i) = ri;
    z(i) = d(i) * ri;
    sums[0] += ri * ri;
  }
};

// s may be r itself: it is read before r is written.
template <class Exec, class T>
struct BicgstabUpdate : Adding {
  Number<Exec, T> a;
  In<Exec, T> p;
  Number<Exec, T> w;
  In<Exec, T> s, t, r0;
  Out<Exec, T> x, r;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
    x(i) += a() * p(i) + w() * s(i);
    const T ri = r(i) - w() * t(i);
    r(i) = ri;
    sums[0] += ri * ri;
    sums[1] += r0(i) * ri;
  }
};

// w is read once for this many columns.
constexpr int group = 4;

// K columns of V, each `stride` after the one before.
template <int K>
struct BlockDot {
  template <class Exec, class T>
  struct Body : Adding {
    In<Exec, T> V;
    Size stride;
    In<Exec, T> w;
    KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
      for (int k = 0; k < K; ++k) sums[k] += V(k * stride + i) * w(i);
    }
  };
};

template <class Exec, class T>
struct BlockAxpy {
  T factor;
  In<Exec, T> V;
  Size stride;
  In<Exec, T> h;
  Out<Exec, T> w;
  KOKKOS_FUNCTION T operator()(Size i) const {
    T wi = w(i);
    for (Size j = 0; j < static_cast<Size>(h.extent(0)); ++j) wi += factor * h(j) * V(j * stride + i);
    return w(i) = wi;
  }
};

template <class Exec, class T>
struct BlockAxpyDot : Adding {
  T factor;
  In<Exec, T> V;
  Size stride;
  In<Exec, T> h;
  Out<Exec, T> w;
  KOKKOS_FUNCTION void operator()(Size i, T* sums) const {
    const T wi = BlockAxpy<Exec, T>{factor, V, stride, h, w}(i);
    sums[0] += wi * wi;
  }
};

// Columns as one array.
template <class T>
VectorView<const T> flat(const VectorBlock<const T>& V, Size first, Size count) {
  return {V.data + first * V.stride, count > 0 ? (count - 1) * V.stride + V.size : 0, V.space};
}

}  // namespace

void prepare([[maybe_unused]] const Context& context) {
#if defined(PROTEAN_KOKKOS_CUDA)
  if (context.space() != Space::device) return;
  const device::Scratch<double> memory(context, Size{group} << 20);
  kokkos::fill<double>(context, 0.0, {memory.data(), memory.size(), Space::device});
  kokkos::block_dot<double>(
      context, {memory.data(), memory.size() / group, memory.size() / group, group, Space::device},
      {memory.data(), memory.size() / group, Space::device}, memory.data());
  context.synchronize();
#endif
}

template <class T>
void copy(const Context& context, VectorView<const T> from, VectorView<T> to) {
  each<Copy, T>(context, "protean::copy", from.size, from, to);
}
template <class T>
void fill(const Context& context, T value, VectorView<T> x) {
  each<Fill, T>(context, "protean::fill", x.size, value, x);
}
template <class T>
void axpby(const Context& context, Coefficient<T> a, VectorView<const T> x, Coefficient<T> b, bool read_y,
           VectorView<T> y) {
  if (read_y)
    each<Axpby, T>(context, "protean::axpby", x.size, a, x, b, y);
  else
    each<Scale, T>(context, "protean::scale", x.size, a, x, y);
}
template <class T>
void multiply(const Context& context, VectorView<const T> x, VectorView<const T> y, VectorView<T> z) {
  each<Multiply, T>(context, "protean::multiply", x.size, x, y, z);
}
template <class T>
void reciprocal(const Context& context, VectorView<T> d, T* result) {
  reduce<1, Reciprocal, T>(context, "protean::reciprocal", d.size, result, d);
}
template <class T>
void max_abs(const Context& context, VectorView<const T> x, T* result) {
  reduce<1, MaxAbs, T>(context, "protean::max_abs", x.size, result, x);
}
template <class T>
void scalar_product(const Context& context, Coefficient<T> a, Coefficient<T> b, T* result) {
  each<ScalarProduct, T>(context, "protean::scalar_product", 1, a, b,
                         VectorView<T>{result, 1, context.space()});
}
template <class T>
void dot(const Context& context, VectorView<const T> x, VectorView<const T> y, T* result) {
  reduce<1, Dot, T>(context, "protean::dot", x.size, result, x, y);
}
template <class T>
void dot_pair(const Context& context, VectorView<const T> x, VectorView<const T> y, VectorView<const T> z,
              T* result) {
  reduce<2, DotPair, T>(context, "protean::dot_pair", x.size, result, x, y, z);
}
template <class T>
void axpy_dot(const Context& context, Coefficient<T> a, VectorView<const T> x, VectorView<T> y, T* result) {
  reduce<1, AxpyDot, T>(context, "protean::axpy_dot", x.size, result, a, x, y);
}
template <class T>
void multiply_add(const Context& context, VectorView<const T> d, VectorView<const T> x, Coefficient<T> b,
                  VectorView<T> y) {
  each<MultiplyAdd, T>(context, "protean::multiply_add", y.size, d, x, b, y);
}
template <class T>
void cg_residual(const Context& context, Coefficient<T> a, VectorView<const T> q, VectorView<const T> d,
                 VectorView<T> r, T* result) {
  reduce<2, CgResidual, T>(context, "protean::cg_residual", r.size, result, a, q, d, r);
}
template <class T>
void cg_direction(const Context& context, Coefficient<T> a, VectorView<const T> d, VectorView<const T> z,
                  Coefficient<T> b, VectorView<T> x, VectorView<T> p) {
  each<CgDirection, T>(context, "protean::cg_direction", p.size, a, d, z, b, x, p);
}
template <class T>
void bicgstab_direction(const Context& context, VectorView<const T> r, Coefficient<T> b, Coefficient<T> w,
                        VectorView<const T> v, VectorView<const T> d, VectorView<T> p, VectorView<T> z) {
  each<BicgstabDirection, T>(context, "protean::bicgstab_direction", r.size, r, b, w, v, d, p, z);
}
template <class T>
void bicgstab_half(const Context& context, Coefficient<T> a, VectorView<const T> v, VectorView<const T> d,
                   VectorView<T> r, VectorView<T> z, T* result) {
  reduce<1, BicgstabHalf, T>(context, "protean::bicgstab_half", r.size, result, a, v, d, r, z);
}
template <class T>
void bicgstab_update(const Context& context, Coefficient<T> a, VectorView<const T> p, Coefficient<T> w,
                     VectorView<const T> s, VectorView<const T> t, VectorView<const T> r0, VectorView<T> x,
                     VectorView<T> r, T* result) {
  reduce<2, BicgstabUpdate, T>(context, "protean::bicgstab_update", x.size, result, a, p, w, s, t, r0, x, r);
}

template <class T>
void block_dot(const Context& context, VectorBlock<const T> V, VectorView<const T> w, T* result) {
  constexpr const char* name = "protean::block_dot";
  Size j = 0;
  for (; j + group <= V.count; j += group)
    reduce<group, BlockDot<group>::template Body, T>(context, name, w.size, result + j, flat(V, j, group),
                                                     V.stride, w);
  for (; j < V.count; ++j) reduce<1, Dot, T>(context, name, w.size, result + j, flat(V, j, 1), w);
}

template <class T>
void block_axpy(const Context& context, T factor, VectorBlock<const T> V, const T* h, VectorView<T> w,
                T* result) {
  constexpr const char* name = "protean::block_axpy";
  const VectorView<const T> all = flat(V, 0, V.count), coefficients{h, V.count, context.space()};
  if (result)
    reduce<1, BlockAxpyDot, T>(context, name, w.size, result, factor, all, V.stride, coefficients, w);
  else
    each<BlockAxpy, T>(context, name, w.size, factor, all, V.stride, coefficients, w);
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  PROTEAN_BLAS1_INSTANCES(T);                                                                       \
  template void axpby<T>(const Context&, Coefficient<T>, VectorView<const T>, Coefficient<T>, bool, \
                         VectorView<T>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::kokkos
