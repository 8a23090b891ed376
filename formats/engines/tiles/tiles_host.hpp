// The host side of tiles.hpp. Private to formats/.
#pragma once
#include <memory>
#include <vector>

#include "formats/engines/rows/rows.hpp"
#include "formats/engines/tiles/tiles.hpp"
#include "formats/engines/view/row_view.hpp"

namespace protean::formats {

// y := alpha A x + beta y, without the deferred entries.
template <class T>
struct TileProduct {
  TileView<T> tiles;
  T alpha;
  const T* x;
  T beta;
  T* y;
};
// Tile rows [begin, end). x is read in columns in which a row has an entry, and in all columns of dns tiles.
void tile_product(const TileProduct<double>& product, std::int64_t begin, std::int64_t end);
void tile_product(const TileProduct<float>& product, std::int64_t begin, std::int64_t end);

// What admit() finds.
struct TilePlan {
  TileRule rule;
  TileSizes sizes;
  std::vector<std::int64_t> tile_ptr, value_ptr, index_ptr;  // [tile rows + 1]
  std::vector<std::int64_t> rest_ptr;                        // [rows + 1], or empty
};

Admission admit_tiles(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                      std::size_t value_bytes);

template <class T>
class TileMatrix final : public RowViewMatrix<T, TileMatrix<T>> {
 public:
  explicit TileMatrix(const BuildRequest<T>& request);

  std::size_t bytes() const noexcept override {
    return tile_ptr_.bytes() + value_ptr_.bytes() + index_ptr_.bytes() + tiles_.bytes() + index_.bytes() +
           values_.bytes() + rest_ptr32_.bytes() + rest_ptr64_.bytes() + rest_col_.bytes() +
           (rest_matrix_ ? rest_matrix_->bytes() : 0);
  }
  std::vector<LayoutArray> layout() const override;
  TileView<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const;

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override;

 private:
  template <bool structure>
  void fill(const CsrMatrix<T>& csr);
  SparsityPattern rest_pattern() const;
  CsrMatrix<T> rest() const;  // the deferred entries

  TileRule rule_;
  TileSizes sizes_;
  Buffer<std::int64_t> tile_ptr_, value_ptr_, index_ptr_;
  Buffer<Tile> tiles_;
  Buffer<std::uint8_t> index_;
  Buffer<T> values_;
  Buffer<std::int32_t> rest_ptr32_;
  Buffer<std::int64_t> rest_ptr64_;
  Buffer<std::int32_t> rest_col_;
  std::vector<std::int64_t> borders_;                // tile rows of each part
  std::vector<RowShare> shares_;                     // of the deferred entries, without rest = csr5
  std::unique_ptr<AssembledMatrix<T>> rest_matrix_;  // of them, with rest = csr5
};
extern template class TileMatrix<double>;
extern template class TileMatrix<float>;

}  // namespace protean::formats
