// What the device code of element matrices shares. Private to operators/.
#pragma once
#include "core/device/kernel_tools.cuh"
#include "operators/element_plan.hpp"

namespace protean::detail {

// Elements in a batch on a device: a lane of a warp each.
constexpr int warp = 32;

// Elements of one kind.
struct ElementGroupView {
  std::int64_t first;   // element
  std::int64_t before;  // entries of all groups before this one, m x m each
  std::int32_t m;
};

// What the kernels know of the operator.
template <class T>
struct ElementView {
  const ElementBatch* batches;
  const T* values;
  const std::int32_t* map;
  const std::int32_t* constrained;
  std::int64_t constrained_rows, rows;
};

// Where entry (i, j) of an element of m rows lies among its entries.
template <bool symmetric>
__device__ inline std::int64_t element_entry(std::int64_t m, std::int64_t i, std::int64_t j) {
  if (!symmetric) return i * m + j;
  return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
}

// Blocks for a loop over so many items with a stride.
inline unsigned strided_blocks(std::int64_t items) {
  const std::int64_t blocks = (items + device::block_size - 1) / device::block_size;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < (1 << 20) ? blocks : 1 << 20);
}

// The assembled matrix in device memory. groups: those with elements; entries: m x m of each element.
template <class T>
CsrMatrix<T> assemble_on_device(const ContextPtr& context, bool symmetric, const ElementView<T>& view,
                                const ElementGroupView* groups, int count, const std::int32_t* slot_of,
                                std::int64_t entries, std::size_t most_bytes);

// ElementOperator::add_rounding_bounds() on device memory.
template <class T>
void add_bounds_on_device(const ContextPtr& context, bool symmetric, const ElementView<T>& view,
                          std::int64_t batches, T factor, T* bounds);

}  // namespace protean::detail
