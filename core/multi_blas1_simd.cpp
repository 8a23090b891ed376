// Compiled once for each instruction set by Highway; multi_loops() picks at run time.
#include <algorithm>

#include "core/simd.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/multi_blas1_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "core/lanes-inl.hpp"
#include "core/multi_loops.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::detail::HWY_NAMESPACE {
namespace {

using Size = std::int64_t;
using lanes::HWY_NAMESPACE::few_widths;
using lanes::HWY_NAMESPACE::for_chunks;
using lanes::HWY_NAMESPACE::Lanes;

// Two sums of neighbouring rows hide the latency of the multiply-add. body(i, sum)
template <class L, class Body>
HWY_INLINE L sum_rows(Size begin, Size end, Body body) {
  L even = L::zero(), odd = L::zero();
  Size i = begin;
  for (; i + 2 <= end; i += 2) body(i, even), body(i + 1, odd);
  if (i < end) body(i, even);
  return even + odd;
}

template <class T>
void dot(Size begin, Size end, Size w, const T* x, const T* y, T* sums) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    sum_rows<L>(begin, end, [=](Size i, L& sum) HWY_ATTR {
      sum.add_product(L::load(x + i * w + c), L::load(y + i * w + c));
    }).store(sums + c);
  });
}

template <class T>
void dot_pair(Size begin, Size end, Size w, const T* x, const T* y, T* sums) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    L squares[2] = {L::zero(), L::zero()};
    sum_rows<L>(begin, end, [=, &squares](Size i, L& sum) HWY_ATTR {
      const L xi = L::load(x + i * w + c);
      sum.add_product(xi, L::load(y + i * w + c));
      squares[i & 1].add_product(xi, xi);
    }).store(sums + c);
    (squares[0] + squares[1]).store(sums + w + c);
  });
}

template <class T>
void axpby(Size begin, Size end, Size w, const T* run, const T* a, const T* x, const T* b, T* y, T* sums) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L av = a ? L::load(a + c) : L::zero(), bv = b ? L::load(b + c) : L::zero(),
            runs = run ? L::load(run + c) : L::zero();
    const auto update = [=](Size i) HWY_ATTR {
      const Size at = i * w + c;
      const L old = b || run ? L::load(y + at) : L::zero();
      L yi = b ? bv * old : L::zero();
      if (a && b)
        yi.add_product(av, L::load(x + at));
      else if (a)
        yi = av * L::load(x + at);
      if (run) yi = L::select(runs, yi, old);
      yi.store(y + at);
      return yi;
    };
    if (!sums) {
      for (Size i = begin; i < end; ++i) update(i);
      return;
    }
    sum_rows<L>(begin, end, [=](Size i, L& sum) HWY_ATTR {
      const L yi = update(i);
      sum.add_product(yi, yi);
    }).store(sums + c);
  });
}

template <class T>
void cg_residual(Size begin, Size end, Size w, const T* run, const T* a, const T* q, const T* d, T* r,
                 T* sums) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L av = L::load(a + c), runs = run ? L::load(run + c) : L::zero();
    L other[2] = {L::zero(), L::zero()};
    const auto update = [=](Size i) HWY_ATTR {
      const L old = L::load(r + i * w + c);
      L ri = old;
      ri.subtract_product(av, L::load(q + i * w + c));
      if (run) ri = L::select(runs, ri, old);
      ri.store(r + i * w + c);
      return ri;
    };
    if (!d) {
      sum_rows<L>(begin, end, [=](Size i, L& sum) HWY_ATTR {
        const L ri = update(i);
        sum.add_product(ri, ri);
      }).store(sums + c);
      return;
    }
    sum_rows<L>(begin, end, [&](Size i, L& sum) HWY_ATTR {
      const L ri = update(i), rr = ri * ri;
      sum = sum + rr;
      other[i & 1].add_product(d[i], rr);
    }).store(sums + c);
    (other[0] + other[1]).store(sums + w + c);
  });
}

template <class T>
void cg_direction(Size begin, Size end, Size w, const T* run, const T* a, const T* b, const T* d, const T* z,
                  T* x, T* p) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L av = L::load(a + c), bv = L::load(b + c), runs = run ? L::load(run + c) : L::zero();
    // Backwards: it begins with what cg_residual used last and ends with the p that the product begins with.
    for (Size i = end; i-- > begin;) {
      const Size at = i * w + c;
      const L pi = L::load(p + at);
      const L old = L::load(x + at);
      L xi = old, zi = L::load(z + at);
      if (d) zi = L::all(d[i]) * zi;
      xi.add_product(av, pi), zi.add_product(bv, pi);
      if (run) xi = L::select(runs, xi, old), zi = L::select(runs, zi, pi);
      xi.store(x + at), zi.store(p + at);
    }
  });
}

