// Assembly of element matrices into CSR. Private to operators/.
#pragma once
#include "operators/elements/element_plan.hpp"

namespace protean::detail {

// `values` are in host memory, in the order of the plan. In background work it has checkpoints for
// cancellation.
template <class T>
CsrMatrix<T> assemble_elements(const ContextPtr& host, const ElementPlan& plan, const T* values,
                               std::size_t most_bytes);

// ElementOperator::add_rounding_bounds() on host memory.
template <class T>
void add_element_bounds(const ContextPtr& host, const ElementPlan& plan, const T* values, T factor,
                        T* bounds);

// Throws OutOfMemory if an assembled matrix and the workspace need more than most_bytes (0: than the free
// memory).
void require_assembly(const Context& context, std::int64_t rows, std::int64_t nonzeros,
                      std::size_t value_bytes, std::size_t workspace, std::size_t most_bytes);

// ElementOperator::pattern_of_rows(). BadArgument for blocks that are not ascending and within the rows.
SparsityPattern assembled_rows(const ElementPlan& plan,
                               std::span<const std::pair<std::int64_t, std::int64_t>> blocks);

}  // namespace protean::detail
