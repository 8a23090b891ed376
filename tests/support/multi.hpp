// Several vectors for tests: in any layout, with gaps that nobody may write, in host or device memory.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/multi_vector.hpp"
#include "gtest/gtest.h"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

template <class T>
using Columns = std::vector<std::vector<T>>;

template <class T>
Columns<T> sample_columns(std::int64_t rows, std::int64_t count, unsigned seed) {
  Columns<T> columns;
  for (std::int64_t j = 0; j < count; ++j)
    columns.push_back(sample_vector<T>(rows, seed + 101 * static_cast<unsigned>(j)));
  return columns;
}

// ||b - A x||, in long double.
template <class T>
double residual_of(const CsrMatrix<T>& A, const std::vector<T>& b, const std::vector<T>& x) {
  long double sum = 0;
  for (std::int64_t r = 0; r < A.rows(); ++r) {
    long double residual = b[static_cast<std::size_t>(r)];
    for (std::int64_t k = A.pattern.row_ptr[r]; k < A.pattern.row_ptr[r + 1]; ++k)
      residual -= static_cast<long double>(A.values[k]) * x[static_cast<std::size_t>(A.pattern.col[k])];
    sum += residual * residual;
  }
  return static_cast<double>(std::sqrt(sum));
}

// ||b - A x|| / ||b||, in long double.
template <class T>
double relative_residual_of(const CsrMatrix<T>& A, const std::vector<T>& b, const std::vector<T>& x) {
  return residual_of(A, b, x) / residual_of(A, b, std::vector<T>(x.size(), T(0)));
}

struct MultiShape {
  VectorLayout layout;
  std::int64_t gap;
  std::string name() const {
    return std::string(layout == VectorLayout::columns ? "columns" : "interleaved") +
           (gap > 0 ? " with gaps" : "");
  }
};
inline const std::vector<MultiShape>& multi_shapes() {
  static const std::vector<MultiShape> shapes = {{VectorLayout::columns, 0},
                                                 {VectorLayout::columns, 3},
                                                 {VectorLayout::interleaved, 0},
                                                 {VectorLayout::interleaved, 2}};
  return shapes;
}

// A copy of host columns in the context's space. Gaps hold a NaN with a mark.
template <class T>
class PlacedColumns {
 public:
  PlacedColumns(const ContextPtr& context, const Columns<T>& columns, std::int64_t rows,
                const MultiShape& shape)
      : rows_(rows),
        count_(std::ssize(columns)),
        shape_(shape),
        all_(static_cast<std::size_t>(size()), marked()),
        placed_(context, filled(columns)) {}

  MultiVectorView<T> view() noexcept {
    return {placed_.data(), rows_, count_, stride(), shape_.layout, placed_.view().space};
  }
  MultiVectorView<const T> read() noexcept { return view(); }

  Columns<T> fetch() const {
    const std::vector<T> all = placed_.fetch();
    Columns<T> columns(static_cast<std::size_t>(count_), std::vector<T>(static_cast<std::size_t>(rows_)));
    for (std::int64_t j = 0; j < count_; ++j)
      for (std::int64_t i = 0; i < rows_; ++i)
        columns[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)] =
            all[static_cast<std::size_t>(place(i, j))];
    return columns;
  }
  // Whether the gaps are as they were.
  testing::AssertionResult gaps_are_untouched() const {
    std::vector<T> all = placed_.fetch();
    const T mark = marked();
    for (std::int64_t j = 0; j < count_; ++j)
      for (std::int64_t i = 0; i < rows_; ++i) all[static_cast<std::size_t>(place(i, j))] = mark;
    for (std::size_t at = 0; at < all.size(); ++at)
      if (std::memcmp(&all[at], &mark, sizeof mark) != 0)
        return testing::AssertionFailure() << "place " << at << " between the vectors was written";
    return testing::AssertionSuccess();
  }

 private:
  static T marked() { return std::numeric_limits<T>::quiet_NaN(); }
  std::int64_t stride() const {
    return (shape_.layout == VectorLayout::columns ? rows_ : count_) + shape_.gap;
  }
  std::int64_t size() const { return stride() * (shape_.layout == VectorLayout::columns ? count_ : rows_); }
  std::int64_t place(std::int64_t i, std::int64_t j) const {
    return shape_.layout == VectorLayout::columns ? i + j * stride() : i * stride() + j;
  }
  const std::vector<T>& filled(const Columns<T>& columns) {
    for (std::int64_t j = 0; j < count_; ++j)
      for (std::int64_t i = 0; i < rows_; ++i)
        all_[static_cast<std::size_t>(place(i, j))] =
            columns[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)];
    return all_;
  }

  std::int64_t rows_, count_;
  MultiShape shape_;
  std::vector<T> all_;
  Placed<T> placed_;
};

}  // namespace protean::test
