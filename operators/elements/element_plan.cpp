#include "operators/elements/element_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/pattern_mark.hpp"

namespace protean::detail {
namespace {

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t no_row = -1;

// Checks all sizes before any array is read.
void check_shapes(std::int64_t nodes, std::span<const ElementShape> shapes, const ElementOptions& options) {
  if (options.components < 1 || options.components > largest_element)
    throw BadArgument(
        fmt::format("{} components a node; it must be 1 to {}", options.components, largest_element));
  if (nodes < 0 || nodes > largest_index / options.components)
    throw BadArgument(fmt::format("{} nodes of {} components: an operator has 0 to {} unknowns", nodes,
                                  options.components, largest_index));
  std::int64_t total = 0;
  for (std::size_t g = 0; g < shapes.size(); ++g) {
    const ElementShape& shape = shapes[g];
    if (shape.elements < 0 || shape.elements > most_elements - total)
      throw BadArgument(fmt::format("group {} has {} elements; all groups together may have {}", g,
                                    shape.elements, most_elements));
    if (shape.nodes < 1 || shape.nodes * std::int64_t{options.components} > largest_element)
      throw BadArgument(
          fmt::format("group {}: elements of {} nodes and {} components; nodes * components must be 1 to {}",
                      g, shape.nodes, options.components, largest_element));
    const auto wanted = static_cast<std::size_t>(shape.elements * shape.nodes);
    if (shape.connectivity.size() != wanted)
      throw ShapeMismatch(
          fmt::format("group {}: the connectivity has {} entries; {} elements of {} nodes need {}", g,
                      shape.connectivity.size(), shape.elements, shape.nodes, wanted));
    total += shape.elements;
  }
}

// Checks that nodes are in range and distinct in each element. Marks the nodes that are used.
void check_connectivity(const Context& host, std::int64_t nodes, std::span<const ElementShape> shapes,
                        std::vector<unsigned char>& used) {
  for (std::size_t g = 0; g < shapes.size(); ++g) {
    const ElementShape& shape = shapes[g];
    parallel(useful_parts(host, shape.elements * shape.nodes), [&](int part, int parts) {
      const Range range = even_range(shape.elements, part, parts);
      std::vector<std::int32_t> sorted(static_cast<std::size_t>(shape.nodes));
      for (std::int64_t e = range.begin; e < range.end; ++e) {
        const std::int32_t* node = shape.connectivity.data() + e * shape.nodes;
        for (int a = 0; a < shape.nodes; ++a) {
          if (node[a] < 0 || node[a] >= nodes)
            throw BadMatrix(fmt::format(
                "group {}, element {}: its node {} is {}, outside 0..{} (nodes are numbered from 0)", g, e, a,
                node[a], nodes - 1));
          std::atomic_ref<unsigned char>(used[node[a]]).store(1, std::memory_order_relaxed);
        }
        std::copy(node, node + shape.nodes, sorted.begin());
        std::sort(sorted.begin(), sorted.end());
        if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
          throw BadMatrix(fmt::format(
              "group {}, element {}: node {} occurs twice; the nodes of an element must be distinct", g, e,
              *twice));
      }
    });
  }
}

// Returns the row of each unknown, no_row for constrained ones. Sets rows, constrained and free_unknowns.
std::vector<std::int32_t> number_rows(std::int64_t nodes, const ElementOptions& options,
                                      const std::vector<unsigned char>& used, ElementPlan& plan) {
  const std::int64_t unknowns = nodes * options.components;
  std::vector<std::int32_t> row(static_cast<std::size_t>(unknowns), 0);
  for (const std::int64_t u : options.constrained) {
    if (u < 0 || u >= unknowns)
      throw BadArgument(fmt::format("constrained unknown {} is outside 0..{}", u, unknowns - 1));
    if (row[u] == no_row) throw BadArgument(fmt::format("constrained unknown {} is named twice", u));
    row[u] = no_row;
  }
  if (!options.allow_unused_nodes) {
    std::int64_t unused = 0, first = -1;
    for (std::int64_t k = 0; k < nodes; ++k) {
      const auto* of_node = row.data() + k * options.components;
      if (used[k] || std::count(of_node, of_node + options.components, no_row) == options.components)
        continue;
      if (unused++ == 0) first = k;
    }
    if (unused > 0)
      throw BadMatrix(
          fmt::format("{} of {} nodes belong to no element (the first is node {}), so the operator would be "
                      "singular; remove them, constrain them, or allow them (allow_unused_nodes)",
                      unused, nodes, first));
  }
  std::int32_t next = 0;
  for (std::int64_t u = 0; u < unknowns; ++u) {
    if (row[u] != no_row) {
      row[u] = next++;
      if (options.constrained_rows == ConstrainedRows::eliminate)
        plan.free_unknowns.push_back(static_cast<std::int32_t>(u));
    } else if (options.constrained_rows == ConstrainedRows::keep) {
      plan.constrained.push_back(next++);
    }
  }
  if (options.constrained.empty()) plan.free_unknowns = {};
  plan.rows = next;
  return row;
}

// First fit: each unit in order gets the first colour that none of its nodes has. nodes_of(unit, f) calls
// f(node). 64 colours are tried at a time.
template <class NodesOf>
std::vector<std::int32_t> first_fit(std::int64_t nodes, std::int64_t units, NodesOf nodes_of) {
  constexpr int most = 4096;
  std::vector<std::int32_t> colour(static_cast<std::size_t>(units), -1);
  std::vector<std::uint64_t> taken(static_cast<std::size_t>(nodes));
  std::int64_t left = units;
  for (int base = 0; left > 0; base += 64) {
    if (base >= most)
      throw BadArgument(fmt::format(
          "more than {} colours are needed, because very many elements share a node; use scatter gather",
          most));
    std::fill(taken.begin(), taken.end(), 0);
    for (std::int64_t u = 0; u < units; ++u) {
      if (colour[u] >= 0) continue;
      std::uint64_t near = 0;
      nodes_of(u, [&](std::int32_t node) { near |= taken[node]; });
      const int free = std::countr_one(near);
      if (free == 64) continue;
      colour[u] = base + free, --left;
      nodes_of(u, [&](std::int32_t node) { taken[node] |= std::uint64_t{1} << free; });
    }
  }
  return colour;
}

// The nodes of an element, which is numbered through all groups.
const std::int32_t* nodes_of_element(const ElementPlan& plan, std::span<const ElementShape> shapes,
                                     std::int64_t element, int& count) {
  const std::size_t g = plan.group_of(element);
  count = shapes[g].nodes;
  return shapes[g].connectivity.data() + (element - plan.groups[g].first) * count;
}

// Assigns elements to batches in order, so that a batch has neighbouring elements.
void fill_in_order(ElementPlan& plan) {
  plan.colour_ptr = {0};
  for (const auto& group : plan.groups)
    for (std::int64_t e = 0; e < group.elements; e += plan.lanes) {
      const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(plan.lanes, group.elements - e));
      plan.batches.push_back({0, 0, group.m, count, false, false});
      for (int l = 0; l < plan.lanes; ++l)
        plan.element_in.push_back(l < count ? static_cast<std::int32_t>(group.first + e + l) : -1);
    }
  plan.colour_ptr.push_back(static_cast<std::int64_t>(plan.batches.size()));
}

// Colours the batches and sorts them by colour.
void colour_batches(std::int64_t nodes, std::span<const ElementShape> shapes, ElementPlan& plan) {
  const auto count = static_cast<std::int64_t>(plan.batches.size());
  const auto colour = first_fit(nodes, count, [&](std::int64_t b, auto&& f) {
    int size = 0;
    for (int l = 0; l < plan.batches[b].count; ++l) {
      const std::int32_t* node = nodes_of_element(plan, shapes, plan.element_in[b * plan.lanes + l], size);
      for (int a = 0; a < size; ++a) f(node[a]);
    }
  });
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  for (std::int64_t b = 0; b < count; ++b) order[b] = static_cast<std::int32_t>(b);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return colour[a] < colour[b]; });
  std::vector<ElementBatch> batches;
  std::vector<std::int32_t> element_in;
  plan.colour_ptr = {0};
  for (std::int64_t k = 0; k < count; ++k) {
    if (k > 0 && colour[order[k]] != colour[order[k - 1]]) plan.colour_ptr.push_back(k);
    batches.push_back(plan.batches[order[k]]);
    const auto* first = plan.element_in.data() + std::int64_t{order[k]} * plan.lanes;
    element_in.insert(element_in.end(), first, first + plan.lanes);
  }
  plan.colour_ptr.push_back(count);
  plan.batches = std::move(batches), plan.element_in = std::move(element_in);
}

