// The layout of element matrices in batches and colours. It is computed on the host from the connectivity and
// is the same for host and device. Private to operators/.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "operators/elements/element_operator.hpp"

namespace protean::detail {

// `lanes` elements of one group, one per lane.
struct ElementBatch {
  std::int64_t values, map;  // offsets of its entries and of its rows
  std::int32_t m, count;     // rows of an element; lanes in use, which are the first ones
  bool complete;             // all lanes are in use, and no row is constrained
  bool shared;               // host, atomic: another thread adds to some of its rows, too
};

struct ElementPlan {
  struct Group {
    std::int64_t first, elements;  // elements are numbered through all groups
    std::int32_t nodes, m;
    std::uint64_t connectivity;  // its hash
  };
  int lanes = 1;
  bool symmetric = false;
  std::int64_t rows = 0;
  std::int64_t elements = 0, entries = 0;  // entries: m x m each
  std::int64_t values = 0;                 // stored, padding included
  std::vector<Group> groups;
  std::vector<ElementBatch> batches;     // in memory order
  std::vector<std::int64_t> colour_ptr;  // batches of colour k: colour_ptr[k] .. colour_ptr[k+1] - 1
  std::vector<std::int32_t> slot_of;     // element -> batch * lanes + lane
  std::vector<std::int32_t> element_in;  // slot -> element, -1 for none
  // The row of unknown i of lane l of a batch: map[batch.map + i lanes + l]; -1 if it has no row.
  Buffer<std::int32_t> map;
  std::vector<std::int32_t> constrained;  // constrained rows that are kept, ascending
  std::vector<std::int32_t> free_unknowns;

  // Number of stored entries of an element of m rows, and the index of entry (i, j) among them.
  std::int64_t stored(std::int64_t m) const noexcept { return symmetric ? m * (m + 1) / 2 : m * m; }
  std::int64_t entry(std::int64_t m, std::int64_t i, std::int64_t j) const noexcept {
    if (!symmetric) return i * m + j;
    return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
  }
  // The index of an element's group.
  std::size_t group_of(std::int64_t element) const noexcept {
    std::size_t g = 0;
    while (element >= groups[g].first + groups[g].elements) ++g;
    return g;
  }
  std::size_t bytes() const noexcept {
    return map.bytes() + batches.size() * sizeof(ElementBatch) + colour_ptr.size() * 8 +
           4 * (slot_of.size() + element_in.size() + constrained.size() + free_unknowns.size());
  }
};

// A group without its values.
struct ElementShape {
  std::int64_t elements;
  int nodes;
  std::span<const std::int32_t> connectivity;  // in host memory
};
enum class Colouring : unsigned char {
  none,
  batches,  // batches of neighbouring elements are coloured
  elements  // elements are coloured, and a batch has elements of one colour
};

// Number of parts for work in which each part reads all elements and whose result does not depend on the
// number. In background work at most the number of workers.
int parts_of_elements(const Context& host, const ElementPlan& plan) noexcept;

// Checks connectivity and options and computes the layout. `host` does the work and owns plan.map.
ElementPlan plan_elements(const ContextPtr& host, std::int64_t nodes, std::span<const ElementShape> shapes,
                          const ElementOptions& options, int lanes, Colouring colouring);

// Throws ShapeMismatch unless the matrices of `groups` have the sizes of the plan.
template <class T>
void check_matrices(const ElementPlan& plan, std::span<const ElementGroup<T>> groups);
// Throws ShapeMismatch if a group has another connectivity than the plan. context: the context of the operator.
template <class T>
void check_same_connectivity(const Context& context, const ElementPlan& plan,
                             std::span<const ElementGroup<T>> groups);

// How much entries (i, j) and (j, i) may differ, relative to the largest entry of the element.
template <class T>
constexpr T mirror_tolerance() {
  return T(100) * std::numeric_limits<T>::epsilon();
}
// Finds what is wrong with an element whose check failed, and throws. `matrix` is in host memory.
template <class T>
[[noreturn]] void refuse_matrix(const ElementPlan& plan, std::int64_t element, const T* matrix);

// The rows of elements that are added to each row of the operator, in ascending order of elements.
template <class Item>
struct ElementRows {
  Buffer<std::int64_t> ptr;  // rows + 1
  Buffer<Item> items;
};
struct ElementRow {
  std::int32_t slot, i;
};
ElementRows<ElementRow> element_rows(const ContextPtr& host, const ElementPlan& plan);
// The same as positions in plan.map. BadArgument when there are more than 2^32 of them.
ElementRows<std::uint32_t> map_positions(const ContextPtr& host, const ElementPlan& plan);

template <class T>
std::unique_ptr<ElementOperator<T>> make_host_elements(ContextPtr context, std::int64_t nodes,
                                                       std::span<const ElementGroup<T>> groups,
                                                       const ElementOptions& options);
// CUDA builds only: element_device.cu.
template <class T>
std::unique_ptr<ElementOperator<T>> make_device_elements(ContextPtr context, std::int64_t nodes,
                                                         std::span<const ElementGroup<T>> groups,
                                                         const ElementOptions& options);

}  // namespace protean::detail
