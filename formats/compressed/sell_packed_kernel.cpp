// The product of sell-packed, compiled for each instruction set by Highway. See sell_packed.cpp.
#include "formats/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/compressed/sell_packed_kernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/compressed/sell_packed_layout.hpp"
#include "formats/engines/view/ordered-inl.hpp"
#include "formats/simd_load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::packed {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Eight values of T in as many registers as they need.
template <class T>
struct Eight {
  using D = hn::CappedTag<T, height>;
  static constexpr int lanes = hn::MaxLanes(D()), registers = height / lanes;
  using V = hn::Vec<D>;
  V v[registers];

  HWY_INLINE Eight() {}  // written out: see core/lanes-inl.hpp
  static HWY_INLINE Eight zero() {
    Eight e;
    for (int i = 0; i < registers; ++i) e.v[i] = hn::Zero(D());
    return e;
  }
  template <class V>
  static HWY_INLINE Eight load(const V* from) {
    Eight e;
    for (int i = 0; i < registers; ++i) e.v[i] = formats::HWY_NAMESPACE::load_values(D(), from + i * lanes);
    return e;
  }
  static HWY_INLINE Eight all(T value) {
    Eight e;
    for (int i = 0; i < registers; ++i) e.v[i] = hn::Set(D(), value);
    return e;
  }
  HWY_INLINE void store(T* to) const {
    for (int i = 0; i < registers; ++i) hn::StoreU(v[i], D(), to + i * lanes);
  }
  // this += a b
  HWY_INLINE void add_product(const Eight& a, const Eight& b) {
    for (int i = 0; i < registers; ++i) v[i] = hn::MulAdd(a.v[i], b.v[i], v[i]);
  }
  HWY_INLINE void add(const Eight& a) {
    for (int i = 0; i < registers; ++i) v[i] = hn::Add(v[i], a.v[i]);
  }
  // this := fma(a, b, this) in the lanes whose bits are set
  HWY_INLINE void add_fused(unsigned lanes_set, const Eight& a, const Eight& b) {
#if HWY_NATIVE_FMA
    for (int i = 0; i < registers; ++i) {
      const auto sum = hn::MulAdd(a.v[i], b.v[i], v[i]);
      if (lanes_set == 255) {
        v[i] = sum;
        continue;
      }
      const std::uint8_t bits[8] = {
          static_cast<std::uint8_t>(lanes_set >> (i * lanes) & ((1u << lanes) - 1))};
      v[i] = hn::IfThenElse(hn::LoadMaskBits(D(), bits), sum, v[i]);
    }
#else
    T sums[height], left[height], right[height];
    store(sums), a.store(left), b.store(right);
    for (int l = 0; l < height; ++l)
      if (lanes_set >> l & 1) sums[l] = std::fma(left[l], right[l], sums[l]);
    *this = load(sums);
#endif
  }
  HWY_INLINE void multiply(const Eight& a) {
    for (int i = 0; i < registers; ++i) v[i] = hn::Mul(v[i], a.v[i]);
  }
};

template <class T>
HWY_INLINE Eight<T> from_scalars(T a, T b, T c, T d, T e, T f, T g, T h) {
  const T values[height] = {a, b, c, d, e, f, g, h};
  return Eight<T>::load(values);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// Scalar loads and inserts: twice as fast as a gather on several processors.
HWY_INLINE Eight<double> from_scalars(double a, double b, double c, double d, double e, double f, double g,
                                      double h) {
  Eight<double> r;
  r.v[0].raw = _mm512_set_pd(h, g, f, e, d, c, b, a);
  return r;
}
HWY_INLINE Eight<float> from_scalars(float a, float b, float c, float d, float e, float f, float g, float h) {
  Eight<float> r;
  r.v[0].raw = _mm256_set_ps(h, g, f, e, d, c, b, a);
  return r;
}

// Lane l: entry (index >> 4l) & 15 of the 8 values at `low` followed by the 8 at `high`, 0 if mask is 0.
// The permute reads 4 bits of an index and ignores the others.
struct Indices64 {
  __m512i at;
  explicit HWY_INLINE Indices64(std::uint32_t packed)
      : at(_mm512_srlv_epi64(_mm512_set1_epi64(packed), _mm512_set_epi64(28, 24, 20, 16, 12, 8, 4, 0))) {}
};
struct Indices32 {
  __m256i at;
  explicit HWY_INLINE Indices32(std::uint32_t packed)
      : at(_mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(packed)),
                             _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0))) {}
};
HWY_INLINE Indices64 indices(std::uint32_t packed, double) { return Indices64(packed); }
HWY_INLINE Indices32 indices(std::uint32_t packed, float) { return Indices32(packed); }