// Colours the elements and makes batches of elements of one colour and one group.
void colour_elements(std::int64_t nodes, std::span<const ElementShape> shapes, ElementPlan& plan) {
  const auto colour = first_fit(nodes, plan.elements, [&](std::int64_t e, auto&& f) {
    int size = 0;
    const std::int32_t* node = nodes_of_element(plan, shapes, e, size);
    for (int a = 0; a < size; ++a) f(node[a]);
  });
  const std::int32_t colours = plan.elements > 0 ? *std::max_element(colour.begin(), colour.end()) + 1 : 0;
  // Sorts elements by colour, in order within a colour: a counting sort.
  std::vector<std::int64_t> begin(static_cast<std::size_t>(colours) + 1, 0);
  for (const std::int32_t c : colour) ++begin[c + 1];
  for (std::int32_t c = 0; c < colours; ++c) begin[c + 1] += begin[c];
  std::vector<std::int32_t> sorted(colour.size());
  std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
  for (std::int64_t e = 0; e < plan.elements; ++e) sorted[next[colour[e]]++] = static_cast<std::int32_t>(e);
  plan.colour_ptr = {0};
  for (std::int32_t c = 0; c < colours; ++c) {
    for (std::int64_t k = begin[c]; k < begin[c + 1];) {
      const auto& group = plan.groups[plan.group_of(sorted[k])];
      std::int32_t count = 0;
      for (; count < plan.lanes && k < begin[c + 1] && sorted[k] < group.first + group.elements; ++count, ++k)
        plan.element_in.push_back(sorted[k]);
      plan.element_in.resize(plan.element_in.size() + static_cast<std::size_t>(plan.lanes - count), -1);
      plan.batches.push_back({0, 0, group.m, count, false, false});
    }
    plan.colour_ptr.push_back(static_cast<std::int64_t>(plan.batches.size()));
  }
}