template <class T>
void bicgstab_half(Size begin, Size end, Size w, const T* run, const T* a, const T* v, const T* d, T* r, T* z,
                   T* sums) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L av = L::load(a + c), runs = run ? L::load(run + c) : L::zero();
    sum_rows<L>(begin, end, [=](Size i, L& sum) HWY_ATTR {
      const Size at = i * w + c;
      const L old = L::load(r + at);
      L ri = old;
      ri.add_product(av, L::load(v + at));
      if (d) {
        L zi = L::all(d[i]) * ri;
        if (run) zi = L::select(runs, zi, L::load(z + at));
        zi.store(z + at);
      }
      if (run) ri = L::select(runs, ri, old);
      ri.store(r + at);
      sum.add_product(ri, ri);
    }).store(sums + c);
  });
}

template <class T>
void bicgstab_update(Size begin, Size end, Size w, const T* run, const T* a, const T* o, const T* p,
                     const T* s, const T* t, const T* r0, T* x, T* r, T* sums) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L av = L::load(a + c), ov = L::load(o + c), runs = run ? L::load(run + c) : L::zero();
    L next[2] = {L::zero(), L::zero()};
    sum_rows<L>(begin, end, [=, &next](Size i, L& sum) HWY_ATTR {
      const Size at = i * w + c;
      const L old_x = L::load(x + at), old_r = L::load(r + at);
      L xi = old_x, ri = old_r;
      xi.add_product(av, L::load(p + at)), xi.add_product(ov, L::load(s + at));
      ri.subtract_product(ov, L::load(t + at));
      if (run) xi = L::select(runs, xi, old_x), ri = L::select(runs, ri, old_r);
      xi.store(x + at), ri.store(r + at);
      sum.add_product(ri, ri);
      next[i & 1].add_product(L::load(r0 + at), ri);
    }).store(sums + c);
    (next[0] + next[1]).store(sums + w + c);
  });
}

template <class T>
void bicgstab_direction(Size begin, Size end, Size w, const T* run, const T* b, const T* o, const T* r,
                        const T* v, const T* d, T* p, T* z) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L bv = L::load(b + c), ov = L::load(o + c), runs = run ? L::load(run + c) : L::zero();
    // Backwards, as cg_direction().
    for (Size i = end; i-- > begin;) {
      const Size at = i * w + c;
      const L old = L::load(p + at);
      L last = old, pi = L::load(r + at);
      last.subtract_product(ov, L::load(v + at));
      pi.add_product(bv, last);
      if (d) {
        L zi = L::all(d[i]) * pi;
        if (run) zi = L::select(runs, zi, L::load(z + at));
        zi.store(z + at);
      }
      if (run) pi = L::select(runs, pi, old);
      pi.store(p + at);
    }
  });
}

// Groups of vectors go in strips of few rows and few groups at a time: the strips of these groups stay in the caches
// for all chunks of vectors, the strip of the other vectors for all groups.
constexpr Size strip = 64;

// use<N>(i) for groups [i, i + N) of all `count`.
template <class Use>
HWY_INLINE void for_groups(Size count, Use use) {
  Size i = 0;
  for (; i + 4 <= count; i += 4) use.template operator()<4>(i);
  for (; i < count; ++i) use.template operator()<1>(i);
}

// Chunks of 16 vectors as long as there are that many, so that what lies side by side is read side by side; then
// for_chunks().
template <class F>
HWY_INLINE void for_wide_chunks(Size count, F f) {
  Size done = 0;
  if constexpr (!few_widths)
    for (; done + 16 <= count; done += 16) f.template operator()<16>(done);
  for_chunks(count - done, [=]<int W>(Size c) HWY_ATTR { f.template operator()<W>(done + c); });
}
// Calls f<M>(k) for groups [k, k + M) of N: as many at a time as the registers hold besides chunks of W vectors.
template <int N, int W, class F>
HWY_INLINE void for_registers(F f) {
  if constexpr (N == 4 && W == 16)
    f.template operator()<2>(0), f.template operator()<2>(2);
  else
    f.template operator()<N>(0);
}

