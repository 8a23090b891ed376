// Where the numbers of element matrices lie and what belongs together: worked out on the host from the
// connectivity, the same for host and device. Private to operators/.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "operators/element_operator.hpp"

namespace protean::detail {

// `lanes` elements of one group, one a lane.
struct ElementBatch {
  std::int64_t values, map;  // where its entries and its rows begin
  std::int32_t m, count;     // rows of an element; lanes in use, the first ones
  bool complete;             // all lanes in use, all rows there
  bool shared;               // host, atomic: some row belongs to elements of another thread, too
};

struct ElementPlan {
  struct Group {
    std::int64_t first, elements;  // elements of all groups are counted through
    std::int32_t nodes, m;
  };
  int lanes = 1;
  bool symmetric = false;
  std::int64_t rows = 0;
  std::int64_t elements = 0, entries = 0;  // entries: m x m each
  std::int64_t values = 0;                 // stored, padding included
  std::vector<Group> groups;
  std::vector<ElementBatch> batches;     // in the order they lie
  std::vector<std::int64_t> colour_ptr;  // batches of colour k: colour_ptr[k] .. colour_ptr[k+1] - 1
  std::vector<std::int32_t> slot_of;     // element -> batch * lanes + lane
  std::vector<std::int32_t> element_in;  // slot -> element, -1 for none
  // Row of unknown i of lane l of a batch: map[batch.map + i lanes + l]; -1 where there is none.
  Buffer<std::int32_t> map;
  std::vector<std::int32_t> constrained;  // rows that are kept as rows of the identity, ascending
  std::vector<std::int32_t> free_unknowns;

  // Entries stored of one element of m rows, and where among them that of row i, column j lies.
  std::int64_t stored(std::int64_t m) const noexcept { return symmetric ? m * (m + 1) / 2 : m * m; }
  std::int64_t entry(std::int64_t m, std::int64_t i, std::int64_t j) const noexcept {
    if (!symmetric) return i * m + j;
    return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
  }
  // The number of an element's group.
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

// A group without its numbers.
struct ElementShape {
  std::int64_t elements;
  int nodes;
  std::span<const std::int32_t> connectivity;  // in host memory
};
enum class Colouring : unsigned char {
  none,
  batches,  // batches of neighbouring elements have colours
  elements  // elements have colours, batches are made of elements of one colour
};

// Parts for work whose result does not depend on their number, each of which looks at all elements: in
// background work as many as there are workers.
int parts_of_elements(const Context& host, const ElementPlan& plan) noexcept;

// Checks connectivity and options and lays everything out. `host` does the work and owns plan.map.
ElementPlan plan_elements(const ContextPtr& host, std::int64_t nodes, std::span<const ElementShape> shapes,
                          const ElementOptions& options, int lanes, Colouring colouring);

// Throws ShapeMismatch unless the matrices of `groups` have the sizes of the plan.
template <class T>
void check_matrices(const ElementPlan& plan, std::span<const ElementGroup<T>> groups);

// By how much an entry may differ from its mirror, in units of the largest entry of the element.
template <class T>
constexpr T mirror_tolerance() {
  return T(100) * std::numeric_limits<T>::epsilon();
}
// Reads an element whose check failed again, to say what is wrong. `matrix` is in host memory.
template <class T>
[[noreturn]] void refuse_matrix(const ElementPlan& plan, std::int64_t element, const T* matrix);

// Which rows of elements make up each row of the operator, elements ascending.
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
