// Products of sparse matrices in two steps: the pattern once, the values as often as they change. Private to
// preconditioners/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "preconditioners/aggregates.hpp"

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

// The pattern of A B, columns ascending.
inline Graph product_pattern(const Context& context, const SparsityPattern& A, const SparsityPattern& B) {
  return collect_rows(context, A.rows, A.nonzeros,
                      [&](Range rows, std::vector<std::int32_t>& col, std::int64_t* size) {
                        std::vector<std::int64_t> seen(static_cast<std::size_t>(B.cols), -1);
                        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
                          const auto before = static_cast<std::ptrdiff_t>(col.size());
                          for (const std::int32_t k : A.row(i))
                            for (const std::int32_t j : B.row(k))
                              if (std::int64_t& last = seen[static_cast<std::size_t>(j)]; last != i)
                                last = i, col.push_back(j);
                          std::sort(col.begin() + before, col.end());
                          size[i - rows.begin] = static_cast<std::int64_t>(col.size()) - before;
                        }
                      });
}

// The values of A B in its pattern. Each is added up in the order of the columns of A, whatever the number of threads.
template <class T>
Buffer<T> product_values(const ContextPtr& context, const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                         const Graph& pattern) {
  Buffer<T> values(context, pattern.size());
  protean::parallel(useful_parts(*context, A.nonzeros()), [&](int part, int parts) {
    const Range rows = even_range(A.rows(), part, parts);
    std::vector<T> sum(static_cast<std::size_t>(B.cols()), T(0));
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t p = A.pattern.row_ptr[i]; p < A.pattern.row_ptr[i + 1]; ++p) {
        const T a = A.values[p];
        const std::int64_t k = A.pattern.col[p];
        for (std::int64_t q = B.pattern.row_ptr[k]; q < B.pattern.row_ptr[k + 1]; ++q)
          sum[static_cast<std::size_t>(B.pattern.col[q])] += a * B.values[q];
      }
      T* to = values.data() + pattern.ptr[static_cast<std::size_t>(i)];
      for (const std::int32_t j : pattern.row(i))
        *to++ = std::exchange(sum[static_cast<std::size_t>(j)], T(0));
    }
  });
  return values;
}

}  // namespace protean::detail