// Computes the offsets of batches, the slots of elements and the map.
void fill_map(const ContextPtr& host, std::span<const ElementShape> shapes, int components,
              const std::vector<std::int32_t>& row, ElementPlan& plan) {
  std::int64_t mapped = 0;
  for (ElementBatch& batch : plan.batches) {
    batch.values = plan.values, batch.map = mapped;
    plan.values += plan.stored(batch.m) * plan.lanes;
    mapped += std::int64_t{batch.m} * plan.lanes;
  }
  plan.map = Buffer<std::int32_t>(host, mapped);
  plan.slot_of.resize(static_cast<std::size_t>(plan.elements));
  const auto batches = static_cast<std::int64_t>(plan.batches.size());
  parallel(useful_parts(*host, mapped), [&](int part, int parts) {
    const Range range = even_range(batches, part, parts);
    for (std::int64_t b = range.begin; b < range.end; ++b) {
      ElementBatch& batch = plan.batches[b];
      std::int32_t* to = plan.map.data() + batch.map;
      std::fill(to, to + std::int64_t{batch.m} * plan.lanes, no_row);
      batch.complete = batch.count == plan.lanes;
      for (int l = 0; l < batch.count; ++l) {
        const std::int64_t slot = b * plan.lanes + l;
        const std::int32_t element = plan.element_in[slot];
        plan.slot_of[element] = static_cast<std::int32_t>(slot);
        int size = 0;
        const std::int32_t* node = nodes_of_element(plan, shapes, element, size);
        for (int a = 0; a < size; ++a)
          for (int c = 0; c < components; ++c) {
            const std::int32_t r = row[std::int64_t{node[a]} * components + c];
            to[(a * components + c) * plan.lanes + l] = r;
            batch.complete = batch.complete && r != no_row;
          }
      }
    }
  });
}

