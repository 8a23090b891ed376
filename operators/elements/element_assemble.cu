// Assembly of element matrices into CSR on the device. Every entry becomes a triple (row, column, number of
// the entry). A stable sort brings the triples of one place together in the order of the elements, and one
// thread adds them.
#include <algorithm>
#include <bit>

#include "core/bisect.hpp"
#include "core/device/copy.hpp"
#include "core/device/primitives.hpp"
#include "operators/elements/element_assemble.hpp"
#include "operators/elements/element_device.cuh"

namespace protean::detail {
namespace {

// Entry n of all element matrices, numbered through the elements in order, m x m each.
struct Entry {
  std::int64_t slot;
  int m, i, j;
};
__device__ inline Entry entry_of(const ElementGroupView* groups, int count, const std::int32_t* slot_of,
                                 std::int64_t n) {
  int g = 0;
  while (g + 1 < count && n >= groups[g + 1].before) ++g;
  const int m = groups[g].m;
  const std::int64_t in_group = n - groups[g].before, e = in_group / (m * m);
  const int rest = static_cast<int>(in_group % (m * m));
  return {slot_of[groups[g].first + e], m, rest / m, rest % m};
}

// keys[n] := row, then column, in `bits` bits each. Entries without a row or column get the largest key.
template <class T>
__global__ void expand_entries(ElementView<T> a, const ElementGroupView* groups, int count,
                               const std::int32_t* slot_of, std::int64_t entries, int bits,
                               std::uint64_t* keys, std::int64_t* items) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < entries + a.constrained_rows;
       n += stride) {
    items[n] = n;
    if (n >= entries) {
      const auto r = static_cast<std::uint64_t>(a.constrained[n - entries]);
      keys[n] = r << bits | r;
      continue;
    }
    const Entry entry = entry_of(groups, count, slot_of, n);
    const std::int32_t* map = a.map + a.batches[entry.slot / warp].map + entry.slot % warp;
    const std::int32_t r = map[entry.i * warp], c = map[entry.j * warp];
    keys[n] = r < 0 || c < 0 ? static_cast<std::uint64_t>(a.rows) << bits
                             : static_cast<std::uint64_t>(r) << bits | static_cast<std::uint64_t>(c);
  }
}

// first[n] := 1 where a new entry of the matrix begins. A scan of it gives the number of the entry.
__global__ void mark_first(std::int64_t size, std::uint64_t behind, const std::uint64_t* keys,
                           std::int64_t* first) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n <= size; n += stride)
    first[n] = n < size && keys[n] < behind && (n == 0 || keys[n] != keys[n - 1]) ? 1 : 0;
}

template <bool symmetric, class T>
__global__ void add_entries(ElementView<T> a, const ElementGroupView* groups, int count,
                            const std::int32_t* slot_of, std::int64_t entries, std::int64_t size, int bits,
                            const std::uint64_t* keys, const std::int64_t* items, const std::int64_t* number,
                            std::int32_t* col, T* values) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < size; n += stride) {
    if (number[n + 1] == number[n]) continue;
    const std::uint64_t key = keys[n];
    T sum = 0;
    for (std::int64_t k = n; k < size && keys[k] == key; ++k) {
      if (items[k] >= entries) {
        sum += T(1);
        continue;
      }
      const Entry entry = entry_of(groups, count, slot_of, items[k]);
      const ElementBatch& batch = a.batches[entry.slot / warp];
      sum += a.values[batch.values + element_entry<symmetric>(entry.m, entry.i, entry.j) * warp +
                      entry.slot % warp];
    }
    const std::int64_t at = number[n];
    col[at] = static_cast<std::int32_t>(key & ((std::uint64_t{1} << bits) - 1));
    values[at] = sum;
  }
}

// row_ptr[r] := number of the first entry in row r or a later row.
template <class P>
__global__ void find_row_ends(std::int64_t rows, std::int64_t entries, const std::uint64_t* keys,
                              const std::int64_t* number, std::int64_t size, int bits, P* row_ptr) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r > rows) return;
  // The first key in row r or a later row.
  const std::uint64_t wanted = static_cast<std::uint64_t>(r) << bits;
  const std::int64_t first =
      first_where(std::int64_t{0}, size, [&](std::int64_t i) { return keys[i] >= wanted; });
  row_ptr[r] = static_cast<P>(first < size ? number[first] : entries);
}

