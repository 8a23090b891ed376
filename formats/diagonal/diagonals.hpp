// Common to diagonal and hacked diagonal storage on the host: hacks of consecutive rows, each with its own
// list of diagonals; dia is one hack of all rows. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/host_support.hpp"

namespace protean::formats {

// y := alpha A x + beta y on rows [begin, end). Row r lies in hack h = r / height. Its value on diagonal d of
// the hack is values[(ptr[h] + d) * height + r % height]; the column is r + off[ptr[h] + d].
template <class T>
struct DiagonalProduct {
  const T* values;
  const std::int32_t* off;  // ascending inside a hack
  const std::int64_t* ptr;
  std::int64_t height, rows, cols;
  T alpha, beta;  // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;  // return the sum of x[row] * y[row], else 0
  // Add as in deterministic mode: fused, nothing where there is no entry, no dot product. Bit i % 8 of byte i
  // / 8 of diagonal d, of bit_bytes each, is 1 where its value i is an entry.
  bool ordered;
  const std::uint8_t* entries;
  std::int64_t bit_bytes;
};

// begin and end are multiples of the height or the number of rows; with one hack they are any rows.
double diagonal_product(const DiagonalProduct<double>& product, std::int64_t begin, std::int64_t end);
float diagonal_product(const DiagonalProduct<float>& product, std::int64_t begin, std::int64_t end);

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

// Bytes of values, offsets and entry bits of `diagonals` diagonals of `height` rows.
inline std::size_t diagonal_bytes(std::int64_t diagonals, std::int64_t height, std::size_t value_bytes) {
  return static_cast<std::size_t>(diagonals) *
         (static_cast<std::size_t>(height) * value_bytes + 4 + static_cast<std::size_t>((height + 7) / 8));
}

// The rows of each part: whole hacks, so that all parts have nearly the same number of diagonals. A single
// hack is cut into equal pieces.
inline std::vector<std::int64_t> row_borders(const Diagonals& where, std::int64_t rows, int parts) {
  std::vector<std::int64_t> borders(static_cast<std::size_t>(parts) + 1, rows);
  const std::int64_t hacks = static_cast<std::int64_t>(where.ptr.size()) - 1;
  for (int part = 0; part < parts; ++part) {
    if (hacks <= 1) {
      borders[part] = even_range(rows, part, parts, 512).begin;
      continue;
    }
    const std::int64_t share = where.count() / parts * part;
    const std::int64_t hack = std::lower_bound(where.ptr.begin(), where.ptr.end(), share) - where.ptr.begin();
    borders[part] = std::min(rows, hack * where.height);  // the last hack may be incomplete
  }
  borders[0] = 0;
  return borders;
}

template <class T>
class DiagonalMatrix : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  CsrMatrix<T> to_csr() const override {
    const auto visit = [&](std::int64_t r, auto entry) {
      const std::int64_t h = r / height(), i = r % height();
      for (std::int64_t d = ptr_[h]; d < ptr_[h + 1]; ++d)
        if (entries_[d * bit_bytes_ + i / 8] >> (i % 8) & 1)
          entry(static_cast<std::int32_t>(r + off_[d]), values_[d * height() + i]);
    };
    return csr_from_rows<T>(
        this->context(), this->rows(), this->cols(), this->nonzeros(),
        [&](std::int64_t r) {
          std::int64_t count = 0;
          visit(r, [&](std::int32_t, T) { ++count; });
          return count;
        },
        [&](std::int64_t r, std::int64_t first, CsrBuilder<T>& builder) {
          visit(r, [&](std::int32_t col, T value) {
            builder.col()[first] = col, builder.values()[first++] = value;
          });
        });
  }

