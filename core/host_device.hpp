// Marks functions that host and device code share. Private.
#pragma once
#if defined(__CUDACC__)
#define PROTEAN_HOST_DEVICE __host__ __device__
#else
#define PROTEAN_HOST_DEVICE
#endif
