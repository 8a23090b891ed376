#include "preconditioners/fields/blocks.hpp"

#include <limits>
#include <utility>

#include "core/parallel.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::detail {
namespace {

// A pattern that owns its arrays, with row pointers of 4 bytes if they can be.
SparsityPattern frozen(const ContextPtr& host, std::int64_t columns, const Graph& graph) {
  CsrBuilder<float> builder(host, graph.rows(), columns, graph.size());
  for (std::int64_t i = 0; i <= graph.rows(); ++i)
    builder.set_row_ptr(i, graph.ptr[static_cast<std::size_t>(i)]);
  std::copy(graph.col.begin(), graph.col.end(), builder.col());
  return builder.freeze().pattern;
}

template <class T>
CsrMatrix<T> with_values(const SparsityPattern& pattern, Buffer<T> values) {
  CsrMatrix<T> made;
  made.pattern = pattern;
  const auto owned = std::make_shared<const Buffer<T>>(std::move(values));
  made.values = owned->data(), made.values_owner = owned;
  return made;
}

}  // namespace

BlockPattern::BlockPattern(const ContextPtr& host, const SparsityPattern& A, const FieldList& fields,
                           const std::vector<std::int32_t>& rows, std::int64_t column_field,
                           std::int64_t columns, const std::vector<std::int32_t>& local) {
  const auto size = static_cast<std::int64_t>(rows.size());
  const auto in_block = [&](std::int32_t j) {
    return fields.of_row[static_cast<std::size_t>(j)] == column_field;
  };
  const Graph graph = collect_rows(
      *host, size, A.nonzeros, [&](Range range, std::vector<std::int32_t>& col, std::int64_t* sizes) {
        for (std::int64_t k = range.begin; k < range.end; ++k) {
          const std::size_t before = col.size();
          for (const std::int32_t j : A.row(rows[static_cast<std::size_t>(k)]))
            if (in_block(j)) col.push_back(local[static_cast<std::size_t>(j)]);
          sizes[k - range.begin] = static_cast<std::int64_t>(col.size() - before);
        }
      });
  pattern_ = frozen(host, columns, graph);
  entry_.resize(static_cast<std::size_t>(graph.size()));
  parallel(useful_parts(*host, A.nonzeros), [&](int part, int parts) {
    const Range range = even_range(size, part, parts);
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      const std::int32_t i = rows[static_cast<std::size_t>(k)];
      auto to = static_cast<std::size_t>(graph.ptr[static_cast<std::size_t>(k)]);
      for (std::int64_t p = A.row_ptr[i]; p < A.row_ptr[i + 1]; ++p)
        if (in_block(A.col[p])) entry_[to++] = p;
    }
  });
}

template <class T>
CsrMatrix<T> BlockPattern::of(const ContextPtr& host, const CsrMatrix<T>& A) const {
  Buffer<T> values(host, pattern_.nonzeros);
  parallel(useful_parts(*host, pattern_.nonzeros), [&](int part, int parts) {
    const Range range = even_range(pattern_.nonzeros, part, parts);
    for (std::int64_t k = range.begin; k < range.end; ++k)
      values[k] = A.values[entry_[static_cast<std::size_t>(k)]];
  });
  return with_values(pattern_, std::move(values));
}

struct SchurPattern::Patterns {
  SparsityPattern left, right;
  Graph product;
  SparsityPattern frozen_product;
};

SchurPattern::SchurPattern(const ContextPtr& host, const SparsityPattern& left0, const SparsityPattern* left1,
                           const SparsityPattern& below) {
  Graph left, right;
  for (std::int64_t i = 0; i < left0.rows; ++i) {
    const auto first = left0.row(i);
    left.col.insert(left.col.end(), first.begin(), first.end());
    if (left1)
      for (const std::int32_t j : left1->row(i))
        left.col.push_back(static_cast<std::int32_t>(left0.cols + j));
    left.ptr.push_back(static_cast<std::int64_t>(left.col.size()));
  }
  for (std::int64_t i = 0; i < below.rows; ++i) {
    const auto row = below.row(i);
    right.col.insert(right.col.end(), row.begin(), row.end());
    right.ptr.push_back(static_cast<std::int64_t>(right.col.size()));
  }
  if (left1)
    for (std::int64_t i = 0; i < below.cols; ++i)
      right.col.push_back(static_cast<std::int32_t>(i)),
          right.ptr.push_back(static_cast<std::int64_t>(right.col.size()));
  auto made = std::make_shared<Patterns>();
  made->left = frozen(host, right.rows(), left), made->right = frozen(host, below.cols, right);
  made->product = product_pattern(*host, made->left, made->right);
  made->frozen_product = frozen(host, below.cols, made->product);
  patterns_ = std::move(made);
}