// Each sum is added row by row, whatever the strips.
template <class T>
void block_dot(Size begin, Size end, Size w, const T* v, Size stride, Size count, const T* x, T* sums) {
  std::fill_n(sums, count * w, T(0));
  for (Size first = begin; first < end; first += strip) {
    const Size last = std::min(first + strip, end);
    for_groups(count, [=]<int N>(Size i) HWY_ATTR {
      for_wide_chunks(w, [=]<int W>(Size c) HWY_ATTR {
        for_registers<N, W>([=]<int M>(Size more) HWY_ATTR {
          using L = Lanes<T, W>;
          T* const out = sums + (i + more) * w + c;
          const T* const vi = v + (i + more) * stride + c;
          L sum[M];
          for (int k = 0; k < M; ++k) sum[k] = L::load(out + k * w);
          for (Size r = first; r < last; ++r) {
            const L xr = L::load(x + r * w + c);
            for (int k = 0; k < M; ++k) sum[k].add_product(L::load(vi + k * stride + r * w), xr);
          }
          for (int k = 0; k < M; ++k) sum[k].store(out + k * w);
        });
      });
    });
  }
}

template <class T>
void block_axpy(Size begin, Size end, Size w, const T* run, const T* h, const T* v, Size stride, Size count,
                T* x, T* sums) {
  if (sums) std::fill_n(sums, w, T(0));
  for (Size first = begin; first < end; first += strip) {
    const Size last = std::min(first + strip, end);
    for_groups(count, [=]<int N>(Size i) HWY_ATTR {
      for_wide_chunks(w, [=]<int W>(Size c) HWY_ATTR {
        for_registers<N, W>([=]<int M>(Size more) HWY_ATTR {
          using L = Lanes<T, W>;
          const T* const vi = v + (i + more) * stride + c;
          const L runs = run ? L::load(run + c) : L::zero();
          L a[M];
          for (int k = 0; k < M; ++k) a[k] = L::load(h + (i + more + k) * w + c);
          for (Size r = first; r < last; ++r) {
            const L old = L::load(x + r * w + c);
            L xr = old;
            for (int k = 0; k < M; ++k) xr.add_product(a[k], L::load(vi + k * stride + r * w));
            if (run) xr = L::select(runs, xr, old);
            xr.store(x + r * w + c);
          }
        });
      });
    });
    if (!sums) continue;
    for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
      using L = Lanes<T, W>;
      const L squares = sum_rows<L>(first, last, [=](Size r, L& sum) HWY_ATTR {
        const L xr = L::load(x + r * w + c);
        sum.add_product(xr, xr);
      });
      (L::load(sums + c) + squares).store(sums + c);
    });
  }
}

template <class T>
void scale(Size begin, Size end, Size w, const T* run, const T* a, T* v) {
  for_chunks(w, [=]<int W>(Size c) HWY_ATTR {
    using L = Lanes<T, W>;
    const L av = L::load(a + c), runs = run ? L::load(run + c) : L::zero();
    for (Size r = begin; r < end; ++r) {
      L vr = av * L::load(v + r * w + c);
      if (run) vr = L::select(runs, vr, L::zero());
      vr.store(v + r * w + c);
    }
  });
}

template <class T>
constexpr MultiLoops<T> loops = {.dot = dot<T>,
                                 .dot_pair = dot_pair<T>,
                                 .axpby = axpby<T>,
                                 .cg_residual = cg_residual<T>,
                                 .cg_direction = cg_direction<T>,
                                 .bicgstab_half = bicgstab_half<T>,
                                 .bicgstab_update = bicgstab_update<T>,
                                 .bicgstab_direction = bicgstab_direction<T>,
                                 .block_dot = block_dot<T>,
                                 .block_axpy = block_axpy<T>,
                                 .scale = scale<T>};

const MultiLoops<float>* multi_loops_f32() { return &loops<float>; }
const MultiLoops<double>* multi_loops_f64() { return &loops<double>; }

}  // namespace
}  // namespace protean::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::detail {
namespace {
HWY_EXPORT(multi_loops_f32);
HWY_EXPORT(multi_loops_f64);
}  // namespace

template <>
const MultiLoops<float>& multi_loops<float>() noexcept {
  static const MultiLoops<float>& table = *HWY_DYNAMIC_DISPATCH(multi_loops_f32)();
  return table;
}
template <>
const MultiLoops<double>& multi_loops<double>() noexcept {
  static const MultiLoops<double>& table = *HWY_DYNAMIC_DISPATCH(multi_loops_f64)();
  return table;
}

}  // namespace protean::detail
#endif
