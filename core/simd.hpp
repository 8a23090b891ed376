// The instruction sets for which kernels that use arrays of vectors are compiled. Include it first, before
// any Highway header. One lane at a time, AVX2 and AVX-512 cover what matters here; every further set would
// cost build time. Vectors whose length the compiler does not know are left out.
#pragma once
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
