// The engine of transposed jagged diagonals (tjad, btjad): the columns of a band of rows sorted by descending number of
// entries, and entry k of all columns that have one side by side. This is the host side and what host and device share;
// jags_of_columns.cuh is the device side.
//
//     position   0 1 2 3        of a column; col_perm tells which
//     jag 0      a d g i        jag_ptr[0] = 0
//     jag 1      b e h          jag_ptr[1] = 4
//     jag 2      c f            jag_ptr[2] = 7        row[place] is the row of an entry in its band
//
//   tjad has one band of all rows, btjad bands of `height` rows, whose sums fit into a cache or shared memory.
//
// A thread that has a position reads x once, and adds to a sum for each of its entries. Rows of a column ascend with k.
// Private to formats/.
#pragma once
#include <cstdint>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"
#if !defined(__CUDACC__)
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "formats/engines/view/entry_view.hpp"
#endif

namespace protean::formats {

constexpr std::int64_t highest_band = 4096;  // rows, so that their sums fit into 32 KiB

// R is the type of a row's number in its band.
template <class T, class R>
struct ColumnJags {
  const T* values;
  const R* row;
  const std::int32_t* col_perm;
  const std::int64_t *jag_ptr, *band_col, *band_jag;  // the last two are null if there is one band
  std::int64_t rows, height, bands, positions, jags;

  // Positions and jags before band b.
  PROTEAN_HOST_DEVICE std::int64_t col_begin(std::int64_t b) const {
    return band_col ? band_col[b] : b == 0 ? 0 : positions;
  }
  PROTEAN_HOST_DEVICE std::int64_t jag_begin(std::int64_t b) const {
    return band_jag ? band_jag[b] : b == 0 ? 0 : jags;
  }
  // Calls f(place) for the entries of the column at position q of band b, from its entry k on.
  template <class F>
  PROTEAN_HOST_DEVICE void for_column(std::int64_t b, std::int64_t q, F&& f, std::int64_t k = 0) const {
    const std::int64_t end = jag_begin(b + 1), at = q - col_begin(b);
    for (std::int64_t j = jag_begin(b) + k; j < end && jag_ptr[j] + at < jag_ptr[j + 1]; ++j)
      f(jag_ptr[j] + at);
  }
};

// The last i from 0 to count - 1 with begins[i] <= k; begins[0] <= k.
PROTEAN_HOST_DEVICE inline std::int64_t last_begin(const std::int64_t* begins, std::int64_t count,
                                                   std::int64_t k) {
  return first_where<std::int64_t>(1, count, [&](std::int64_t i) { return begins[i] > k; }) - 1;
}

struct ColumnJagSizes {
  std::int64_t height = 0, bands = 0, positions = 0, jags = 0;
};
// Bands of `height` rows, or one band of all when it is 0.
inline ColumnJagSizes bands_of(std::int64_t rows, std::int64_t height) {
  if (height == 0) return {rows > 0 ? rows : 1, 1, 0, 0};
  return {height, (rows + height - 1) / height, 0, 0};
}
template <class R>
std::size_t column_jag_bytes(const ColumnJagSizes& sizes, bool banded, std::int64_t nonzeros,
                             std::size_t value_bytes) {
  return static_cast<std::size_t>(nonzeros) * (value_bytes + sizeof(R)) +
         static_cast<std::size_t>(4 * sizes.positions + 8 * (sizes.jags + 1) +
                                  (banded ? 16 * (sizes.bands + 1) : 0));
}

#if !defined(__CUDACC__)

struct ColumnJagPlan {
  ColumnJagSizes sizes;
  std::vector<std::int64_t> band_col, band_jag, jag_ptr;
  std::vector<std::int32_t> col_perm;
};
ColumnJagPlan plan_column_jags(const Context& context, const SparsityPattern& pattern, std::int64_t height);

// What tjad and btjad have in common: all except the product.
template <class T, class R>
class ColumnJagMatrix : public AssembledMatrix<T>, public HasLayout {
 public:
  ColumnJagMatrix(const BuildRequest<T>& request, bool banded)
      : AssembledMatrix<T>(request), sizes_(plan_of<ColumnJagPlan>(request.admission).sizes) {
    const ColumnJagPlan& plan = plan_of<ColumnJagPlan>(request.admission);
    const ContextPtr& context = request.context;
    const auto keep = [&](auto& to, const auto& from) {
      to = std::remove_reference_t<decltype(to)>(context, static_cast<std::int64_t>(from.size()));
      std::copy(from.begin(), from.end(), to.begin());
    };
    keep(jag_ptr_, plan.jag_ptr), keep(col_perm_, plan.col_perm);
    if (banded) keep(band_col_, plan.band_col), keep(band_jag_, plan.band_jag);
    row_ = Buffer<R>(context, this->nonzeros()), values_ = Buffer<T>(context, this->nonzeros());
    scatter(request.csr, true);
    if (context->deterministic()) {
      order_ = Buffer<std::int32_t>(context, sizes_.positions);
      set_order(order_.data());
    }
  }