HWY_INLINE Eight<double> permute(const Indices64& index, unsigned mask, const double* low,
                                 const double* high) {
  Eight<double> r;
  r.v[0].raw = _mm512_maskz_permutex2var_pd(static_cast<__mmask8>(mask), _mm512_loadu_pd(low), index.at,
                                            _mm512_loadu_pd(high));
  return r;
}
HWY_INLINE Eight<float> permute(const Indices32& index, unsigned mask, const float* low, const float* high) {
  Eight<float> r;
  r.v[0].raw = _mm256_maskz_permutex2var_ps(static_cast<__mmask8>(mask), _mm256_loadu_ps(low), index.at,
                                            _mm256_loadu_ps(high));
  return r;
}
HWY_INLINE Eight<double> permute(const Indices64& index, unsigned first, unsigned second, const double* a,
                                 const double* b, const double* c, const double* d) {
  Eight<double> r;
  const __m512d low = _mm512_maskz_permutex2var_pd(static_cast<__mmask8>(first), _mm512_loadu_pd(a), index.at,
                                                   _mm512_loadu_pd(b));
  const __m512d high = _mm512_permutex2var_pd(_mm512_loadu_pd(c), index.at, _mm512_loadu_pd(d));
  r.v[0].raw = _mm512_mask_mov_pd(low, static_cast<__mmask8>(second), high);
  return r;
}
HWY_INLINE Eight<float> permute(const Indices32& index, unsigned first, unsigned second, const float* a,
                                const float* b, const float* c, const float* d) {
  Eight<float> r;
  const __m256 low = _mm256_maskz_permutex2var_ps(static_cast<__mmask8>(first), _mm256_loadu_ps(a), index.at,
                                                  _mm256_loadu_ps(b));
  const __m256 high = _mm256_permutex2var_ps(_mm256_loadu_ps(c), index.at, _mm256_loadu_ps(d));
  r.v[0].raw = _mm256_mask_mov_ps(low, static_cast<__mmask8>(second), high);
  return r;
}
#else
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE Eight<double> from_scalars(double a, double b, double c, double d, double e, double f, double g,
                                      double h) {
  Eight<double> r;
  r.v[0].raw = _mm256_set_pd(d, c, b, a), r.v[1].raw = _mm256_set_pd(h, g, f, e);
  return r;
}
#endif
template <class T>
HWY_INLINE std::uint32_t indices(std::uint32_t packed, T) {
  return packed;
}

template <class T>
HWY_INLINE Eight<T> permute(std::uint32_t index, unsigned first, unsigned second, const T* a, const T* b,
                            const T* c, const T* d) {
  const T* const start[4] = {a, b, c, d};
  const auto lane = [&](int l) {
    const std::uint32_t i = index >> (4 * l) & 15;
    return ((first | second) >> l & 1) ? start[(second >> l & 1) * 2 + i / 8][i % 8] : T(0);
  };
  return from_scalars(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7));
}
template <class T>
HWY_INLINE Eight<T> permute(std::uint32_t index, unsigned mask, const T* low, const T* high) {
  return permute(index, mask, 0u, low, high, low, high);
}
#endif

// How eight values are read.
template <class T>
struct Loaded {
  template <class V>
  HWY_INLINE Eight<T> read(const V* values) const {
    return Eight<T>::load(values);
  }
};

// Values of a table, one after another: as for x, twice as fast as a gather on several processors.
struct LookedUp {
  HWY_INLINE Eight<double> read(const TableValues& values) const {
    const std::uint8_t* p = values.place;
    const double* t = values.table;
    return from_scalars(t[p[0]], t[p[1]], t[p[2]], t[p[3]], t[p[4]], t[p[5]], t[p[6]], t[p[7]]);
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// A table of up to 16 values in two registers.
struct InRegisters {
  __m512d low, high;
  explicit HWY_INLINE InRegisters(const double* table)
      : low(_mm512_loadu_pd(table)), high(_mm512_loadu_pd(table + 8)) {}
  HWY_INLINE Eight<double> read(const TableValues& values) const {
    Eight<double> r;
    const __m512i at = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(values.place)));
    r.v[0].raw = _mm512_permutex2var_pd(low, at, high);
    return r;
  }
};
constexpr int in_registers = 16;
#endif

