// Which instruction sets kernels that keep arrays of vectors are compiled for. To be included first, before
// any Highway header: one lane at a time, AVX2 and AVX-512 cover what matters here, and every further one
// would cost build time. Vectors whose length is not known to the compiler are left out.
#pragma once
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
