// Products with several vectors on the host: Y := alpha A X + beta Y, row by row. An entry is read once and multiplied
// by the entries of all vectors in its row of X, which lie side by side in interleaved vectors: these are SIMD lanes.
//
//   A       | a . b |     x_0 = (p q r), x_1 = (s t u)   interleaved  X = p s | q t | r u
//   row 0:  (y_0 y_1) = a (p s) + b (r u)                lanes:       sum := a (p s), sum := sum + b (r u)
//
// The columns of a row are added one after another, as a format stores them, so that the bits of a vector depend
// neither on the other vectors nor on the number of threads. In deterministic mode (HostOptions) they are the bits of
// its product alone. A row belongs to one thread. Private to formats/.
#pragma once
#include "core/context.hpp"
#include "core/multi_vector.hpp"

namespace protean::formats {

template <class T>
struct BlockGrid;  // blocks.hpp
template <class T>
struct SliceView;  // slice_view.hpp

template <class T>
struct MultiTask {
  MultiTask(const Context& context, T alpha_, const MultiVectorView<const T>& X, T beta_,
            const MultiVectorView<T>& Y)
      : alpha(alpha_),
        beta(beta_),
        x(X.data),
        y(Y.data),
        x_row(X.row_step()),
        x_column(X.column_step()),
        y_row(Y.row_step()),
        y_column(Y.column_step()),
        columns(X.columns),
        ordered(context.deterministic()) {}
  T alpha, beta;  // beta == 0 never reads y
  const T* x;
  T* y;
  std::int64_t x_row, x_column, y_row, y_column, columns;
  bool ordered;  // add as in deterministic mode
};

template <class T, class P>
struct MultiCsr {
  const P* row_ptr;
  const std::int32_t* col;
  const T* values;
  bool prefetch;  // the arrays do not fit the caches
};

// How entries and vectors meet. side_by_side: X and Y are interleaved. ordered: the arithmetic of deterministic mode.
template <bool side_by_side_, bool ordered_>
struct MultiHow {
  static constexpr bool side_by_side = side_by_side_, ordered = ordered_;
  // Whether there is code for few widths only: vectors by columns are loaded number by number, whatever the width.
  static constexpr bool few_widths = !side_by_side || ordered;
};

// Rows, positions, and places of block rows.
template <class T, class P>
void multi_product(const MultiCsr<T, P>& csr, const MultiTask<T>& task, std::int64_t begin, std::int64_t end);
template <class T>
void multi_product(const SliceView<T>& slices, const MultiTask<T>& task, std::int64_t begin,
                   std::int64_t end);
template <class T>
void multi_product(const BlockGrid<T>& blocks, const MultiTask<T>& task, std::int64_t begin,
                   std::int64_t end);

}  // namespace protean::formats
