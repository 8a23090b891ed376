// The instruction sets for which kernels that use arrays of vectors are compiled. Include it first, before
// any Highway header. One lane at a time, AVX2 and AVX-512 cover what matters here; every further set would
// cost build time. Vectors whose length the compiler does not know are left out.
// PROTEAN_WITHOUT_AVX512, defined before: for kernels that AVX-512 makes less than 5 % faster, and for kernels that are
// not written in SIMD and need only the fused multiply-add of AVX2. What the sets gain: docs/results/build.md.
#pragma once
#if defined(PROTEAN_WITHOUT_AVX512)
#define PROTEAN_LEFT_OUT HWY_AVX3
#else
#define PROTEAN_LEFT_OUT 0
#endif
#define HWY_DISABLED_TARGETS                                                                                 \
  (PROTEAN_LEFT_OUT | HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   HWY_RVV)
