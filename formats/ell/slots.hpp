// Common to ELLPACK and its sliced forms on the host: rows lie side by side in positions 0,
// 1, 2, ..., and slot k of neighbouring positions is contiguous, so a SIMD lane is a row. Private to
// formats/.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/host_support.hpp"
#include "formats/private/array_views.hpp"
#include "formats/private/coo.hpp"

namespace protean::formats {

// The slots of the row at one position: slot k at base + k * stride, k < width.
struct SlotRow {
  std::int64_t base, stride, width;
};

// The place of slot k of position p: k * stride + p (ell), or ptr[p / stride] + k * stride + p % stride (sliced).
enum class SlotOrder : unsigned char { ell, sliced };

// A product over positions [begin, end): y[row] := alpha * sum_k values x[col] + beta * y[row].
template <class T>
struct SlotProduct {
  SlotOrder order;
  const T* values;
  const std::int32_t* col;
  const std::int64_t* ptr;     // slices; null for ell
  std::int64_t stride, width;  // ell: distance of two columns; sliced: rows of a slice (1, 2, 4, ... 64)
  std::int64_t rows;           // positions from here on belong to no row
  const std::int32_t* perm;    // position -> row; null when they are the same
  std::span<const std::int32_t> empty;  // positions of rows without entries, ascending: their sum is 0
  T alpha, beta;                        // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;         // return the sum of x[row] * y[row], else 0
  bool ordered = false;  // add as in deterministic mode: fused, nothing for padding, no dot product
  Triples<T> tail = {};  // of ell, if ordered: entries of rows after those in their slots
};

// Sliced products begin and end at slices.
double slot_product(const SlotProduct<double>& product, std::int64_t begin, std::int64_t end);
float slot_product(const SlotProduct<float>& product, std::int64_t begin, std::int64_t end);

// Runs a product in parallel on parts of the positions. Returns the sum of x . y over all parts.
template <class T>
T run_slot_product(const SlotProduct<T>& product, const std::vector<std::int64_t>& borders) {
  const int parts = static_cast<int>(borders.size()) - 1;
  PartialSums<T> sums(parts);
  parallel(parts,
           [&](int part, int) { sums[part] = slot_product(product, borders[part], borders[part + 1]); });
  return sums.total();
}

// The number of entries of a row that is not empty: entries ascend, padding repeats a column.
inline std::int64_t used_slots(const SlotRow& row, const std::int32_t* col) {
  std::int64_t k = 1;
  while (k < row.width && col[row.base + k * row.stride] > col[row.base + (k - 1) * row.stride]) ++k;
  return k;
}

// Positions of rows without entries, ascending; row_of maps a position to a row.
template <class RowOf>
std::vector<std::int32_t> empty_positions(const SparsityPattern& pattern, RowOf row_of) {
  std::vector<std::int32_t> empty;
  for (std::int64_t p = 0; p < pattern.rows; ++p)
    if (pattern.row_length(row_of(p)) == 0) empty.push_back(static_cast<std::int32_t>(p));
  return empty;
}

// The number of rows without entries and the longest row; found in parallel over rows.
struct RowLengths {
  std::int64_t empty = 0, longest = 0;
};
RowLengths row_lengths(const Context& context, const SparsityPattern& pattern);

// A matrix of padded rows. Geometry gives their places: SlotRow at(position); positions(), including those
// past the last row; rows(), the rows that one thread computes together; borders(parts).
template <class T, class Geometry>
class SlotMatrix : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  CsrMatrix<T> to_csr() const override {
    const std::vector<std::int32_t> position = positions_of_rows();
    const auto at = [&](std::int64_t r) { return position.empty() ? r : position[r]; };
    const auto length = [&](std::int64_t r) {
      return is_empty(at(r)) ? 0 : used_slots(geometry_.at(at(r)), col_.data());
    };
    return csr_from_rows<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), length,
                            [&](std::int64_t r, std::int64_t first, CsrBuilder<T>& builder) {
                              const SlotRow row = geometry_.at(at(r));
                              const std::int64_t count = builder.row_ptr(r + 1) - first;
                              for (std::int64_t k = 0; k < count; ++k) {
                                builder.col()[first + k] = col_[row.base + k * row.stride];
                                builder.values()[first + k] = values_[row.base + k * row.stride];
                              }
                            });
  }

  void diagonal(VectorView<T> d) const override {
    for_positions([&](std::int64_t p) {
      if (p >= this->rows()) return;
      const std::int64_t r = row_of(p);
      if (r >= d.size) return;
      const SlotRow row = geometry_.at(p);
      T found = 0;
      for (std::int64_t k = 0; k < row.width; ++k) {
        const std::int64_t slot = row.base + k * row.stride;
        if (col_[slot] != r) continue;
        found = is_empty(p) ? T(0) : values_[slot];  // the first is the entry, others are padding
        break;
      }
      d.data[r] = found;
    });
  }

 protected:
  SlotMatrix(const BuildRequest<T>& request, Geometry geometry, Buffer<std::int32_t> perm)
      : AssembledMatrix<T>(request),
        geometry_(std::move(geometry)),
        col_(request.context, geometry_.slots()),
        values_(request.context, geometry_.slots()),
        perm_(std::move(perm)) {
    if (row_lengths(*request.context, request.csr.pattern).empty > 0) {
      const auto empty = empty_positions(request.csr.pattern, [&](std::int64_t p) { return row_of(p); });
      empty_ = Buffer<std::int32_t>(request.context, static_cast<std::int64_t>(empty.size()));
      std::copy(empty.begin(), empty.end(), empty_.begin());
    }
    borders_ = geometry_.borders(useful_parts(*request.context, geometry_.slots() + this->rows()));
    write<true>(request.csr);
  }

  void do_update_values(const CsrMatrix<T>& csr) override { write<false>(csr); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run_slot_product(product(alpha, x, beta, y, false), borders_);
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run_slot_product(product(T(1), x, T(0), y, true), borders_);
  }

  SlotProduct<T> product(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    return {Geometry::order,
            values_.data(),
            col_.data(),
            geometry_.pointers(),
            geometry_.stride(),
            geometry_.width(),
            this->rows(),
            perm_.empty() ? nullptr : perm_.data(),
            {empty_.begin(), empty_.end()},
            alpha,
            beta,
            x.data,
            y.data,
            with_dot,
            this->context()->deterministic()};
  }

  // For kernels of libraries; of ell and sell-c-sigma.
  SlotView<T> slot_view(std::int64_t positions) const noexcept {
    return {this->rows(),       positions,         geometry_.slots(),
            geometry_.stride(), geometry_.width(), geometry_.pointers(),
            col_.data(),        values_.data(),    perm_.empty() ? nullptr : perm_.data(),
            empty_.data(),      empty_.size()};
  }

  std::size_t slot_bytes() const noexcept {
    return col_.bytes() + values_.bytes() + perm_.bytes() + empty_.bytes();
  }
  std::int64_t row_of(std::int64_t position) const { return perm_.empty() ? position : perm_[position]; }

  Geometry geometry_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
  Buffer<std::int32_t> perm_, empty_;

 private:
  bool is_empty(std::int64_t position) const {
    return !empty_.empty() &&
           std::binary_search(empty_.begin(), empty_.end(), static_cast<std::int32_t>(position));
  }

  std::vector<std::int32_t> positions_of_rows() const {
    std::vector<std::int32_t> position(static_cast<std::size_t>(perm_.size()));
    for (std::int64_t p = 0; p < perm_.size(); ++p) position[perm_[p]] = static_cast<std::int32_t>(p);
    return position;
  }

  template <class Body>
  void for_positions(Body body) const {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t p = borders_[part]; p < borders_[part + 1]; ++p) body(p);
    });
  }

  // Rows whose slots are written together, because they lie side by side.
  static constexpr std::int64_t group = 16;
  struct Group {
    std::array<SlotRow, group> to;
    std::array<std::int64_t, group> begin, length;
    std::array<std::int32_t, group> last;

    // True when rows [first, first + count) have the same number of slots and lie side by side.
    bool together(std::int64_t first, std::int64_t count) const noexcept {
      bool same = true;
      for (std::int64_t i = 1; i < count; ++i)
        same = same && to[first + i].base == to[first].base + i && to[first + i].width == to[first].width &&
               to[first + i].stride == to[first].stride;
      return same;
    }
  };

  // Writes the entries of a row, then padding: the value 0 and the row's last column again (column 0 in an
  // empty row). So the padding of a row reads no x that the row does not use.
  template <bool columns>
  void write(const CsrMatrix<T>& csr) {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t p = borders_[part]; p < borders_[part + 1]; p += group) {
        const std::int64_t count = std::min(group, borders_[part + 1] - p);
        Group g;
        for (std::int64_t i = 0; i < count; ++i) {
          g.to[i] = geometry_.at(p + i), g.begin[i] = g.length[i] = 0, g.last[i] = 0;
          if (p + i >= this->rows()) continue;
          const std::int64_t row = row_of(p + i);
          g.begin[i] = csr.pattern.row_ptr[row], g.length[i] = csr.pattern.row_ptr[row + 1] - g.begin[i];
          if (columns && g.length[i] > 0) g.last[i] = csr.pattern.col[g.begin[i] + g.length[i] - 1];
        }
        constexpr std::int64_t half = group / 2;
        if (count == group && g.together(0, group)) {
          write_together<columns, group>(csr, g, 0);
        } else if (count == group && g.together(0, half) && g.together(half, half)) {
          write_together<columns, half>(csr, g, 0);
          write_together<columns, half>(csr, g, half);
        } else {
          std::int64_t width = 0;
          for (std::int64_t i = 0; i < count; ++i) width = std::max(width, g.to[i].width);
          for (std::int64_t k = 0; k < width; ++k)
            for (std::int64_t i = 0; i < count; ++i)
              if (k < g.to[i].width) write_slot<columns>(csr, g, i, k);
        }
      }
    });
  }

  template <bool columns>
  void write_slot(const CsrMatrix<T>& csr, const Group& g, std::int64_t i, std::int64_t k) {
    const std::int64_t slot = g.to[i].base + k * g.to[i].stride;
    const bool entry = k < g.length[i];
    if constexpr (columns) col_[slot] = entry ? csr.pattern.col[g.begin[i] + k] : g.last[i];
    values_[slot] = entry ? csr.values[g.begin[i] + k] : T(0);
  }

  // The same for `count` rows that lie together. The slots that all of them have are written without a test
  // for each row.
  template <bool columns, std::int64_t count>
  void write_together(const CsrMatrix<T>& csr, const Group& g, std::int64_t first) {
    const std::int64_t* const length = g.length.data() + first;
    const std::int64_t all = *std::min_element(length, length + count), width = g.to[first].width;
    const std::int32_t* from_col[count];
    const T* from_values[count];
    for (std::int64_t i = 0; i < count; ++i) {
      from_col[i] = csr.pattern.col + g.begin[first + i];
      from_values[i] = csr.values + g.begin[first + i];
    }
    std::int32_t* col = col_.data() + g.to[first].base;
    T* values = values_.data() + g.to[first].base;
    for (std::int64_t k = 0; k < all; ++k, col += g.to[first].stride, values += g.to[first].stride)
      for (std::int64_t i = 0; i < count; ++i) {
        if constexpr (columns) col[i] = from_col[i][k];
        values[i] = from_values[i][k];
      }
    for (std::int64_t k = all; k < width; ++k)
      for (std::int64_t i = 0; i < count; ++i) write_slot<columns>(csr, g, first + i, k);
  }

  std::vector<std::int64_t> borders_;
};

}  // namespace protean::formats
