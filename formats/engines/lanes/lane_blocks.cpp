// Products of lane-mapped ELLPACK whose slots are blocks of two entries.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/lanes/lane_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/lanes/lanes-inl.hpp"
#include "formats/engines/lanes/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

void blocks_f64(const LaneProduct<double>& job, int unroll, std::int64_t begin, std::int64_t end) {
  if (job.a.R == 2)
    lanes<2, 1>(job, unroll, begin, end);
  else
    lanes<1, 2>(job, unroll, begin, end);
}
void blocks_f32(const LaneProduct<float>& job, int unroll, std::int64_t begin, std::int64_t end) {
  if (job.a.R == 2)
    lanes<2, 1>(job, unroll, begin, end);
  else
    lanes<1, 2>(job, unroll, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(blocks_f64);
HWY_EXPORT(blocks_f32);

void lane_block_product(const LaneProduct<double>& product, int unroll, std::int64_t begin,
                        std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(blocks_f64)(product, unroll, begin, end);
}
void lane_block_product(const LaneProduct<float>& product, int unroll, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(blocks_f32)(product, unroll, begin, end);
}

}  // namespace protean::formats
#endif
