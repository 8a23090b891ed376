// The host side of diagonal_view.hpp: products, conversion, and the search for diagonals. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/behind.hpp"
#include "core/bisect.hpp"
#include "core/product_parts.hpp"
#include "formats/engines/diagonals/diagonal_view.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/engines/view/stored_values.hpp"

namespace protean::formats {

// y := alpha A x + beta y on some rows.
template <class T>
struct LineProduct {
  T alpha, beta;  // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;  // return the sum of x[row] * y[row], else 0
  bool
      ordered;  // add as in deterministic mode: fused, nothing for fill, no dot product; no entries may lie apart
};

// begin and end are the number of rows, or multiples of the height; with one hack they are multiples of 8.
#define PROTEAN_LINE_PRODUCT(View, T) \
  T line_product(const View<T>& view, const LineProduct<T>& product, std::int64_t begin, std::int64_t end)
PROTEAN_LINE_PRODUCT(HackView, double);
PROTEAN_LINE_PRODUCT(HackView, float);
PROTEAN_LINE_PRODUCT(BandView, double);
PROTEAN_LINE_PRODUCT(BandView, float);
PROTEAN_LINE_PRODUCT(SegmentView, double);
PROTEAN_LINE_PRODUCT(SegmentView, float);
PROTEAN_LINE_PRODUCT(BlockLineView, double);
PROTEAN_LINE_PRODUCT(BlockLineView, float);
// Values in float, everything else in double.
double line_product(const HackView<float>& view, const LineProduct<double>& product, std::int64_t begin,
                    std::int64_t end);

// The diagonals of hack h are off[ptr[h]] .. off[ptr[h+1] - 1]. admit() finds them and passes them to the
// maker as its plan.
struct Diagonals {
  std::int64_t height = 0;
  std::vector<std::int64_t> ptr;
  std::vector<std::int32_t> off;  // ascending inside a hack

  std::int64_t count() const { return static_cast<std::int64_t>(off.size()); }
};

// Hacks of `height` rows. A height of all rows gives one hack, even for a matrix without rows.
Diagonals find_diagonals(const Context& context, const SparsityPattern& pattern, std::int64_t height);

inline std::int64_t hack_count(std::int64_t rows, std::int64_t height) {
  return height > 0 ? (rows + height - 1) / height : 0;
}

// Neighbouring offsets make a band: band b has ptr[b + 1] - ptr[b] of them, from off[b] on.
struct Bands {
  std::vector<std::int32_t> off;
  std::vector<std::int64_t> ptr{0};

  std::int64_t count() const { return static_cast<std::int64_t>(off.size()); }
  // Appends the bands of these ascending offsets.
  void add(const std::int32_t* first, const std::int32_t* last) {
    for (const std::int32_t* at = first; at < last; ++at) {
      if (at > first && *at == at[-1] + 1)
        ++ptr.back();
      else
        off.push_back(*at), ptr.push_back(ptr.back() + 1);
    }
  }
};

// The same for formats without the case of one hack: a matrix without rows has none.
Diagonals find_diagonals_of_hacks(const Context& context, const SparsityPattern& pattern,
                                  std::int64_t height);

// Segments as in SegmentView.
struct SegmentPlan {
  std::vector<std::int64_t> hack_ptr;
  std::vector<std::int32_t> off, first;
  std::vector<std::int64_t> ptr{0};

