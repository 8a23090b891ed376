// Compiled once for each instruction set by Highway; blas1_loops() picks at run time.
#include "core/blas1_loops.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/blas1_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace protean::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Size = std::int64_t;

// body(d, i) for whole vectors, then for single entries.
template <class T, class Body>
HWY_INLINE void for_each(Size n, Body body) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const Size lanes = static_cast<Size>(hn::Lanes(d));
  Size i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) body(d, i), body(d, i + lanes);
  for (; i < n; ++i) body(one, i);
}

// The same from the end to the beginning.
template <class T, class Body>
HWY_INLINE void for_each_backwards(Size n, Body body) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const Size lanes = static_cast<Size>(hn::Lanes(d)), whole = n / (2 * lanes) * (2 * lanes);
  for (Size i = n; i-- > whole;) body(one, i);
  for (Size i = whole; i > 0; i -= 2 * lanes) body(d, i - lanes), body(d, i - 2 * lanes);
}

template <class D, class V>
HWY_INLINE hn::TFromD<D> sum_of(D d, V a, V b, V c, V e) {
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

// body(d, i, sum): four sums in flight hide the latency of the multiply-add.
template <class T, class Body>
HWY_INLINE T reduce(Size n, Body body) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const Size lanes = static_cast<Size>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  Size i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    body(d, i, a), body(d, i + lanes, b);
    body(d, i + 2 * lanes, c), body(d, i + 3 * lanes, e);
  }
  auto tail = hn::Zero(one);
  for (; i < n; ++i) body(one, i, tail);
  return sum_of(d, a, b, c, e) + hn::GetLane(tail);
}

// body(d, i, sum0, sum1)
template <class T, class Body>
HWY_INLINE void reduce_pair(Size n, T* sums, Body body) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const Size lanes = static_cast<Size>(hn::Lanes(d));
  auto a0 = hn::Zero(d), b0 = a0, c0 = a0, e0 = a0, a1 = a0, b1 = a0, c1 = a0, e1 = a0;
  Size i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    body(d, i, a0, a1), body(d, i + lanes, b0, b1);
    body(d, i + 2 * lanes, c0, c1), body(d, i + 3 * lanes, e0, e1);
  }
  auto tail0 = hn::Zero(one), tail1 = tail0;
  for (; i < n; ++i) body(one, i, tail0, tail1);
  sums[0] = sum_of(d, a0, b0, c0, e0) + hn::GetLane(tail0);
  sums[1] = sum_of(d, a1, b1, c1, e1) + hn::GetLane(tail1);
}

template <class T>
void copy(Size n, const T* x, T* y) {
  if (n > 0) std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(T));
}

template <class T>
void fill(Size n, T value, T* x) {
  std::fill_n(x, n, value);
}

template <class T>
T reciprocal(Size n, T* d) {
  T bad = 0;
  for (Size i = 0; i < n; ++i) {
    const T inverse = T(1) / d[i];
    const bool good = std::isfinite(d[i]) && std::isfinite(inverse);
    bad += !good;
    d[i] = good ? inverse : T(1);
  }
  return bad;
}

template <class T>
T dot(Size n, const T* x, const T* y) {
  return reduce<T>(n, [=](auto d, Size i, auto& sum)
                          HWY_ATTR { sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum); });
}

template <class T>
void dot_pair(Size n, const T* x, const T* y, const T* z, T* sums) {
  reduce_pair<T>(n, sums, [=](auto d, Size i, auto& s0, auto& s1) HWY_ATTR {
    const auto xi = hn::LoadU(d, x + i);
    s0 = hn::MulAdd(xi, hn::LoadU(d, y + i), s0);
    s1 = hn::MulAdd(xi, hn::LoadU(d, z + i), s1);
  });
}

