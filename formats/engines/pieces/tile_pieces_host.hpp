// The host side of tile_pieces.hpp. Private to formats/.
#pragma once
#include <algorithm>
#include <vector>

#include "formats/engines/pieces/tile_pieces.hpp"
#include "formats/engines/view/row_view.hpp"

namespace protean::formats {

// What admit() finds of the pieces. `from` is the first entry of the piece at each position, `length` its entries.
struct PiecePlan {
  std::vector<std::int64_t> piece_ptr, from;
  std::vector<std::int32_t> piece, piece_row, length;
  std::int64_t slots = 0;

  std::int64_t pieces() const { return static_cast<std::int64_t>(piece_row.size()); }
  void resize(std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    from.resize(size), piece.resize(size), piece_row.resize(size), length.resize(size);
  }
};

template <class N>
Buffer<N> buffer_of(const ContextPtr& context, const std::vector<N>& from) {
  Buffer<N> to(context, static_cast<std::int64_t>(from.size()));
  std::copy(from.begin(), from.end(), to.begin());
  return to;
}

// The arrays of pieces. Derived adds the arrays that say where a piece lies: place(), place_bytes(), place_layout(). If
// it has sorted the columns, its order() is the order of PieceView.
template <class T, class Place, class Derived>
class PieceMatrix : public RowViewMatrix<T, Derived> {
 public:
  PieceMatrix(const BuildRequest<T>& request, const PiecePlan& plan)
      : RowViewMatrix<T, Derived>(request),
        piece_ptr_(buffer_of(request.context, plan.piece_ptr)),
        piece_(buffer_of(request.context, plan.piece)),
        piece_row_(buffer_of(request.context, plan.piece_row)),
        col_(request.context, plan.slots),
        values_(request.context, plan.slots) {}

  std::size_t bytes() const noexcept override {
    return piece_ptr_.bytes() + piece_.bytes() + piece_row_.bytes() + col_.bytes() + values_.bytes() +
           self().place_bytes();
  }
  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> all = {layout_array("piece_ptr", piece_ptr_), layout_array("piece", piece_),
                                    layout_array("piece_row", piece_row_)};
    for (LayoutArray& array : self().place_layout()) all.push_back(std::move(array));
    all.push_back(layout_array("col", col_)), all.push_back(layout_array("values", values_));
    return all;
  }
  PieceView<T, Place> row_view() const noexcept {
    return {values_.data(),    col_.data(),  piece_ptr_.data(), piece_.data(),
            piece_row_.data(), this->rows(), self().place(),    self().order()};
  }
  T* mutable_values() noexcept { return values_.data(); }
  const std::int32_t* order() const noexcept { return nullptr; }

 protected:
  // Columns and values; place() is complete. plan.from counts in `columns`.
  void fill(const CsrMatrix<T>& csr, const PiecePlan& plan, const std::int32_t* columns) {
    const Place place = self().place();
    parallel(useful_parts(*this->context(), plan.slots), [&](int part, int parts) {
      const Range range = even_range(plan.pieces(), part, parts);
      for (std::int64_t p = range.begin; p < range.end; ++p) {
        const PieceSpan span = place.padded(p);
        const auto i = static_cast<std::size_t>(p);
        for (std::int64_t k = 0, at = span.begin; k < span.count; ++k, at += span.stride)
          col_[at] = columns[plan.from[i] + std::min<std::int64_t>(k, plan.length[i] - 1)], values_[at] = 0;
      }
    });
    update_from_view(*this->context(), row_view(), csr, values_.data());
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  Buffer<std::int64_t> piece_ptr_;
  Buffer<std::int32_t> piece_, piece_row_, col_;
  Buffer<T> values_;
};

}  // namespace protean::formats
