// Several vectors of one length, for products and solves with many right-hand sides: MultiVector owns its memory,
// MultiVectorView does not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/export.hpp>
#include <protean/core/vector.hpp>

namespace PROTEAN_EXPORT protean {

// Where entry (i, j), entry i of vector j, lies:
//   columns      data[i + j stride], stride >= rows: one vector after another, as in finite element codes and LAPACK
//   interleaved  data[i stride + j], stride >= columns: the entries of one row side by side
// Products take both. Interleaved is faster: one entry of a matrix is multiplied by neighbouring entries of x, which
// one load fetches.
enum class VectorLayout : unsigned char { columns, interleaved };

// `columns` vectors of `rows` entries at `data` in memory of `space`. It owns nothing, is passed by value, and is valid
// as long as the memory exists. Entries between the vectors (if stride is larger than needed) are neither read nor
// written. A view of T converts to a view of const T.
template <class T>
struct MultiVectorView {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  VectorLayout layout = VectorLayout::columns;
  Space space = Space::host;

  operator MultiVectorView<const T>() const noexcept requires(!std::is_const_v<T>) {
    return {data, rows, columns, stride, layout, space};
  }
  // Distances between entries (i, j) and (i + 1, j), and between (i, j) and (i, j + 1).
  std::int64_t row_step() const noexcept { return layout == VectorLayout::columns ? 1 : stride; }
  std::int64_t column_step() const noexcept { return layout == VectorLayout::columns ? stride : 1; }
  // From the first entry to one past the last, of a view that require() of core/multi_blas1.hpp has accepted. With a
  // larger stride the number may overflow.
  std::int64_t extent() const noexcept {
    return rows <= 0 || columns <= 0 ? 0 : (rows - 1) * row_step() + (columns - 1) * column_step() + 1;
  }
  // Whether the entries of a vector lie side by side, so that column() may be called.
  bool has_vectors() const noexcept { return layout == VectorLayout::columns || stride == 1; }
  VectorView<T> column(std::int64_t j) const noexcept { return {from_column(j), rows, space}; }
  MultiVectorView part(std::int64_t first, std::int64_t count) const noexcept {
    return {from_column(first), rows, count, stride, layout, space};
  }
  // The beginning of column j. Without rows there may be no memory, and any stride.
  T* from_column(std::int64_t j) const noexcept { return rows == 0 ? data : data + j * column_step(); }
  // For views of host memory only.
  T& operator()(std::int64_t i, std::int64_t j) const noexcept {
    return data[i * row_step() + j * column_step()];
  }
};

namespace detail {
// rows * columns. Throws BadArgument for negative numbers, OutOfMemory if no address space has that many entries of
// `entry_bytes`.
std::int64_t entries_of(std::int64_t rows, std::int64_t columns, std::size_t entry_bytes);
}  // namespace detail

// Owns `columns` vectors of `rows` values in the space of the context, without gaps. They are not initialised.
template <class T>
class MultiVector {
 public:
  MultiVector() noexcept = default;
  MultiVector(ContextPtr context, std::int64_t rows, std::int64_t columns,
              VectorLayout layout = VectorLayout::columns)
      : buffer_(std::move(context), detail::entries_of(rows, columns, sizeof(T))),
        rows_(rows),
        columns_(columns),
        layout_(layout) {}

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t columns() const noexcept { return columns_; }
  VectorLayout layout() const noexcept { return layout_; }
  Space space() const noexcept { return buffer_.context() ? buffer_.context()->space() : Space::host; }
  const ContextPtr& context() const noexcept { return buffer_.context(); }
  T* data() noexcept { return buffer_.data(); }
  const T* data() const noexcept { return buffer_.data(); }
  MultiVectorView<T> view() noexcept { return {data(), rows_, columns_, stride(), layout_, space()}; }
  MultiVectorView<const T> view() const noexcept {
    return {data(), rows_, columns_, stride(), layout_, space()};
  }
  operator MultiVectorView<T>() noexcept { return view(); }
  operator MultiVectorView<const T>() const noexcept { return view(); }

 private:
  std::int64_t stride() const noexcept { return layout_ == VectorLayout::columns ? rows_ : columns_; }
  Buffer<T> buffer_;
  std::int64_t rows_ = 0, columns_ = 0;
  VectorLayout layout_ = VectorLayout::columns;
};

}  // namespace protean
