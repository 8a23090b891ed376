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

// Blocks of so many threads (or items) that cover all items.
inline unsigned blocks_of(std::int64_t items, int threads = device::block_size) {
  return static_cast<unsigned>((items + threads - 1) / threads);
}

// y := alpha * sum + beta * y without reading y when beta is 0.
template <class T>
__device__ inline void store(T alpha, T sum, T beta, T* y) {
  *y = beta == T(0) ? alpha * sum : alpha * sum + beta * *y;
}

// Asks for all lines of [first, last) to be brought to the second cache, by the lanes of a warp that have a
// number from 0 to count - 1. Costs no registers while it is under way.
__device__ inline void prefetch_lines(const void* first, const void* last, int number, int count) {
  const char* const end = static_cast<const char*>(last);
  for (const char* line = static_cast<const char*>(first) + std::int64_t{number} * 128; line < end;
       line += std::int64_t{count} * 128)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

// What is asked of a product: y := alpha A x + beta y, and with the dot also *result := x . y (alpha is 1 and
// beta 0 then).
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

  // Ends a row; `dots` gathers what the thread adds to x . y.
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
// For a launch of so many blocks. Without a dot product where `result` is null.
template <class T>
ProductTask<T> product_task(const Context& context, std::int64_t blocks, T alpha, const T* x, T beta, T* y,
                            T* result) {
  const device::Sums<T> sums = result ? device::sums_into<1>(context, blocks, result) : device::Sums<T>();
  return {alpha, x, beta, y, sums.parts, sums.arrived, sums.result, context.device_state().stop};
}

// Blocks of a product that has `pieces` of work for a block, of which the device holds eight a processor.
// Where there is much to do, blocks stay and all go round equally often: a warp that is done with its rows
// then goes on to the next without waiting for the rest of its block. Otherwise there is one block a piece,
// so that faster processors do more; a reduction has fewer blocks, since each has to say that it is done.
inline unsigned product_blocks(const DeviceState& state, std::int64_t pieces, bool reduces) {
  const std::int64_t resident =
      std::min<std::int64_t>(std::int64_t{state.processors} * 8, DeviceState::max_blocks / 2);
  const std::int64_t rounds = (pieces + resident - 1) / resident;
  if (rounds >= 16) return static_cast<unsigned>((pieces + rounds - 1) / rounds);
  if (reduces) pieces = std::min(pieces, 2 * resident);
  return static_cast<unsigned>(std::max<std::int64_t>(1, pieces));
}

// The same for kernels of which the device holds fewer blocks: they never stay.
inline unsigned piece_blocks(const DeviceState& state, std::int64_t pieces, bool reduces) {
  const std::int64_t most = std::int64_t{state.processors} * 18;
  if (reduces) pieces = std::min({pieces, most, std::int64_t{DeviceState::max_blocks}});
  return static_cast<unsigned>(std::max<std::int64_t>(1, pieces));
}

// A product with a thread a position, `split` of them where rows are few. A kernel is a call of this with its
// own launch bounds. Rows has
//   std::int64_t rows
//   std::int64_t row(std::int64_t p) const        of position p < rows
//   T part_sum<split>(p, part, x) const           what the part-th of the row's threads adds to its sum
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

// Threads that share a row: enough to fill the device, none with less than two slots of the mean row.
inline int row_split(const DeviceState& state, std::int64_t rows, double mean) {
  int split = 1;
  while (split < 8 && rows / 32 * split < std::int64_t{state.processors} * 48 && mean >= 4 * split)
    split *= 2;
  return split;
}
// Blocks' worth of work then.
inline std::int64_t row_pieces(std::int64_t rows, int split) {
  return (rows + device::block_size / split - 1) / (device::block_size / split);
}
// f(integral constant) of one of its values.
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

// A number computed on the device, read by the host: synchronises. For conversions, never for products.
template <class N>
N read_back(const Context& context, const N* where) {
  N value;
  device::copy_out(context, &value, where, sizeof value);
  return value;
}

// The matrix keeps what admission has found.
template <class N>
Buffer<N> copy_of(const ContextPtr& context, const device::Scratch<N>& from) {
  Buffer<N> to(context, from.size());
  device::copy_within(*context, to.data(), from.data(), from.bytes());
  return to;
}

}  // namespace protean::formats
