// Compiled once for each instruction set by Highway; multi_loops() picks at run time.
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
      ri.subtract_product(av, L::load(v + at));
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

template <class T>
constexpr MultiLoops<T> loops = {.dot = dot<T>,
                                 .dot_pair = dot_pair<T>,
                                 .cg_residual = cg_residual<T>,
                                 .cg_direction = cg_direction<T>,
                                 .bicgstab_half = bicgstab_half<T>,
                                 .bicgstab_update = bicgstab_update<T>,
                                 .bicgstab_direction = bicgstab_direction<T>};

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