// Each part reads all elements, and counts and fills the rows of its own range. So no part waits for another.
template <class Item, class Make>
ElementRows<Item> transpose_map(const ContextPtr& host, const ElementPlan& plan, Make make) {
  ElementRows<Item> result{Buffer<std::int64_t>(host, plan.rows + 1), {}};
  Buffer<std::int64_t>& ptr = result.ptr;
  const int parts = parts_of_elements(*host, plan);
  const auto for_part = [&](int part, auto&& f) {
    const Range range = even_range(plan.rows, part, parts);
    for (std::int64_t e = 0; e < plan.elements; ++e) {
      if (e % 1024 == 0) checkpoint();
      const std::int64_t slot = plan.slot_of[e];
      const ElementBatch& batch = plan.batches[slot / plan.lanes];
      const std::int64_t first = batch.map + slot % plan.lanes;
      for (std::int32_t i = 0; i < batch.m; ++i) {
        const std::int32_t r = plan.map[first + i * plan.lanes];
        if (r >= range.begin && r < range.end) f(r, slot, i, first + i * plan.lanes);
      }
    }
  };
  parallel(parts, [&](int part, int) {
    const Range range = even_range(plan.rows, part, parts);
    std::fill(ptr.data() + range.begin + 1, ptr.data() + range.end + 1, 0);
    for_part(part, [&](std::int32_t r, auto...) { ++ptr[r + 1]; });
  });
  ptr[0] = 0;
  for (std::int64_t r = 0; r < plan.rows; ++r) ptr[r + 1] += ptr[r];
  result.items = Buffer<Item>(host, ptr[plan.rows]);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(plan.rows, part, parts);
    std::vector<std::int64_t> next(ptr.data() + range.begin, ptr.data() + range.end);
    for_part(part, [&](std::int32_t r, std::int64_t slot, std::int32_t i, std::int64_t position) {
      result.items[next[r - range.begin]++] = make(slot, i, position);
    });
  });
  return result;
}

// Of node numbers in the space of the context.
std::uint64_t hash_of_nodes(const Context& context, std::span<const std::int32_t> connectivity, Space space) {
  SparsityPattern numbers;  // columns without rows
  numbers.nonzeros = static_cast<std::int64_t>(connectivity.size()), numbers.col = connectivity.data();
  numbers.space = space;
  return hash_of(context, numbers);
}

}  // namespace

ElementPlan plan_elements(const ContextPtr& host, std::int64_t nodes, std::span<const ElementShape> shapes,
                          const ElementOptions& options, int lanes, Colouring colouring) {
  check_shapes(nodes, shapes, options);
  ElementPlan plan;
  plan.lanes = lanes, plan.symmetric = options.symmetric;
  for (const ElementShape& shape : shapes) {
    const std::int32_t m = shape.nodes * options.components;
    plan.groups.push_back({plan.elements, shape.elements, shape.nodes, m,
                           hash_of_nodes(*host, shape.connectivity, Space::host)});
    plan.elements += shape.elements, plan.entries += shape.elements * m * m;
  }
  std::vector<unsigned char> used(static_cast<std::size_t>(nodes), 0);
  check_connectivity(*host, nodes, shapes, used);
  const std::vector<std::int32_t> row = number_rows(nodes, options, used, plan);
  if (colouring == Colouring::elements) {
    colour_elements(nodes, shapes, plan);
  } else {
    fill_in_order(plan);
    if (colouring == Colouring::batches) colour_batches(nodes, shapes, plan);
  }
  fill_map(host, shapes, options.components, row, plan);
  return plan;
}

int parts_of_elements(const Context& host, const ElementPlan& plan) noexcept {
  const int parts = useful_parts(host, plan.map.size());
  const Background* const behind = background();
  return behind ? std::min(parts, behind->workers) : parts;
}

