// PROTEAN_NARROW: the namespace of kernels that AVX-512 makes no faster, since their vectors have at most 256 bits, or
// one number. If AVX2 is compiled, too, AVX-512 takes the code of AVX2, to save time of the build; elsewhere it is
// HWY_NAMESPACE. Include it inside foreach_target files after hwy/highway.h. Private.
#undef PROTEAN_NARROW
#if HWY_TARGET == HWY_AVX3 && (HWY_TARGETS & HWY_AVX2)
#define PROTEAN_NARROW N_AVX2
#else
#define PROTEAN_NARROW HWY_NAMESPACE
#endif
