// Sorted triples: their product, for formats that store a part of the matrix as triples; and the format coo
// without its product, for each of its kernels.
#pragma once
#include <cstdint>

#include "formats/engines/view/array_views.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {

// Entries sorted by row, then column. Not owning; host memory.
template <class T>
struct Triples {
  std::int64_t size = 0;
  const std::int32_t* row = nullptr;
  const std::int32_t* col = nullptr;
  const T* values = nullptr;
};

// y := alpha A x + beta y for all `rows` rows. With beta == 0 y is not read. Returns x . A x when `with_dot`,
// else 0. All threads get the same number of entries, wherever a row ends. The pieces of a row that is cut
// are added afterwards, in the order of the threads. Nothing is allocated. In deterministic mode threads get
// whole rows, and there is no dot product.
template <class T>
T multiply_triples(const Context& context, const Triples<T>& A, std::int64_t rows, T alpha, const T* x,
                   T beta, T* y, bool with_dot);

// y := y + alpha A x. Rows without entries are not written. Otherwise the same.
template <class T>
T add_triples(const Context& context, const Triples<T>& A, T alpha, const T* x, T* y, bool with_dot);

// The arrays of coo and everything except the product.
template <class T>
class CooHolder : public AssembledMatrix<T>, public HasLayout, public HasArrayView<CooView<T>> {
 public:
  explicit CooHolder(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request),
        row_(request.context, request.csr.nonzeros()),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const auto borders =
        balanced_row_borders(pattern, useful_parts(*request.context, pattern.nonzeros + pattern.rows));
    pattern.row_ptr.visit([&](auto* row_ptr) {
      parallel(static_cast<int>(borders.size()) - 1, [&](int part, int) {
        for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r)
          std::fill(row_.data() + row_ptr[r], row_.data() + row_ptr[r + 1], static_cast<std::int32_t>(r));
      });
    });
    copy_array(*request.context, pattern.col, pattern.nonzeros, col_.data());
    copy_array(*request.context, request.csr.values, pattern.nonzeros, values_.data());
  }

  CsrMatrix<T> to_csr() const override {
    const std::int64_t rows = this->rows(), size = values_.size();
    CsrBuilder<T> builder(this->context(), rows, this->cols(), size);
    parallel(useful_parts(*this->context(), rows + size), [&](int part, int parts) {
      const Range range = even_range(rows, part, parts);
      std::int64_t k =
          std::lower_bound(row_.begin(), row_.end(), static_cast<std::int32_t>(range.begin)) - row_.begin();
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        while (k < size && row_[k] == r) ++k;
        builder.set_row_ptr(r + 1, k);
      }
    });
    copy_array(*this->context(), col_.data(), size, builder.col());
    copy_array(*this->context(), values_.data(), size, builder.values());
    return builder.freeze();
  }
  std::size_t bytes() const noexcept override { return row_.bytes() + col_.bytes() + values_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("row", row_), layout_array("col", col_), layout_array("values", values_)};
  }
  CooView<T> array_view() const noexcept override {
    return {values_.size(), row_.data(), col_.data(), values_.data()};
  }
  void diagonal(VectorView<T> d) const override {
    std::fill(d.data, d.data + d.size, T(0));
    parallel(useful_parts(*this->context(), values_.size()), [&](int part, int parts) {
      const Range range = even_range(values_.size(), part, parts);
      for (std::int64_t k = range.begin; k < range.end; ++k)
        if (row_[k] == col_[k]) d.data[row_[k]] = values_[k];
    });
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    copy_array(*this->context(), csr.values, csr.nonzeros(), values_.data());
  }
  Triples<T> triples() const { return {values_.size(), row_.data(), col_.data(), values_.data()}; }

 private:
  Buffer<std::int32_t> row_, col_;
  Buffer<T> values_;
};

}  // namespace protean::formats
