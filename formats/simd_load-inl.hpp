// Values of a matrix as a vector of the numbers with which it computes. Included once for each instruction set, after
// Highway.
#if defined(PROTEAN_SIMD_LOAD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_SIMD_LOAD_INL
#undef PROTEAN_SIMD_LOAD_INL
#else
#define PROTEAN_SIMD_LOAD_INL
#endif
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {

// Values in the precision of the vectors, or in float next to vectors in double: these become doubles, which rounds
// none.
template <class D, class V>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_values(D d, const V* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (sizeof(V) == sizeof(hn::TFromD<D>))
    return hn::LoadU(d, from);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<V, D>(), from));
}

}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
