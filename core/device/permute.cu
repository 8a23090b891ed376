// Vectors and matrices in another numbering.
#include <bit>
#include <type_traits>

#include "core/device/kernel_tools.cuh"
#include "core/device/permute.hpp"
#include "core/device/primitives.hpp"

namespace protean::device {
namespace {

template <class T, class Index>
__global__ void gather_kernel(const T* from, const Index* index, std::int64_t size, T* to, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride)
    to[i] = from[index[i]];
}

// Neighbouring threads take neighbouring vectors of a row, which lie side by side if they are interleaved.
template <class T>
__global__ void gather_rows_kernel(MultiVectorView<const T> from, const std::int32_t* index,
                                   MultiVectorView<T> to, std::int64_t from_row, std::int64_t from_column,
                                   std::int64_t to_row, std::int64_t to_column, const int* stop) {
  if (stopped(stop)) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x, size = to.rows * to.columns;
  for (std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; t < size; t += stride) {
    const std::int64_t i = t / to.columns, j = t - i * to.columns;
    to.data[i * to_row + j * to_column] = from.data[index[i] * from_row + j * from_column];
  }
}

// lengths[k] := entries of row order[k]; the last item is 0.
template <class Pointer>
__global__ void lengths_kernel(const Pointer* row_ptr, const std::int32_t* order, std::int64_t rows,
                               Pointer* lengths) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k <= rows; k += stride)
    lengths[k] = k < rows ? row_ptr[order[k] + 1] - row_ptr[order[k]] : 0;
}

// One warp a row. The key of an entry is its new row and column, which are sorted as one number.
template <class Pointer, class Entry>
__global__ void keys_kernel(const Pointer* row_ptr, const std::int32_t* col, const std::int32_t* order,
                            const std::int32_t* place, std::int64_t rows, const Pointer* new_ptr,
                            std::uint64_t* keys, Entry* entry) {
  const int lane = threadIdx.x % 32;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x / 32;
  for (std::int64_t k = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; k < rows; k += stride) {
    const Pointer from = row_ptr[order[k]], length = row_ptr[order[k] + 1] - from, to = new_ptr[k];
    for (Pointer i = lane; i < length; i += 32) {
      keys[to + i] = static_cast<std::uint64_t>(k) << 32 | static_cast<std::uint32_t>(place[col[from + i]]);
      entry[to + i] = static_cast<Entry>(from + i);
    }
  }
}

template <class T, class Entry>
__global__ void entries_kernel(const std::uint64_t* keys, const Entry* entry, const T* from,
                               std::int64_t size, std::int32_t* col, T* values) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride)
    col[i] = static_cast<std::int32_t>(keys[i] & 0xffffffffu), values[i] = from[entry[i]];
}

}  // namespace

template <class T, class Index>
void gather(const Context& context, const T* from, const Index* index, std::int64_t size, T* to) {
  if (size == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, gather_kernel<T, Index>, blocks_for(state, size), block_size, from, index, size, to,
         state.stop);
}

template <class T>
void gather_rows(const Context& context, const MultiVectorView<const T>& from, const std::int32_t* index,
                 const MultiVectorView<T>& to) {
  const std::int64_t size = to.rows * to.columns;
  if (size == 0) return;
  const DeviceState& state = context.device_state();
  launch(state, gather_rows_kernel<T>, blocks_for(state, size), block_size, from, index, to, from.row_step(),
         from.column_step(), to.row_step(), to.column_step(), state.stop);
}

template <class T, class Pointer, class Entry>
void permute(const Context& context, const CsrMatrix<T>& A, const std::int32_t* order,
             const std::int32_t* place, Pointer* row_ptr, std::int32_t* col, T* values, Entry* entry) {
  const std::int64_t rows = A.rows(), size = A.nonzeros();
  const Pointer* pointers;
  if constexpr (sizeof(Pointer) == 4)
    pointers = A.pattern.row_ptr.p32;
  else
    pointers = A.pattern.row_ptr.p64;
  const DeviceState& state = context.device_state();
  lengths_kernel<<<blocks_for(state, rows + 1), block_size, 0, stream(context)>>>(pointers, order, rows,
                                                                                  row_ptr);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  exclusive_scan(context, row_ptr, rows + 1);
  if (size == 0) return;
  const Scratch<std::uint64_t> keys(context, size);
  keys_kernel<<<blocks_for(state, 32 * rows), block_size, 0, stream(context)>>>(
      pointers, A.pattern.col, order, place, rows, row_ptr, keys.data(), entry);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  sort_pairs(context, keys.data(), entry, size, 32 + std::bit_width(static_cast<std::uint64_t>(rows)));
  entries_kernel<<<blocks_for(state, size), block_size, 0, stream(context)>>>(keys.data(), entry, A.values,
                                                                              size, col, values);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

#define PROTEAN_GATHER(T, Index) \
  template void gather<T, Index>(const Context&, const T*, const Index*, std::int64_t, T*);
PROTEAN_GATHER(float, std::int32_t)
PROTEAN_GATHER(float, std::int64_t)
PROTEAN_GATHER(double, std::int32_t)
PROTEAN_GATHER(double, std::int64_t)
#undef PROTEAN_GATHER

#define PROTEAN_GATHER_ROWS(T)                                                                       \
  template void gather_rows<T>(const Context&, const MultiVectorView<const T>&, const std::int32_t*, \
                               const MultiVectorView<T>&);
PROTEAN_GATHER_ROWS(float)
PROTEAN_GATHER_ROWS(double)
#undef PROTEAN_GATHER_ROWS

#define PROTEAN_PERMUTE(T, Pointer, Entry)                                                           \
  template void permute<T, Pointer, Entry>(const Context&, const CsrMatrix<T>&, const std::int32_t*, \
                                           const std::int32_t*, Pointer*, std::int32_t*, T*, Entry*);
PROTEAN_PERMUTE(float, std::int32_t, std::int32_t)
PROTEAN_PERMUTE(float, std::int64_t, std::int32_t)
PROTEAN_PERMUTE(float, std::int64_t, std::int64_t)
PROTEAN_PERMUTE(double, std::int32_t, std::int32_t)
PROTEAN_PERMUTE(double, std::int64_t, std::int32_t)
PROTEAN_PERMUTE(double, std::int64_t, std::int64_t)
#undef PROTEAN_PERMUTE

}  // namespace protean::device