// Values are read once and in order, but the hardware's prefetch stops at each 4 KiB page.
template <class T, class Read, class Values>
HWY_INLINE Eight<T> next_values(const Read& how, Values& values) {
  hwy::Prefetch(reinterpret_cast<const char*>(stored_at(values)) + 4096);
  const Eight<T> v = how.read(values);
  values += height;
  return v;
}

// Adds the next values times x to `to`. In deterministic mode there is only one sum, and it is added to that.
template <bool ordered, class T, class Read, class Values>
HWY_INLINE void AddSlot(const Read& how, Eight<T>& sum, Eight<T>& to, Values& values,
                        const unsigned char*& entries, const Eight<T>& x) {
  if constexpr (ordered)
    sum.add_fused(*entries++, next_values<T>(how, values), x);
  else
    to.add_product(next_values<T>(how, values), x);
}

template <class T, bool with_dot, bool ordered = false, class V, class Read>
T ProductOf(const Part<V>& part, const Read how, T alpha, const T* HWY_RESTRICT x, T beta,
            T* HWY_RESTRICT y) {
  const std::uint32_t* code = part.code;
  ValuesPointer<V> values = part.values;
  const unsigned char* entries = part.entries;
  const auto scale = Eight<T>::all(alpha), keep = Eight<T>::all(beta);
  auto dots = Eight<T>::zero();
  T dot_of_rest = 0;
  for (std::int64_t first = part.begin; first < part.end; first += window) {
    const unsigned char* order = nullptr;
    if (*code++) order = reinterpret_cast<const unsigned char*>(code), code += order_words;
    const std::int64_t end = std::min<std::int64_t>(first + window, part.end);
    for (std::int64_t row = first; row < end; row += height) {
      auto sum = Eight<T>::zero(), other = Eight<T>::zero();
      std::uint32_t b;
      do {
        const std::uint32_t a = code[0];
        b = code[1];
        code += header_words;
        for (unsigned n = a & 255; n > 0; --n, ++code)
          AddSlot<ordered>(how, sum, sum, values, entries, Eight<T>::load(x + code[0]));
        for (unsigned n = a >> 8 & 255; n > 0; --n, code += group_words[pair]) {
          const T *p = x + code[0], *q = p + (code[2] & 0xffff);
          const auto index = indices(code[1], T());
          const unsigned mask = code[2] >> 16 & 255;
          for (unsigned run = code[2] >> 24; run > 0; --run, ++p, ++q)
            AddSlot<ordered>(how, sum, other, values, entries, permute(index, mask, p, q));
        }
        for (unsigned n = a >> 16 & 255; n > 0; --n, code += group_words[quad]) {
          const T *p = x + code[0], *q = p + (code[2] & 0xffff), *r = p + (code[2] >> 16),
                  *s = p + (code[3] & 0xffff);
          const auto index = indices(code[1], T());
          const unsigned low = code[3] >> 16 & 255, high = code[3] >> 24;
          for (unsigned run = code[4]; run > 0; --run, ++p, ++q, ++r, ++s)
            AddSlot<ordered>(how, sum, other, values, entries, permute(index, low, high, p, q, r, s));
        }
        for (unsigned n = a >> 24; n > 0; --n, code += group_words[near]) {
          const T* p = x + code[0];
          const auto* o = reinterpret_cast<const unsigned char*>(code + 1);
          AddSlot<ordered>(
              how, sum, sum, values, entries,
              from_scalars(p[o[0]], p[o[1]], p[o[2]], p[o[3]], p[o[4]], p[o[5]], p[o[6]], p[o[7]]));
        }
        for (unsigned n = b & 255; n > 0; --n, code += group_words[far]) {
          const T* p = x + code[0];
          const std::uint32_t* o = code + 1;
          AddSlot<ordered>(how, sum, sum, values, entries,
                           from_scalars(p[o[0] & 0xffff], p[o[0] >> 16], p[o[1] & 0xffff], p[o[1] >> 16],
                                        p[o[2] & 0xffff], p[o[2] >> 16], p[o[3] & 0xffff], p[o[3] >> 16]));
        }
        for (unsigned n = b >> 8 & 255; n > 0; --n, code += group_words[wide])
          AddSlot<ordered>(how, sum, sum, values, entries,
                           from_scalars(x[code[0]], x[code[1]], x[code[2]], x[code[3]], x[code[4]],
                                        x[code[5]], x[code[6]], x[code[7]]));
      } while ((b >> 24) == 0);
      if constexpr (!ordered) sum.add(other);
      const unsigned live = b >> 16 & 255;
      if (!ordered && !order && live == 255) {
        T* to = y + row;
        sum.multiply(scale);
        if (beta != T(0)) sum.add_product(keep, Eight<T>::load(to));
        sum.store(to);
        if (with_dot) dots.add_product(sum, Eight<T>::load(x + row));
        continue;
      }
      T sums[height];
      sum.store(sums);
      for (std::int64_t l = 0, lanes = std::min<std::int64_t>(height, end - row); l < lanes; ++l) {
        const std::int64_t r = order ? first + order[row - first + l] : row + l;
        if constexpr (ordered) {
          formats::HWY_NAMESPACE::store_ordered(alpha, sums[l], beta, y[r]);
          continue;
        }
        // A row without entries has only padding, which may have read any x.
        const T value = alpha * (live >> l & 1 ? sums[l] : T(0));
        y[r] = beta == T(0) ? value : value + beta * y[r];
        if (with_dot) dot_of_rest += x[r] * y[r];
      }
    }
  }
  T parts[height];
  dots.store(parts);
  for (T d : parts) dot_of_rest += d;
  return dot_of_rest;
}

