// The arithmetic of deterministic mode (HostOptions), for the SIMD target being compiled: include it inside
// foreach_target files after hwy/highway.h. Private to formats/.
//
// std::fma is one instruction on targets that have it. On others the C library computes the same bits,
// slowly.
#if defined(PROTEAN_FORMATS_ORDERED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_FORMATS_ORDERED_INL
#undef PROTEAN_FORMATS_ORDERED_INL
#else
#define PROTEAN_FORMATS_ORDERED_INL
#endif

#include <cmath>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {

// y := alpha * sum + beta * y without reading y when beta is 0.
template <class T>
HWY_INLINE void store_ordered(T alpha, T sum, T beta, T& y) {
  const T scaled = alpha * sum;
  y = beta == T(0) ? scaled : std::fma(beta, y, scaled);
}

// Adds values[k] x[col[k]] for k < end to `sum`, one after another.
template <class T, class P, class V>
HWY_INLINE T ordered_dot(const V* HWY_RESTRICT values, const std::int32_t* HWY_RESTRICT col,
                         const T* HWY_RESTRICT x, P k, P end, T sum = T(0)) {
  for (; k < end; ++k) sum = std::fma(T{values[k]}, x[col[k]], sum);
  return sum;
}

}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