  std::int64_t count() const { return static_cast<std::int64_t>(off.size()); }
  std::int64_t values() const { return ptr.back(); }
  std::int64_t bit_bytes() const { return SegmentView<float>::bytes_of_bits(values(), count()); }
};

// Calls body(h, bits) for all hacks, in parallel parts of neighbouring hacks: bit i % 8 of byte d ceil(height / 8) + i
// / 8 says whether row i of hack h has an entry on its diagonal d.
template <class Body>
void for_hacks(const Context& context, const SparsityPattern& pattern, const Diagonals& where, Body body) {
  const std::int64_t height = where.height, hacks = static_cast<std::int64_t>(where.ptr.size()) - 1,
                     bit_bytes = (height + 7) / 8;
  pattern.row_ptr.visit([&](auto* row_ptr) {
    parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
      // place[offset]: the number of that diagonal in its hack. It is written before it is read.
      const auto places = std::make_unique_for_overwrite<std::int32_t[]>(
          static_cast<std::size_t>(pattern.rows + pattern.cols));
      std::int32_t* const place = places.get() + pattern.rows;
      std::vector<std::uint8_t> bits;
      const Range mine = even_range(hacks, part, parts);
      for (std::int64_t h = mine.begin; h < mine.end; ++h) {
        const std::int64_t first = where.ptr[h], count = where.ptr[h + 1] - first;
        for (std::int64_t d = 0; d < count; ++d) place[where.off[first + d]] = static_cast<std::int32_t>(d);
        bits.assign(static_cast<std::size_t>(count * bit_bytes), 0);
        const std::int64_t top = h * height, bottom = std::min(pattern.rows, top + height);
        for (std::int64_t r = top; r < bottom; ++r)
          for (std::int64_t k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
            bits[place[pattern.col[k] - r] * bit_bytes + (r - top) / 8] |=
                static_cast<std::uint8_t>(1u << ((r - top) % 8));
        body(h, bits.data());
      }
    });
  });
}

// The rows of each part: whole hacks, so that all parts have nearly the same work; before(h) is the work of all hacks
// before h. A single hack is cut into equal pieces.
template <class Before>
std::vector<std::int64_t> row_borders(std::int64_t rows, std::int64_t height, std::int64_t hacks, int parts,
                                      Before before) {
  std::vector<std::int64_t> borders(static_cast<std::size_t>(parts) + 1, rows);
  for (int part = 0; part < parts; ++part) {
    if (hacks <= 1) {
      borders[part] = even_range(rows, part, parts, 512).begin;
      continue;
    }
    const std::int64_t share = before(hacks) / parts * part;
    const std::int64_t hack =
        first_where<std::int64_t>(0, hacks, [&](std::int64_t h) { return before(h) >= share; });
    borders[part] = std::min(rows, hack * height);  // the last hack may be incomplete
  }
  borders[0] = 0;
  return borders;
}

// A matrix in lines. Derived has row_view(), which returns a view of diagonal_view.hpp. The values of lines come first,
// then the values of entries that lie apart.
template <class T, class Derived>
class LineMatrix : public RowViewMatrix<T, Derived>, public HasApplyDot<T> {
 public:
  T* mutable_values() noexcept { return values_.data(); }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run({T(1), T(0), x.data, y.data, true, false});
  }
  void multiply(T alpha, const T* x, T beta, T* y) const { run({alpha, beta, x, y, false, false}); }
  // f(the view with which products are computed).
  template <class F>
  auto visit_view(F&& f) const {
    return f(self().row_view());
  }

 protected:
  // values: of values_; a derived class may keep its values in memory of its own (visit_view()).
  LineMatrix(const BuildRequest<T>& request, std::int64_t values, std::int64_t bit_bytes)
      : RowViewMatrix<T, Derived>(request),
        values_(request.context, values),
        entries_(request.context, bit_bytes),
        parts_(product_parts(*request.context, this->rows(), this->nonzeros())) {}

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (!this->context()->deterministic() || !apart_)
      run({alpha, beta, x.data, y.data, false, this->context()->deterministic()});
    else
      RowViewMatrix<T, Derived>::do_apply(alpha, x, beta, y);
  }

  // Writes all values and bits of the lines: the columns of a row and of its lines both ascend. apart(k, r) gets the
  // entries k of the CSR matrix that have no place in a line.
  template <class Apart>
  void fill(const CsrMatrix<T>& csr, Apart apart) {
    const auto view = self().row_view();
    T* const values = values_.data();
    std::uint8_t* const entries = entries_.data();
    const Context& context = *this->context();
    parallel(useful_parts(context, values_.size()), [&](int part, int parts) {
      const Range v = even_range(values_.size(), part, parts), e = even_range(entries_.size(), part, parts);
      std::fill(values + v.begin, values + v.end, T(0));
      std::fill(entries + e.begin, entries + e.end, std::uint8_t(0));
    });
    csr.pattern.row_ptr.visit([&](auto* row_ptr) {
      const std::int32_t* const col = csr.pattern.col;
      parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
        for (std::int64_t r = borders_[part]; r < borders_[part + 1]; ++r) {
          const std::int64_t h = view.hack(r), i = r - h * view.height;
          auto l = view.lines(h);
          for (std::int64_t k = row_ptr[r], end = row_ptr[r + 1]; k < end; ++k) {
            while (l.more() && (l.col(r) < col[k] || (l.col(r) == col[k] && !l.stores(r)))) l.next();
            if (!l.more() || l.col(r) != col[k]) {
              apart(k, r);
              continue;
            }
            values[l.at + r] = csr.values[k];
            entries[l.byte(i)] |= static_cast<std::uint8_t>(1u << (i % 8));
          }
        }
      });
    });
  }
  void fill(const CsrMatrix<T>& csr) {
    fill(csr, [](std::int64_t, std::int64_t) {});
  }

  std::size_t array_bytes() const noexcept { return values_.bytes() + entries_.bytes(); }

  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;
  int parts_;
  template <class Before>
  void set_borders(std::int64_t hacks, std::int64_t height, Before before) {
    borders_ = row_borders(this->rows(), height, hacks, parts_, before);
  }

  std::vector<std::int64_t> borders_;  // the rows of each part; the maker sets them
  bool apart_ = false;                 // entries lie apart from the lines

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }

  T run(const LineProduct<T>& product) const {
    return self().visit_view([&](const auto& view) {
      const int parts = static_cast<int>(borders_.size()) - 1;
      PartialSums<T> sums(parts);
      parallel(parts, [&](int part, int) {
        sums[part] = line_product(view, product, borders_[part], borders_[part + 1]);
      });
      return sums.total();
    });
  }
};

