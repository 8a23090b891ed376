// What the device code of several formats has in common. Private to formats/.
#pragma once
#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"
#include "core/device_checks.hpp"
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

constexpr Kernel with_params(Kernel kernel, std::span<const ParamDoc> params) {
  kernel.params = params;
  return kernel;
}
// The kernel with its own admit().
constexpr Kernel admitted_by(Admit admit, Kernel kernel) {
  kernel.admit = admit;
  return kernel;
}

// The number of blocks of `threads` threads (or items) that covers all items.
inline unsigned blocks_of(std::int64_t items, int threads = device::block_size) {
  return static_cast<unsigned>((items + threads - 1) / threads);
}

// y := alpha * sum + beta * y without reading y when beta is 0.
template <class T>
__device__ inline void store(T alpha, T sum, T beta, T* y) {
  *y = beta == T(0) ? alpha * sum : alpha * sum + beta * *y;
}

// Prefetches all cache lines of [first, last) into the second-level cache. The lanes 0 to count - 1 of a warp
// share the work. It needs no registers while the lines arrive.
__device__ inline void prefetch_lines(const void* first, const void* last, int number, int count) {
  const char* const end = static_cast<const char*>(last);
  for (const char* line = static_cast<const char*>(first) + std::int64_t{number} * 128; line < end;
       line += std::int64_t{count} * 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

// The task of a product: y := alpha A x + beta y. With the dot product also *result := x . y; alpha is 1 and
// beta 0 then.
template <class T>
struct ProductTask {
  T alpha;
  const T* x;
  T beta;
  T* y;
  double* partials;  // of the reduction, see device::finish_reduction()
  unsigned* arrived;
  T* result;
  const int* stop;

  // Writes y of one row; adds the row's part of x . y to `dots`.
  template <bool dot>
  __device__ void finish(std::int64_t row, T sum, T (&dots)[1]) const {
    if (dot) {
      y[row] = sum;
      dots[0] += x[row] * sum;
    } else {
      store(alpha, sum, beta, y + row);
    }
  }
};
// The task for a launch of `blocks` blocks. Without a dot product when `result` is null.
template <class T>
ProductTask<T> product_task(const Context& context, std::int64_t blocks, T alpha, const T* x, T beta, T* y,
                            T* result) {
  const device::Sums<T> sums = result ? device::sums_into<1>(context, blocks, result) : device::Sums<T>();
  return {alpha, x, beta, y, sums.parts, sums.arrived, sums.result, context.device_state().stop};
}

// The number of blocks of a product whose work fills `pieces` blocks; the device holds eight blocks for each
// processor. With much work the grid is as large as the device holds and every block does the same number of
// rounds: a warp that has finished its rows goes on to the next ones without waiting for the rest of its
// block. Otherwise each piece has its own block, so that faster processors do more. A reduction has fewer
// blocks, because each of them adds to the counter of finished blocks.
inline unsigned product_blocks(const DeviceState& state, std::int64_t pieces, bool reduces) {
  const std::int64_t resident =
      std::min<std::int64_t>(std::int64_t{state.processors} * 8, DeviceState::max_blocks / 2);
  const std::int64_t rounds = (pieces + resident - 1) / resident;
  if (rounds >= 16) return static_cast<unsigned>((pieces + rounds - 1) / rounds);
  if (reduces) pieces = std::min(pieces, 2 * resident);
  return static_cast<unsigned>(std::max<std::int64_t>(1, pieces));
}

// The same for kernels of which the device holds fewer blocks: each piece has its own block.
inline unsigned piece_blocks(const DeviceState& state, std::int64_t pieces, bool reduces) {
  const std::int64_t most = std::int64_t{state.processors} * 18;
  if (reduces) pieces = std::min({pieces, most, std::int64_t{DeviceState::max_blocks}});
  return static_cast<unsigned>(std::max<std::int64_t>(1, pieces));
}

// A product with one thread for each position, or `split` threads if there are few rows. A kernel calls this with its
// own launch bounds. Rows has std::int64_t rows
//   std::int64_t row(std::int64_t p) const        of position p < rows
//   T part_sum<split>(p, part, x) const           what thread `part` of the row adds to its sum
//   T whole(p, sum) const                         the row's sum from the sum of all parts
template <int split, bool dot, class T, class Rows>
__device__ inline void multiply_rows(const Rows& a, const ProductTask<T>& task) {
  if (device::stopped(task.stop)) return;
  constexpr int rows_a_block = device::block_size / split;
  __shared__ T shared[split > 1 ? device::block_size : 1];
  const int part = threadIdx.x / rows_a_block;
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block; first < a.rows;
       first += std::int64_t{gridDim.x} * rows_a_block) {
    const std::int64_t p = first + threadIdx.x % rows_a_block;
    T sum = p < a.rows ? a.template part_sum<split>(p, part, task.x) : T(0);
    if (split > 1) {
      __syncthreads();
      shared[threadIdx.x] = sum;
      __syncthreads();
      if (part == 0)
        for (int other = 1; other < split; ++other) sum += shared[threadIdx.x + other * rows_a_block];
    }
    if (part == 0 && p < a.rows) task.template finish<dot>(a.row(p), a.whole(p, sum), dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// Number of threads that share a row: enough to fill the device, but at least two slots of the mean row for
// each.
inline int row_split(const DeviceState& state, std::int64_t rows, double mean) {
  int split = 1;
  while (split < 8 && rows / 32 * split < std::int64_t{state.processors} * 48 && mean >= 4 * split)
    split *= 2;
  return split;
}
// The number of pieces of work, one for each block, with this split.
inline std::int64_t row_pieces(std::int64_t rows, int split) {
  return (rows + device::block_size / split - 1) / (device::block_size / split);
}
// Calls f with the number as an integral constant.
template <class F>
void with_split(int split, F&& f) {
  switch (split) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 4:
      return f(std::integral_constant<int, 4>());
    default:
      return f(std::integral_constant<int, 8>());
  }
}

// A number that the device has computed. The host waits for it: for conversions, never for products.
template <class N>
N read_back(const Context& context, const N* where) {
  N value;
  device::copy_out(context, &value, where, sizeof value);
  return value;
}

// A buffer of the matrix with a copy of what admit() found.
template <class N>
Buffer<N> copy_of(const ContextPtr& context, const device::Scratch<N>& from) {
  Buffer<N> to(context, from.size());
  device::copy_within(*context, to.data(), from.data(), from.bytes());
  return to;
}

}  // namespace protean::formats
