// Jagged diagonals on the device: the arrays of jad.cpp. Kernels:
//   native  One thread per row, or 2, 4 or 8 if there are few rows.
//   staged  One thread per row. Each block copies the pointers and the rows of the first 1024 jags into shared memory.
#include "formats/engines/jags/jags.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
using JadNative = JagDevice<T, false>;
template <class T>
using JadStaged = JagDevice<T, true>;

constexpr Kernel kernels[] = {device_kernel<JadNative>("native"), device_kernel<JadStaged>("staged")};

}  // namespace

constinit const DeviceCode device_code::jad{kernels, admit_jags_on_device};

}  // namespace protean::formats