template <class T>
T max_abs(Size n, const T* x) {
  // Max may lose a NaN; x * 0 keeps it (and turns infinity into one, which the maximum then outranks).
  const hn::ScalableTag<T> d;
  const Size lanes = static_cast<Size>(hn::Lanes(d));
  auto top = hn::Zero(d), nan = top;
  Size i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto xi = hn::LoadU(d, x + i);
    nan = hn::IfThenElse(hn::Eq(xi, xi), nan, xi);
    top = hn::Max(top, hn::Abs(hn::IfThenElseZero(hn::Eq(xi, xi), xi)));
  }
  T result = hn::GetLane(hn::MaxOfLanes(d, top)), bad = hn::GetLane(hn::SumOfLanes(d, nan));
  for (; i < n; ++i) {
    if (x[i] != x[i]) bad = x[i];
    result = std::max(result, x[i] < 0 ? -x[i] : x[i]);
  }
  return bad != bad ? bad : result;
}

template <class T>
void scale(Size n, T a, const T* x, T* y) {
  for_each<T>(
      n, [=](auto d, Size i) HWY_ATTR { hn::StoreU(hn::Mul(hn::Set(d, a), hn::LoadU(d, x + i)), d, y + i); });
}

template <class T>
void axpy(Size n, T a, const T* x, T* y) {
  for_each<T>(n, [=](auto d, Size i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  });
}

template <class T>
void axpby(Size n, T a, const T* x, T b, T* y) {
  for_each<T>(n, [=](auto d, Size i) HWY_ATTR {
    const auto by = hn::Mul(hn::Set(d, b), hn::LoadU(d, y + i));
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), by), d, y + i);
  });
}

template <class T>
void multiply(Size n, const T* x, const T* y, T* z) {
  for_each<T>(n, [=](auto d, Size i)
                     HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, z + i); });
}

template <class T>
T axpy_dot(Size n, T a, const T* x, T* y) {
  return reduce<T>(n, [=](auto d, Size i, auto& sum) HWY_ATTR {
    const auto yi = hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    hn::StoreU(yi, d, y + i);
    sum = hn::MulAdd(yi, yi, sum);
  });
}

template <class T>
T axpy_dot_scaled(Size n, T a, const T* x, T* y, const T* diagonal, T* z) {
  return reduce<T>(n, [=](auto d, Size i, auto& sum) HWY_ATTR {
    const auto yi = hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    hn::StoreU(yi, d, y + i);
    hn::StoreU(hn::Mul(hn::LoadU(d, diagonal + i), yi), d, z + i);
    sum = hn::MulAdd(yi, yi, sum);
  });
}

template <class T>
void multiply_add(Size n, const T* diagonal, const T* x, T b, T* y) {
  for_each<T>(n, [=](auto d, Size i) HWY_ATTR {
    const auto by = hn::Mul(hn::Set(d, b), hn::LoadU(d, y + i));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, diagonal + i), hn::LoadU(d, x + i), by), d, y + i);
  });
}

template <class T>
void cg_residual(Size n, T a, const T* q, const T* diagonal, T* r, T* sums) {
  const auto update = [=](auto d, Size i) HWY_ATTR {
    const auto ri = hn::NegMulAdd(hn::Set(d, a), hn::LoadU(d, q + i), hn::LoadU(d, r + i));
    hn::StoreU(ri, d, r + i);
    return ri;
  };
  if (!diagonal) {
    sums[0] = sums[1] = reduce<T>(n, [=](auto d, Size i, auto& sum) HWY_ATTR {
      const auto ri = update(d, i);
      sum = hn::MulAdd(ri, ri, sum);
    });
    return;
  }
  reduce_pair<T>(n, sums, [=](auto d, Size i, auto& s0, auto& s1) HWY_ATTR {
    const auto ri = update(d, i), rr = hn::Mul(ri, ri);
    s0 = hn::Add(rr, s0);
    s1 = hn::MulAdd(hn::LoadU(d, diagonal + i), rr, s1);
  });
}