template <class T, class V, class Read>
T Product(const Part<V>& part, const Read& how, T alpha, const T* x, T beta, T* y, bool with_dot) {
  if (part.ordered) return ProductOf<T, false, true>(part, how, alpha, x, beta, y);
  return with_dot ? ProductOf<T, true>(part, how, alpha, x, beta, y)
                  : ProductOf<T, false>(part, how, alpha, x, beta, y);
}
double ProductF64(const Part<double>& part, double alpha, const double* x, double beta, double* y,
                  bool with_dot) {
  return Product(part, Loaded<double>(), alpha, x, beta, y, with_dot);
}
float ProductF32(const Part<float>& part, float alpha, const float* x, float beta, float* y, bool with_dot) {
  return Product(part, Loaded<float>(), alpha, x, beta, y, with_dot);
}
double ProductF32F64(const Part<float>& part, double alpha, const double* x, double beta, double* y,
                     bool with_dot) {
  return Product(part, Loaded<double>(), alpha, x, beta, y, with_dot);
}
double ProductTableF64(const Part<std::uint8_t>& part, double alpha, const double* x, double beta, double* y,
                       bool with_dot) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (part.values.size <= in_registers)
    return Product(part, InRegisters(part.values.table), alpha, x, beta, y, with_dot);
#endif
  return Product(part, LookedUp(), alpha, x, beta, y, with_dot);
}

}  // namespace HWY_NAMESPACE
}  // namespace protean::formats::packed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats::packed {
HWY_EXPORT(ProductF64);
HWY_EXPORT(ProductF32);
HWY_EXPORT(ProductF32F64);
HWY_EXPORT(ProductTableF64);

double product(const Part<double>& part, double alpha, const double* x, double beta, double* y,
               bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(ProductF64)(part, alpha, x, beta, y, with_dot);
}
float product(const Part<float>& part, float alpha, const float* x, float beta, float* y, bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(ProductF32)(part, alpha, x, beta, y, with_dot);
}
double product(const Part<float>& part, double alpha, const double* x, double beta, double* y,
               bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(ProductF32F64)(part, alpha, x, beta, y, with_dot);
}
double product(const Part<std::uint8_t>& part, double alpha, const double* x, double beta, double* y,
               bool with_dot) {
  return HWY_DYNAMIC_DISPATCH(ProductTableF64)(part, alpha, x, beta, y, with_dot);
}
}  // namespace protean::formats::packed
#endif
