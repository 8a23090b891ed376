// x[col[0]], x[col[1]], ... as a vector. Included once for each instruction set, after Highway.
#if defined(PROTEAN_SIMD_GATHER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PROTEAN_SIMD_GATHER_INL
#undef PROTEAN_SIMD_GATHER_INL
#else
#define PROTEAN_SIMD_GATHER_INL
#endif
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {

// Lanes of a vector with tag D.
template <class D>
constexpr std::int64_t lanes_of = static_cast<std::int64_t>(hwy::HWY_NAMESPACE::MaxLanes(D()));

// Single loads joined in registers. On many processors they take half the time of the hardware's gather
// instruction, and on the others hardly more. at(code) is the column that a code stands for.
template <class D, class At, class T = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> take_at(D d, const T* x, const std::int32_t* code, At at) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_SCALAR
  return hn::LoadU(d, x + at(code[0]));
#else
  if constexpr (lanes_of<D> == 1) {
    return hn::LoadU(d, x + at(code[0]));
  } else {
    const hn::Half<D> half;
    constexpr std::int64_t middle = lanes_of<D> / 2;
    return hn::Combine(d, take_at(half, x, code + middle, at), take_at(half, x, code, at));
  }
#endif
}
struct SameColumn {
  HWY_INLINE std::int32_t operator()(std::int32_t col) const { return col; }
};
template <class D, class T = hwy::HWY_NAMESPACE::TFromD<D>>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> take(D d, const T* x, const std::int32_t* col) {
  return take_at(d, x, col, SameColumn());
}

}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