  void diagonal(VectorView<T> d) const override {
    parallel(useful_parts(*this->context(), d.size), [&](int part, int parts) {
      const Range range = even_range(d.size, part, parts);
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        const std::int64_t h = r / height();
        const std::int32_t *first = off_.data() + ptr_[h], *last = off_.data() + ptr_[h + 1];
        const std::int32_t* found = std::lower_bound(first, last, 0);
        d.data[r] =
            found != last && *found == 0 ? values_[(found - off_.data()) * height() + r % height()] : T(0);
      }
    });
  }

 protected:
  explicit DiagonalMatrix(const BuildRequest<T>& request)
      : DiagonalMatrix(request, plan_of<Diagonals>(request.admission)) {}

  void do_update_values(const CsrMatrix<T>& csr) override { write<false>(csr); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

  std::size_t array_bytes() const noexcept { return values_.bytes() + off_.bytes() + entries_.bytes(); }
  std::int64_t height() const noexcept { return height_; }

  std::int64_t height_, bit_bytes_;
  Buffer<std::int64_t> ptr_;
  Buffer<std::int32_t> off_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;

 private:
  DiagonalMatrix(const BuildRequest<T>& request, const Diagonals& where)
      : AssembledMatrix<T>(request),
        height_(where.height),
        bit_bytes_((where.height + 7) / 8),
        ptr_(request.context, static_cast<std::int64_t>(where.ptr.size())),
        off_(request.context, where.count()),
        values_(request.context, where.height * where.count()),
        entries_(request.context, bit_bytes_ * where.count()),
        borders_(row_borders(where, this->rows(),
                             useful_parts(*request.context, this->nonzeros() + this->rows()))) {
    std::copy(where.ptr.begin(), where.ptr.end(), ptr_.begin());
    copy_array(*request.context, where.off.data(), where.count(), off_.data());
    write<true>(request.csr);
  }

  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    const DiagonalProduct<T> product{
        values_.data(),  off_.data(), ptr_.data(), height(), this->rows(), this->cols(),
        alpha,           beta,        x.data,      y.data,   with_dot,     this->context()->deterministic(),
        entries_.data(), bit_bytes_};
    const int parts = static_cast<int>(borders_.size()) - 1;
    PartialSums<T> sums(parts);
    parallel(parts, [&](int part, int) {
      sums[part] = diagonal_product(product, borders_[part], borders_[part + 1]);
    });
    return sums.total();
  }

  // A piece of every diagonal, for some rows, is first written to a small array, and then copied as a whole.
  // The diagonals lie far apart, often at multiples of a page, and are too many for the hardware to prefetch
  // their next lines.
  template <bool structure>
  void write(const CsrMatrix<T>& csr) {
    constexpr std::int64_t byte = 8, piece = 4 * byte;
    csr.pattern.row_ptr.visit([&](auto* row_ptr) {
      parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
        // Local copies of the pointers: a store of a byte may alias anything, so the compiler would load
        // members again after every one.
        const std::int32_t *const off = off_.data(), *const col = csr.pattern.col;
        const T* const from = csr.values;
        T* const to = values_.data();
        std::uint8_t* const entries = entries_.data();
        const std::int64_t stride = height_, bit_stride = bit_bytes_, rows = this->rows(),
                           stop = borders_[part + 1];
        // place[offset]: the number of that diagonal in its hack. It is written before it is read.
        const auto places =
            std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(rows + this->cols()));
        std::int32_t* const place = places.get() + rows;
        std::vector<T> pieces;             // diagonal d begins at d * piece
        std::vector<std::uint8_t> packed;  // their entry bits
        for (std::int64_t r = borders_[part]; r < stop;) {
          const std::int64_t h = r / stride, top = h * stride, first = ptr_[h], count = ptr_[h + 1] - first;
          for (std::int64_t d = 0; d < count; ++d) place[off[first + d]] = static_cast<std::int32_t>(d);
          pieces.resize(static_cast<std::size_t>(count * piece));
          packed.resize(static_cast<std::size_t>(count * piece / byte));
          // Rows that the last hack lacks, when it is incomplete, are written as empty rows.
          const std::int64_t last = stop == rows ? stride : std::min(stride, stop - top);
          for (std::int64_t i = r - top; i < last; i += piece) {
            const std::int64_t tall = std::min(piece, last - i);
            for (std::int64_t j = 0; j < tall; j += byte) {
              T* const line = pieces.data() + j;
              std::uint8_t* const bits = packed.data() + j / byte;
              const std::int64_t row = top + i + j, filled = std::min({byte, tall - j, rows - row});
              if (filled == byte && row_ptr[row + byte] - row_ptr[row] == byte * count) {
                // Every row has an entry on every diagonal: no place has to be looked up.
                const T* const source = from + row_ptr[row];
                for (std::int64_t d = 0; d < count; ++d) {
                  for (std::int64_t g = 0; g < byte; ++g) line[d * piece + g] = source[g * count + d];
                  if constexpr (structure) bits[d * (piece / byte)] = 255;
                }
                continue;
              }
              for (std::int64_t d = 0; d < count; ++d) {
                std::fill_n(line + d * piece, byte, T(0));
                if constexpr (structure) bits[d * (piece / byte)] = 0;
              }
              for (std::int64_t g = 0; g < filled; ++g)
                for (std::int64_t k = row_ptr[row + g], end = row_ptr[row + g + 1]; k < end; ++k) {
                  const std::int64_t d = place[col[k] - row - g];
                  line[d * piece + g] = from[k];
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

  std::vector<std::int64_t> borders_;
};

}  // namespace protean::formats