std::size_t SchurPattern::bytes() const noexcept {
  if (!patterns_) return 0;
  const Patterns& p = *patterns_;
  return p.left.bytes() + p.right.bytes() + p.product.bytes();
}

const SparsityPattern& SchurPattern::pattern() const noexcept { return patterns_->frozen_product; }

template <class T>
CsrMatrix<T> SchurPattern::of(const ContextPtr& host, const CsrMatrix<T>& A10, const CsrMatrix<T>* A11,
                              const CsrMatrix<T>& A01, const std::vector<T>& inverse, T& sign) const {
  const Patterns& p = *patterns_;
  Buffer<T> left(host, p.left.nonzeros), right(host, p.right.nonzeros);
  std::int64_t to = 0;
  for (std::int64_t i = 0; i < A10.rows(); ++i) {
    for (std::int64_t k = A10.pattern.row_ptr[i]; k < A10.pattern.row_ptr[i + 1]; ++k)
      left[to++] = A10.values[k];
    if (!A11) continue;
    for (std::int64_t k = A11->pattern.row_ptr[i]; k < A11->pattern.row_ptr[i + 1]; ++k)
      left[to++] = -A11->values[k];
  }
  for (std::int64_t i = 0; i < A01.rows(); ++i)
    for (std::int64_t k = A01.pattern.row_ptr[i]; k < A01.pattern.row_ptr[i + 1]; ++k)
      right[k] = inverse[static_cast<std::size_t>(i)] * A01.values[k];
  for (std::int64_t k = A01.nonzeros(); k < p.right.nonzeros; ++k) right[k] = T(1);
  Buffer<T> values = product_values(host, with_values(p.left, std::move(left)),
                                    with_values(p.right, std::move(right)), p.product);
  double trace = 0;
  for (std::int64_t i = 0; i < p.product.rows(); ++i)
    for (std::int64_t k = p.product.ptr[static_cast<std::size_t>(i)];
         k < p.product.ptr[static_cast<std::size_t>(i) + 1]; ++k)
      if (p.product.col[static_cast<std::size_t>(k)] == i) trace += static_cast<double>(values[k]);
  sign = trace < 0 ? T(-1) : T(1);
  if (sign < 0)
    for (std::int64_t k = 0; k < p.product.size(); ++k) values[k] = -values[k];
  return with_values(p.frozen_product, std::move(values));
}

template <class T>
T sign_of_schur(const ContextPtr& host, const CsrMatrix<T>& A10, const CsrMatrix<T>& A11,
                const CsrMatrix<T>& A01, const std::vector<T>& inverse) {
  const CsrMatrix<T> turned = transpose(host, A01);
  double trace = 0;
  for (std::int64_t i = 0; i < A10.rows(); ++i) {
    std::int64_t k = turned.pattern.row_ptr[i];
    const std::int64_t end = turned.pattern.row_ptr[i + 1];
    for (std::int64_t p = A10.pattern.row_ptr[i]; p < A10.pattern.row_ptr[i + 1]; ++p) {
      const std::int32_t j = A10.pattern.col[p];
      while (k < end && turned.pattern.col[k] < j) ++k;
      if (k < end && turned.pattern.col[k] == j)
        trace += static_cast<double>(A10.values[p]) *
                 static_cast<double>(inverse[static_cast<std::size_t>(j)]) *
                 static_cast<double>(turned.values[k]);
    }
    for (std::int64_t p = A11.pattern.row_ptr[i]; p < A11.pattern.row_ptr[i + 1]; ++p)
      if (A11.pattern.col[p] == i) trace -= static_cast<double>(A11.values[p]);
  }
  return trace < 0 ? T(-1) : T(1);
}

#define PROTEAN_INSTANTIATE(T)                                                                           \
  template CsrMatrix<T> BlockPattern::of<T>(const ContextPtr&, const CsrMatrix<T>&) const;               \
  template CsrMatrix<T> SchurPattern::of<T>(const ContextPtr&, const CsrMatrix<T>&, const CsrMatrix<T>*, \
                                            const CsrMatrix<T>&, const std::vector<T>&, T&) const;       \
  template T sign_of_schur<T>(const ContextPtr&, const CsrMatrix<T>&, const CsrMatrix<T>&,               \
                              const CsrMatrix<T>&, const std::vector<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