template <class T>
void check_matrices(const ElementPlan& plan, std::span<const ElementGroup<T>> groups) {
  if (groups.size() != plan.groups.size())
    throw ShapeMismatch(
        fmt::format("{} groups of elements; the operator has {}", groups.size(), plan.groups.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& known = plan.groups[g];
    if (groups[g].elements != known.elements || groups[g].nodes != known.nodes)
      throw ShapeMismatch(fmt::format("group {} has {} elements of {} nodes; in the operator it has {} of {}",
                                      g, groups[g].elements, groups[g].nodes, known.elements, known.nodes));
    const auto wanted = static_cast<std::size_t>(known.elements * known.m * known.m);
    if (groups[g].matrices.size() != wanted)
      throw ShapeMismatch(
          fmt::format("group {}: the matrices have {} entries; {} elements of {} x {} need {}", g,
                      groups[g].matrices.size(), known.elements, known.m, known.m, wanted));
  }
}

template <class T>
void check_same_connectivity(const Context& context, const ElementPlan& plan,
                             std::span<const ElementGroup<T>> groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ElementGroup<T>& group = groups[g];
    if (group.connectivity.empty()) continue;
    const std::uint64_t now = group.space == context.space()
                                  ? hash_of_nodes(context, group.connectivity, group.space)
                                  : hash_of_nodes(*Context::host(1), group.connectivity, Space::host);
    if (now != plan.groups[g].connectivity)
      throw ShapeMismatch(fmt::format(
          "group {} has another connectivity than in the operator; new matrices are for the same elements "
          "in the same order (make a new operator for others)",
          g));
  }
}

template <class T>
void refuse_matrix(const ElementPlan& plan, std::int64_t element, const T* matrix) {
  const std::size_t g = plan.group_of(element);
  const std::int64_t m = plan.groups[g].m, in_group = element - plan.groups[g].first;
  T largest = 0;
  for (std::int64_t n = 0; n < m * m; ++n) {
    if (!std::isfinite(matrix[n]))
      throw BadMatrix(
          fmt::format("group {}, element {}: entry ({}, {}) of its matrix is {}; all must be finite", g,
                      in_group, n / m, n % m, matrix[n]));
    largest = std::max(largest, std::abs(matrix[n]));
  }
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < i; ++j)
      if (std::abs(matrix[i * m + j] - matrix[j * m + i]) > mirror_tolerance<T>() * largest)
        throw BadMatrix(fmt::format(
            "group {}, element {}: entry ({}, {}) of its matrix is {}, entry ({}, {}) is {}; with "
            "`symmetric` they must be the same to {:.1e} of the largest entry ({})",
            g, in_group, i, j, matrix[i * m + j], j, i, matrix[j * m + i], mirror_tolerance<T>(), largest));
  throw BadMatrix(fmt::format("group {}, element {}: its matrix was changed while it was read", g, in_group));
}

ElementRows<ElementRow> element_rows(const ContextPtr& host, const ElementPlan& plan) {
  return transpose_map<ElementRow>(host, plan, [](std::int64_t slot, std::int32_t i, std::int64_t) {
    return ElementRow{static_cast<std::int32_t>(slot), i};
  });
}

ElementRows<std::uint32_t> map_positions(const ContextPtr& host, const ElementPlan& plan) {
  if (plan.map.size() > std::int64_t{std::numeric_limits<std::uint32_t>::max()})
    throw BadArgument(
        fmt::format("scatter gather stores one result for each of {} rows of elements; more than {} need "
                    "scatter coloured or atomic",
                    plan.map.size(), std::numeric_limits<std::uint32_t>::max()));
  return transpose_map<std::uint32_t>(host, plan, [](std::int64_t, std::int32_t, std::int64_t position) {
    return static_cast<std::uint32_t>(position);
  });
}

#define PROTEAN_INSTANTIATE(T)                                                           \
  template void check_matrices<T>(const ElementPlan&, std::span<const ElementGroup<T>>); \
  template void check_same_connectivity<T>(const Context&, const ElementPlan&,           \
                                           std::span<const ElementGroup<T>>);            \
  template void refuse_matrix<T>(const ElementPlan&, std::int64_t, const T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