// sums[r] and terms[r] of each row: one warp per batch, one lane per element.
template <bool symmetric, class T>
__global__ void add_magnitudes(ElementView<T> a, std::int64_t batches, T* sums, T* terms) {
  for (std::int64_t b = blockIdx.x; b < batches; b += gridDim.x) {
    const ElementBatch batch = a.batches[b];
    const std::int32_t* map = a.map + batch.map + threadIdx.x;
    const T* values = a.values + batch.values + threadIdx.x;
    if (static_cast<std::int32_t>(threadIdx.x) >= batch.count) continue;
    for (int i = 0; i < batch.m; ++i) {
      if (map[i * warp] < 0) continue;
      T sum = 0, count = 0;
      for (int j = 0; j < batch.m; ++j) {
        if (map[j * warp] < 0) continue;
        const T value = values[element_entry<symmetric>(batch.m, i, j) * warp];
        sum += value < T(0) ? -value : value, count += T(1);
      }
      atomicAdd(sums + map[i * warp], sum);
      atomicAdd(terms + map[i * warp], count);
    }
  }
}

template <class T>
__global__ void add_bounds(std::int64_t rows, T factor, const T* sums, const T* terms, T* bounds) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < rows; r += stride)
    bounds[r] += factor * (terms[r] + T(2)) * sums[r];
}

}  // namespace

template <class T>
void add_bounds_on_device(const ContextPtr& context_ptr, bool symmetric, const ElementView<T>& view,
                          std::int64_t batches, T factor, T* bounds) {
  if (view.rows == 0 || batches == 0) return;
  const Context& context = *context_ptr;
  const cudaStream_t stream = device::stream(context);
  const device::Scratch<T> sums(context, view.rows), terms(context, view.rows);
  for (const auto* array : {&sums, &terms})
    PROTEAN_CUDA_CHECK(
        cudaMemsetAsync(array->data(), 0, static_cast<std::size_t>(view.rows) * sizeof(T), stream));
  const auto kernel = symmetric ? add_magnitudes<true, T> : add_magnitudes<false, T>;
  kernel<<<static_cast<unsigned>(std::min<std::int64_t>(batches, 65535)), warp, 0, stream>>>(
      view, batches, sums.data(), terms.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  add_bounds<<<strided_blocks(view.rows), device::block_size, 0, stream>>>(view.rows, factor, sums.data(),
                                                                           terms.data(), bounds);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
CsrMatrix<T> assemble_on_device(const ContextPtr& context_ptr, bool symmetric, const ElementView<T>& view,
                                const ElementGroupView* groups, int count, const std::int32_t* slot_of,
                                std::int64_t entries, std::size_t most_bytes) {
  const std::int64_t rows = view.rows, size = entries + view.constrained_rows;
  // Keys, items and numbers; keys and items twice, for the sort.
  const std::size_t workspace = 40 * static_cast<std::size_t>(size + 1);
  require_assembly(*context_ptr, rows, 0, sizeof(T), workspace, most_bytes);
  const cudaStream_t stream = device::stream(*context_ptr);
  const int bits = std::max<int>(1, std::bit_width(static_cast<std::uint64_t>(rows)));
  const Context& context = *context_ptr;
  const device::Scratch<std::uint64_t> keys(context, size + 1);
  const device::Scratch<std::int64_t> items(context, size + 1), number(context, size + 1);
  expand_entries<<<strided_blocks(size + 1), device::block_size, 0, stream>>>(
      view, groups, count, slot_of, entries, bits, keys.data(), items.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::sort_pairs(context, keys.data(), items.data(), size, 2 * bits);
  mark_first<<<strided_blocks(size + 1), device::block_size, 0, stream>>>(
      size, static_cast<std::uint64_t>(rows) << bits, keys.data(), number.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, number.data(), size + 1);
  std::int64_t nonzeros = 0;
  device::copy_out(context, &nonzeros, number.data() + size, sizeof nonzeros);
  require_assembly(context, rows, nonzeros, sizeof(T), most_bytes > 0 ? workspace : 0, most_bytes);
  CsrBuilder<T> builder(context_ptr, rows, rows, nonzeros);
  const auto fill = [&](auto* row_ptr) {
    using P = std::remove_pointer_t<decltype(row_ptr)>;
    const auto kernel = symmetric ? add_entries<true, T> : add_entries<false, T>;
    if (size > 0)
      kernel<<<strided_blocks(size), device::block_size, 0, stream>>>(
          view, groups, count, slot_of, entries, size, bits, keys.data(), items.data(), number.data(),
          builder.col(), builder.values());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    find_row_ends<P><<<static_cast<unsigned>(rows / device::block_size + 1), device::block_size, 0, stream>>>(
        rows, nonzeros, keys.data(), number.data(), size, bits, row_ptr);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  };
  if (builder.row_ptr32())
    fill(builder.row_ptr32());
  else
    fill(builder.row_ptr64());
  context.synchronize();
  return builder.freeze();
}

#define PROTEAN_INSTANTIATE(T)                                                                   \
  template CsrMatrix<T> assemble_on_device<T>(const ContextPtr&, bool, const ElementView<T>&,    \
                                              const ElementGroupView*, int, const std::int32_t*, \
                                              std::int64_t, std::size_t);                        \
  template void add_bounds_on_device<T>(const ContextPtr&, bool, const ElementView<T>&, std::int64_t, T, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