template <class T>
void cg_direction(Size n, T a, const T* diagonal, const T* z, T b, T* x, T* p) {
  const auto step = [=](auto d, Size i, auto zi) HWY_ATTR {
    const auto pi = hn::LoadU(d, p + i);
    hn::StoreU(hn::MulAdd(hn::Set(d, a), pi, hn::LoadU(d, x + i)), d, x + i);
    hn::StoreU(hn::MulAdd(hn::Set(d, b), pi, zi), d, p + i);
  };
  // Backwards: it begins with what cg_residual used last and ends with the p that the product begins with,
  // which are still in the cache then.
  if (!diagonal) {
    for_each_backwards<T>(n, [=](auto d, Size i) HWY_ATTR { step(d, i, hn::LoadU(d, z + i)); });
    return;
  }
  for_each_backwards<T>(n, [=](auto d, Size i) HWY_ATTR {
    step(d, i, hn::Mul(hn::LoadU(d, diagonal + i), hn::LoadU(d, z + i)));
  });
}

template <class T>
void bicgstab_direction(Size n, const T* r, T b, T w, const T* v, const T* diagonal, T* p, T* z) {
  const auto direction = [=](auto d, Size i) HWY_ATTR {
    const auto inner = hn::NegMulAdd(hn::Set(d, w), hn::LoadU(d, v + i), hn::LoadU(d, p + i));
    const auto pi = hn::MulAdd(hn::Set(d, b), inner, hn::LoadU(d, r + i));
    hn::StoreU(pi, d, p + i);
    return pi;
  };
  if (!diagonal) {
    for_each<T>(n, [=](auto d, Size i) HWY_ATTR { (void)direction(d, i); });
    return;
  }
  for_each<T>(n, [=](auto d, Size i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, diagonal + i), direction(d, i)), d, z + i);
  });
}

template <class T>
void bicgstab_update(Size n, T a, const T* p, T w, const T* s, const T* t, const T* r0, T* x, T* r, T* sums) {
  reduce_pair<T>(n, sums, [=](auto d, Size i, auto& s0, auto& s1) HWY_ATTR {
    const auto wv = hn::Set(d, w);
    // s may be r itself: it is read before r is written.
    const auto step = hn::MulAdd(hn::Set(d, a), hn::LoadU(d, p + i), hn::Mul(wv, hn::LoadU(d, s + i)));
    const auto ri = hn::NegMulAdd(wv, hn::LoadU(d, t + i), hn::LoadU(d, r + i));
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), step), d, x + i);
    hn::StoreU(ri, d, r + i);
    s0 = hn::MulAdd(ri, ri, s0);
    s1 = hn::MulAdd(ri, hn::LoadU(d, r0 + i), s1);
  });
}

// Rows in strips short enough for w to stay in the first-level cache while all columns pass.
constexpr Size strip = 1024;

template <class T>
void block_dot(Size n, const T* V, Size stride, Size columns, const T* w, T* sums) {
  const hn::ScalableTag<T> d;
  const Size lanes = static_cast<Size>(hn::Lanes(d));
  for (Size begin = 0; begin < n; begin += strip) {
    const Size size = std::min(strip, n - begin);
    const T* const ws = w + begin;
    Size j = 0;
    for (; j + 4 <= columns; j += 4) {
      const T* const v0 = V + j * stride + begin;
      const T *const v1 = v0 + stride, *const v2 = v1 + stride, *const v3 = v2 + stride;
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      Size i = 0;
      for (; i + lanes <= size; i += lanes) {
        const auto wi = hn::LoadU(d, ws + i);
        s0 = hn::MulAdd(hn::LoadU(d, v0 + i), wi, s0);
        s1 = hn::MulAdd(hn::LoadU(d, v1 + i), wi, s1);
        s2 = hn::MulAdd(hn::LoadU(d, v2 + i), wi, s2);
        s3 = hn::MulAdd(hn::LoadU(d, v3 + i), wi, s3);
      }
      T t0 = 0, t1 = 0, t2 = 0, t3 = 0;
      for (; i < size; ++i)
        t0 += v0[i] * ws[i], t1 += v1[i] * ws[i], t2 += v2[i] * ws[i], t3 += v3[i] * ws[i];
      sums[j] += hn::GetLane(hn::SumOfLanes(d, s0)) + t0;
      sums[j + 1] += hn::GetLane(hn::SumOfLanes(d, s1)) + t1;
      sums[j + 2] += hn::GetLane(hn::SumOfLanes(d, s2)) + t2;
      sums[j + 3] += hn::GetLane(hn::SumOfLanes(d, s3)) + t3;
    }
    for (; j < columns; ++j) sums[j] += dot<T>(size, V + j * stride + begin, ws);
  }
}

