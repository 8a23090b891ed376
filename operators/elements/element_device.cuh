// Shared by the device code of element matrices. Private to operators/.
#pragma once
#include "core/device/kernel_tools.cuh"
#include "operators/elements/element_plan.hpp"

namespace protean::detail {

// Elements in a batch on a device: one per lane of a warp.
constexpr int warp = 32;

// Elements of one kind.
struct ElementGroupView {
  std::int64_t first;   // number of its first element
  std::int64_t before;  // number of entries in the groups before, m x m per element
  std::int32_t m;
};

// The operator as the kernels see it.
template <class T>
struct ElementView {
  const ElementBatch* batches;
  const T* values;
  const std::int32_t* map;
  const std::int32_t* constrained;
  std::int64_t constrained_rows, rows;
};

// The index of entry (i, j) among the entries of an element of m rows.
template <bool symmetric>
__device__ inline std::int64_t element_entry(std::int64_t m, std::int64_t i, std::int64_t j) {
  if (!symmetric) return i * m + j;
  return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
}

// Number of blocks for a grid-stride loop over that many items.
inline unsigned strided_blocks(std::int64_t items) {
  const std::int64_t blocks = (items + device::block_size - 1) / device::block_size;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < (1 << 20) ? blocks : 1 << 20);
}

// The assembled matrix in device memory. groups: the groups that have elements; entries: m x m per element.
template <class T>
CsrMatrix<T> assemble_on_device(const ContextPtr& context, bool symmetric, const ElementView<T>& view,
                                const ElementGroupView* groups, int count, const std::int32_t* slot_of,
                                std::int64_t entries, std::size_t most_bytes);

// ElementOperator::add_rounding_bounds() on device memory.
template <class T>
void add_bounds_on_device(const ContextPtr& context, bool symmetric, const ElementView<T>& view,
                          std::int64_t batches, T factor, T* bounds);

}  // namespace protean::detail