// dia and hdi. Their values may be in float although T is double.
template <class T>
class HackMatrix : public LineMatrix<T, HackMatrix<T>> {
 public:
  // Of values in the precision of the vectors.
  HackView<T> row_view() const noexcept {
    return lines_.visit([&](const auto* values) {
      if constexpr (std::is_same_v<decltype(values), const T*>)
        return view_of(values);
      else
        return view_of(static_cast<const T*>(nullptr));
    });
  }
  template <class F>
  auto visit_view(F&& f) const {
    return lines_.visit([&](const auto* values) { return f(view_of(values)); });
  }

  CsrMatrix<T> to_csr() const override {
    return visit_view([&](const auto& view) {
      return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), view);
    });
  }
  // Faster than through the row view, which reads all entries.
  void diagonal(VectorView<T> d) const override {
    lines_.visit([&](const auto* values) {
      parallel(useful_parts(*this->context(), d.size), [&](int part, int parts) {
        const Range range = even_range(d.size, part, parts);
        for (std::int64_t r = range.begin; r < range.end; ++r) {
          const std::int64_t h = r / height_;
          const std::int32_t *first = off_.data() + ptr_[h], *last = off_.data() + ptr_[h + 1];
          const std::int32_t* found = std::lower_bound(first, last, 0);
          d.data[r] =
              found != last && *found == 0 ? T{values[(found - off_.data()) * height_ + r % height_]} : T(0);
        }
      });
    });
  }

 protected:
  explicit HackMatrix(const BuildRequest<T>& request)
      : HackMatrix(request, plan_of<Diagonals>(request.admission)) {}

  // One pass writes neighbouring values together; the row view would go from one diagonal to the next in each row.
  void do_update_values(const CsrMatrix<T>& csr) override {
    lines_.rewrite(this->float_values(), [&](auto* values) { write<false>(csr, values); });
  }

  std::size_t array_bytes() const noexcept { return lines_.bytes() + this->entries_.bytes() + off_.bytes(); }

  std::int64_t height_, bit_bytes_;
  Buffer<std::int64_t> ptr_;
  Buffer<std::int32_t> off_;
  StoredValues<T> lines_;  // in the place of values_

 private:
  HackMatrix(const BuildRequest<T>& request, const Diagonals& where)
      : LineMatrix<T, HackMatrix<T>>(request, 0, (where.height + 7) / 8 * where.count()),
        height_(where.height),
        bit_bytes_((where.height + 7) / 8),
        ptr_(request.context, static_cast<std::int64_t>(where.ptr.size())),
        off_(request.context, where.count()),
        lines_(request.context, where.height * where.count(), request.float_values) {
    this->borders_ = row_borders(this->rows(), height_, ptr_.size() - 1, this->parts_,
                                 [&](std::int64_t h) { return where.ptr[static_cast<std::size_t>(h)]; });
    std::copy(where.ptr.begin(), where.ptr.end(), ptr_.begin());
    copy_array(*request.context, where.off.data(), where.count(), off_.data());
    lines_.visit([&](auto* values) { write<true>(request.csr, values); });
  }

  template <class V>
  HackView<V> view_of(const V* values) const noexcept {
    HackView<V> view{};
    view.values = values, view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = height_, view.hacks = ptr_.size() - 1, view.bit_bytes = bit_bytes_;
    view.ptr = ptr_.data(), view.off = off_.data();
    return view;
  }

  // A piece of every diagonal, for some rows, is first written to a small array, and then copied as a whole.
  // The diagonals lie far apart, often at multiples of a page, and are too many for the hardware to prefetch
  // their next lines.
  template <bool structure, class V>
  void write(const CsrMatrix<T>& csr, V* const to) {
    constexpr std::int64_t byte = 8, piece = 4 * byte;
    csr.pattern.row_ptr.visit([&](auto* row_ptr) {
      parallel(static_cast<int>(this->borders_.size()) - 1, [&](int part, int) {
        // Local copies of the pointers: a store of a byte may alias anything, so the compiler would load
        // members again after every one.
        const std::int32_t *const off = off_.data(), *const col = csr.pattern.col;
        const T* const from = csr.values;
        std::uint8_t* const entries = this->entries_.data();
        const std::int64_t stride = height_, bit_stride = bit_bytes_, rows = this->rows(),
                           stop = this->borders_[part + 1];
        // place[offset]: the number of that diagonal in its hack. It is written before it is read.
        const auto places =
            std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(rows + this->cols()));
        std::int32_t* const place = places.get() + rows;
        std::vector<V> pieces;             // diagonal d begins at d * piece
        std::vector<std::uint8_t> packed;  // their entry bits
        for (std::int64_t r = this->borders_[part]; r < stop;) {
          const std::int64_t h = r / stride, top = h * stride, first = ptr_[h], count = ptr_[h + 1] - first;
          for (std::int64_t d = 0; d < count; ++d) place[off[first + d]] = static_cast<std::int32_t>(d);
          pieces.resize(static_cast<std::size_t>(count * piece));
          packed.resize(static_cast<std::size_t>(count * piece / byte));
          // Rows that the last hack lacks, when it is incomplete, are written as empty rows.
          const std::int64_t last = stop == rows ? stride : std::min(stride, stop - top);
          for (std::int64_t i = r - top; i < last; i += piece) {
            const std::int64_t tall = std::min(piece, last - i);
            for (std::int64_t j = 0; j < tall; j += byte) {
              V* const line = behind(pieces.data(), j);
              std::uint8_t* const bits = behind(packed.data(), j / byte);
              const std::int64_t row = top + i + j, filled = std::min({byte, tall - j, rows - row});
              if (filled == byte && row_ptr[row + byte] - row_ptr[row] == byte * count) {
                // Every row has an entry on every diagonal: no place has to be looked up.
                const T* const source = from + row_ptr[row];
                for (std::int64_t d = 0; d < count; ++d) {
                  for (std::int64_t g = 0; g < byte; ++g)
                    line[d * piece + g] = static_cast<V>(source[g * count + d]);
                  if constexpr (structure) bits[d * (piece / byte)] = 255;
                }
                continue;
              }
              for (std::int64_t d = 0; d < count; ++d) {
                std::fill_n(line + d * piece, byte, V(0));
                if constexpr (structure) bits[d * (piece / byte)] = 0;
              }
              for (std::int64_t g = 0; g < filled; ++g)
                for (std::int64_t k = row_ptr[row + g], end = row_ptr[row + g + 1]; k < end; ++k) {
                  const std::int64_t d = place[col[k] - row - g];
                  line[d * piece + g] = static_cast<V>(from[k]);
                  if constexpr (structure) bits[d * (piece / byte)] |= static_cast<std::uint8_t>(1u << g);
                }
            }
            for (std::int64_t d = 0; d < count; ++d) {
              std::copy_n(pieces.data() + d * piece, tall, to + (first + d) * stride + i);
              if constexpr (structure)
                std::copy_n(packed.data() + d * (piece / byte), (tall + byte - 1) / byte,
                            entries + (first + d) * bit_stride + i / byte);
            }
          }
          r = std::min(top + stride, stop);
        }
      });
    });
  }
};

}  // namespace protean::formats
