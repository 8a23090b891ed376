// Products of sparse matrices in two steps: the pattern once, the values as often as they change. Private to
// preconditioners/.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "core/csr.hpp"
#include "preconditioners/sparse/graph.hpp"

namespace protean::detail {

// A matrix of these values in the pattern of a graph; it shares both.
template <class T>
CsrMatrix<T> matrix_of(std::shared_ptr<const Graph> graph, std::int64_t cols, Buffer<T> values) {
  CsrMatrix<T> made;
  made.pattern.rows = graph->rows(), made.pattern.cols = cols, made.pattern.nonzeros = graph->size();
  made.pattern.row_ptr.p64 = graph->ptr.data(), made.pattern.col = graph->col.data();
  made.pattern.owner = std::move(graph);
  const auto owned = std::make_shared<const Buffer<T>>(std::move(values));
  made.values = owned->data(), made.values_owner = owned;
  return made;
}

// Rows of one node have the same columns, and so have rows of one aggregate. Both functions do the work of a pattern
// once for such rows if they are consecutive.
//
// The pattern of A B, columns ascending.
Graph product_pattern(const Context& context, const SparsityPattern& A, const SparsityPattern& B);

// The values of A B in its pattern. Each is added up in the order of the columns of A, whatever the number of threads.
template <class T>
Buffer<T> product_values(const ContextPtr& context, const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                         const Graph& pattern);

}  // namespace protean::detail