template <class T>
T block_axpy(Size n, T factor, const T* V, Size stride, Size columns, const T* h, T* w) {
  T total = 0;
  for (Size begin = 0; begin < n; begin += strip) {
    const Size size = std::min(strip, n - begin);
    T* const ws = w + begin;
    Size j = 0;
    for (; j + 4 <= columns; j += 4) {
      const T* const v0 = V + j * stride + begin;
      const T *const v1 = v0 + stride, *const v2 = v1 + stride, *const v3 = v2 + stride;
      const T h0 = factor * h[j], h1 = factor * h[j + 1], h2 = factor * h[j + 2], h3 = factor * h[j + 3];
      for_each<T>(size, [=](auto d, Size i) HWY_ATTR {
        auto wi = hn::MulAdd(hn::Set(d, h0), hn::LoadU(d, v0 + i), hn::LoadU(d, ws + i));
        wi = hn::MulAdd(hn::Set(d, h1), hn::LoadU(d, v1 + i), wi);
        wi = hn::MulAdd(hn::Set(d, h2), hn::LoadU(d, v2 + i), wi);
        wi = hn::MulAdd(hn::Set(d, h3), hn::LoadU(d, v3 + i), wi);
        hn::StoreU(wi, d, ws + i);
      });
    }
    for (; j < columns; ++j) axpy<T>(size, factor * h[j], V + j * stride + begin, ws);
    total += dot<T>(size, ws, ws);
  }
  return total;
}

template <class T>
constexpr Blas1Loops<T> loops = {
    .copy = copy<T>,
    .fill = fill<T>,
    .reciprocal = reciprocal<T>,
    .dot = dot<T>,
    .dot_pair = dot_pair<T>,
    .max_abs = max_abs<T>,
    .scale = scale<T>,
    .axpy = axpy<T>,
    .axpby = axpby<T>,
    .multiply = multiply<T>,
    .axpy_dot = axpy_dot<T>,
    .axpy_dot_scaled = axpy_dot_scaled<T>,
    .multiply_add = multiply_add<T>,
    .cg_residual = cg_residual<T>,
    .cg_direction = cg_direction<T>,
    .bicgstab_direction = bicgstab_direction<T>,
    .bicgstab_update = bicgstab_update<T>,
    .block_dot = block_dot<T>,
    .block_axpy = block_axpy<T>,
};

const Blas1Loops<float>* loops_f32() { return &loops<float>; }
const Blas1Loops<double>* loops_f64() { return &loops<double>; }

}  // namespace protean::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::detail {

HWY_EXPORT(loops_f32);
HWY_EXPORT(loops_f64);

template <>
const Blas1Loops<float>& blas1_loops<float>() noexcept {
  static const Blas1Loops<float>& table = *HWY_DYNAMIC_DISPATCH(loops_f32)();
  return table;
}
template <>
const Blas1Loops<double>& blas1_loops<double>() noexcept {
  static const Blas1Loops<double>& table = *HWY_DYNAMIC_DISPATCH(loops_f64)();
  return table;
}

}  // namespace protean::detail
#endif
