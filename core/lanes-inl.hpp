// W numbers of as many vectors, one in each lane: what a row of interleaved vectors is in registers. For the SIMD
// target being compiled: include it inside foreach_target files after hwy/highway.h. Private.
#if defined(PROTEAN_CORE_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_CORE_LANES_INL
#undef PROTEAN_CORE_LANES_INL
#else
#define PROTEAN_CORE_LANES_INL
#endif

#include <cmath>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace protean::lanes::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, int W>
struct Lanes {
  using D = hn::CappedTag<T, W>;
  static constexpr int width = static_cast<int>(hn::MaxLanes(D())), registers = W / width;
  hn::Vec<D> v[registers];

  // Written out, because GCC compiles an implicit one without the instructions of the target.
  HWY_INLINE Lanes() {}
  static HWY_INLINE Lanes all(T value) {
    Lanes r;
    for (int i = 0; i < registers; ++i) r.v[i] = hn::Set(D(), value);
    return r;
  }
  static HWY_INLINE Lanes zero() {
    Lanes r;
    for (int i = 0; i < registers; ++i) r.v[i] = hn::Zero(D());
    return r;
  }
  static HWY_INLINE Lanes load(const T* from) {
    Lanes r;
    for (int i = 0; i < registers; ++i) r.v[i] = hn::LoadU(D(), from + i * width);
    return r;
  }
  // from[0], from[step], from[2 step], ...
  static HWY_INLINE Lanes load(const T* from, std::int64_t step) {
    T values[W];
    for (int i = 0; i < W; ++i) values[i] = from[i * step];
    return load(values);
  }
  HWY_INLINE void store(T* to) const {
    for (int i = 0; i < registers; ++i) hn::StoreU(v[i], D(), to + i * width);
  }
  HWY_INLINE void store(T* to, std::int64_t step) const {
    T values[W];
    store(values);
    for (int i = 0; i < W; ++i) to[i * step] = values[i];
  }
  // this := this + a b, fused if the processor has an instruction for it
  HWY_INLINE void add_product(const Lanes& a, const Lanes& b) {
    for (int i = 0; i < registers; ++i) v[i] = hn::MulAdd(a.v[i], b.v[i], v[i]);
  }
  HWY_INLINE void add_product(T a, const Lanes& b) {
    const auto av = hn::Set(D(), a);
    for (int i = 0; i < registers; ++i) v[i] = hn::MulAdd(av, b.v[i], v[i]);
  }
  // this := this - a b
  HWY_INLINE void subtract_product(const Lanes& a, const Lanes& b) {
    for (int i = 0; i < registers; ++i) v[i] = hn::NegMulAdd(a.v[i], b.v[i], v[i]);
  }
  // this := fma(a, b, this), rounded once on every processor: deterministic mode
  HWY_INLINE void add_fused(T a, const Lanes& b) {
#if HWY_NATIVE_FMA
    add_product(a, b);
#else
    T sums[W], right[W];
    store(sums), b.store(right);
    for (int i = 0; i < W; ++i) sums[i] = std::fma(a, right[i], sums[i]);
    *this = load(sums);
#endif
  }
  // `yes` in the lanes in which `which` is not 0, `no` in the others, whatever bits they have
  static HWY_INLINE Lanes select(const Lanes& which, const Lanes& yes, const Lanes& no) {
    Lanes r;
    for (int i = 0; i < registers; ++i)
      r.v[i] = hn::IfThenElse(hn::Ne(which.v[i], hn::Zero(D())), yes.v[i], no.v[i]);
    return r;
  }
  HWY_INLINE Lanes operator*(const Lanes& b) const {
    Lanes r;
    for (int i = 0; i < registers; ++i) r.v[i] = hn::Mul(v[i], b.v[i]);
    return r;
  }
  HWY_INLINE Lanes operator+(const Lanes& b) const {
    Lanes r;
    for (int i = 0; i < registers; ++i) r.v[i] = hn::Add(v[i], b.v[i]);
    return r;
  }
};

// Processors without AVX2 get code for few widths, to save time of the build.
constexpr bool few_widths = HWY_TARGET == HWY_SCALAR;

// Calls f<W>(first) for chunks of W = 8, 4, 2 and 1 of `count` columns, the largest first. few: of W = 4 and 1 only,
// which takes half as long to compile.
template <bool few = few_widths, class F>
HWY_INLINE void for_chunks(std::int64_t count, F&& f) {
  std::int64_t first = 0;
  if constexpr (!few)
    for (; first + 8 <= count; first += 8) f.template operator()<8>(first);
  for (; first + 4 <= count; first += 4) f.template operator()<4>(first);
  if constexpr (!few)
    if (first + 2 <= count) f.template operator()<2>(first), first += 2;
  for (; first < count; ++first) f.template operator()<1>(first);
}

}  // namespace protean::lanes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
