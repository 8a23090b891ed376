// What the device code of several formats has in common. Private to formats/.
#pragma once
#include <memory>
#include <vector>

#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// A device kernel made from a class template Format<T> with a constructor from BuildRequest<T>.
template <template <class> class Format>
constexpr Kernel device_kernel(std::string_view name, bool deterministic = true) {
  return {name,
          false,
          true,
          {},
          [](const BuildRequest<double>& r) -> std::unique_ptr<AssembledMatrix<double>> {
            return std::make_unique<Format<double>>(r);
          },
          [](const BuildRequest<float>& r) -> std::unique_ptr<AssembledMatrix<float>> {
            return std::make_unique<Format<float>>(r);
          },
          {},
          deterministic};
}

// Blocks of so many threads (or items) that cover all items.
inline unsigned blocks_of(std::int64_t items, int threads = device::block_size) {
  return static_cast<unsigned>((items + threads - 1) / threads);
}

// y := alpha * sum + beta * y without reading y when beta is 0.
template <class T>
__device__ inline void store(T alpha, T sum, T beta, T* y) {
  *y = beta == T(0) ? alpha * sum : alpha * sum + beta * *y;
}

// A number computed on the device, read by the host: synchronises. For conversions, never for products.
template <class N>
N read_back(const Context& context, const N* where) {
  N value;
  device::copy_out(context, &value, where, sizeof value);
  return value;
}

}  // namespace protean::formats