  CsrMatrix<T> to_csr() const override {
    std::vector<std::int32_t> order(static_cast<std::size_t>(sizes_.positions));
    set_order(order.data());
    return csr_from_entries<T>(this->context(), this->rows(), this->cols(), this->nonzeros(),
                               Entries{jags(), order.data()});
  }
  void diagonal(VectorView<T> d) const override {
    diagonal_from_entries(*this->context(), Entries{jags(), nullptr}, this->nonzeros(), d);
  }
  std::size_t bytes() const noexcept override {
    return jag_ptr_.bytes() + col_perm_.bytes() + band_col_.bytes() + band_jag_.bytes() + row_.bytes() +
           values_.bytes() + order_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> arrays{layout_array("jag_ptr", jag_ptr_), layout_array("col_perm", col_perm_),
                                    layout_array("row", row_), layout_array("values", values_)};
    if (!band_col_.empty())
      arrays.push_back(layout_array("band_col", band_col_)),
          arrays.push_back(layout_array("band_jag", band_jag_));
    return arrays;
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { scatter(csr, false); }

  ColumnJags<T, R> jags() const noexcept {
    return {values_.data(),
            row_.data(),
            col_perm_.data(),
            jag_ptr_.data(),
            band_col_.empty() ? nullptr : band_col_.data(),
            band_jag_.empty() ? nullptr : band_jag_.data(),
            this->rows(),
            sizes_.height,
            sizes_.bands,
            sizes_.positions,
            sizes_.jags};
  }
  // In deterministic mode: the positions of each band by ascending column.
  const std::int32_t* order() const noexcept { return order_.data(); }
  const ColumnJagSizes& sizes() const noexcept { return sizes_; }

 private:
  // The bands, see entry_view.hpp. Columns ascend if there is an order.
  struct Entries {
    ColumnJags<T, R> a;
    const std::int32_t* order;
    const T* values = a.values;
    int blocks() const { return static_cast<int>(a.bands); }
    Range rows(int b) const { return {b * a.height, std::min(a.rows, (b + 1) * a.height)}; }
    template <class F>
    void for_entries(int b, F&& f) const {
      for (std::int64_t i = a.col_begin(b); i < a.col_begin(b + 1); ++i) {
        const std::int64_t q = order ? a.col_begin(b) + order[i] : i;
        a.for_column(b, q, [&](std::int64_t place) {
          f(static_cast<std::int32_t>(b * a.height + a.row[place]), a.col_perm[q], place);
        });
      }
    }
  };

  // Numbers count from the first position of the band.
  void set_order(std::int32_t* order) const {
    const ColumnJags<T, R> a = jags();
    parallel(useful_parts(*this->context(), a.positions), [&](int part, int parts) {
      const Range bands = even_range(a.bands, part, parts);
      for (std::int64_t b = bands.begin; b < bands.end; ++b) {
        std::int32_t *const first = order + a.col_begin(b), *const last = order + a.col_begin(b + 1);
        const std::int32_t* const col = a.col_perm + a.col_begin(b);
        std::iota(first, last, 0);
        std::sort(first, last, [&](std::int32_t p, std::int32_t q) { return col[p] < col[q]; });
      }
    });
  }

  void scatter(const CsrMatrix<T>& csr, bool with_rows) {
    const ColumnJags<T, R> a = jags();
    const SparsityPattern& pattern = csr.pattern;
    const int parts =
        static_cast<int>(std::min<std::int64_t>(useful_parts(*this->context(), csr.nonzeros()), a.bands));
    parallel(std::max(1, parts), [&](int part, int count) {
      struct Column {
        std::int32_t position, entries;
      };
      std::vector<Column> columns(static_cast<std::size_t>(this->cols()));
      const Range bands = even_range(a.bands, part, count);
      for (std::int64_t b = bands.begin; b < bands.end; ++b) {
        const std::int64_t first = a.col_begin(b);
        for (std::int64_t q = first; q < a.col_begin(b + 1); ++q)
          columns[static_cast<std::size_t>(a.col_perm[q])] = {static_cast<std::int32_t>(q - first), 0};
        for (std::int64_t r = b * a.height; r < std::min(a.rows, (b + 1) * a.height); ++r)
          for (std::int64_t k = pattern.row_ptr[r]; k < pattern.row_ptr[r + 1]; ++k) {
            Column& column = columns[static_cast<std::size_t>(pattern.col[k])];
            const std::int64_t place = a.jag_ptr[a.jag_begin(b) + column.entries++] + column.position;
            values_[place] = csr.values[k];
            if (with_rows) row_[place] = static_cast<R>(r - b * a.height);
          }
      }
    });
  }

  ColumnJagSizes sizes_;
  Buffer<std::int64_t> jag_ptr_, band_col_, band_jag_;
  Buffer<std::int32_t> col_perm_, order_;
  Buffer<R> row_;
  Buffer<T> values_;
};

#endif

}  // namespace protean::formats
