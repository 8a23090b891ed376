// What diagonal and hacked diagonal storage share on the host: hacks of consecutive rows, each with its own
// list of diagonals; dia is one hack of all rows. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "formats/host_support.hpp"

namespace protean::formats {

// y := alpha A x + beta y on rows [begin, end). Row r of hack h = r / height lies at
// values[(ptr[h] + d) * height + r % height] for diagonal d of the hack, whose columns are r + off[ptr[h] +
// d].
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
};

// begin and end are multiples of the height, or there is one hack.
double diagonal_product(const DiagonalProduct<double>& product, std::int64_t begin, std::int64_t end);
float diagonal_product(const DiagonalProduct<float>& product, std::int64_t begin, std::int64_t end);

// Where the diagonals are: those of hack h are off[ptr[h]] .. off[ptr[h+1] - 1].
struct Diagonals {
  std::int64_t height = 0;
  Buffer<std::int64_t> ptr;
  Buffer<std::int32_t> off;
};

inline std::int64_t hack_count(std::int64_t rows, std::int64_t height) {
  return height > 0 ? (rows + height - 1) / height : 0;
}

// Bytes of values, offsets and entry bits of `diagonals` diagonals of `height` rows.
inline std::size_t diagonal_bytes(std::int64_t diagonals, std::int64_t height, std::size_t value_bytes) {
  return static_cast<std::size_t>(diagonals) *
         (static_cast<std::size_t>(height) * value_bytes + 4 + static_cast<std::size_t>((height + 7) / 8));
}

// Rows of each part. Whole hacks, so that parts have nearly the same number of diagonals; a single hack is
// cut into equal pieces.
inline std::vector<std::int64_t> row_borders(const Diagonals& where, std::int64_t rows, int parts) {
  std::vector<std::int64_t> borders(static_cast<std::size_t>(parts) + 1, rows);
  const std::int64_t hacks = where.ptr.size() - 1;
  for (int part = 0; part < parts; ++part) {
    if (hacks <= 1) {
      borders[part] = even_range(rows, part, parts, 512).begin;
      continue;
    }
    const std::int64_t share = where.ptr[hacks] / parts * part;
    borders[part] =
        (std::lower_bound(where.ptr.begin(), where.ptr.end(), share) - where.ptr.begin()) * where.height;
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
      for (std::int64_t d = where_.ptr[h]; d < where_.ptr[h + 1]; ++d)
        if (entries_[d * bit_bytes_ + i / 8] >> (i % 8) & 1)
          entry(static_cast<std::int32_t>(r + where_.off[d]), values_[d * height() + i]);
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
        const std::int32_t *first = where_.off.data() + where_.ptr[h],
                           *last = where_.off.data() + where_.ptr[h + 1];
        const std::int32_t* found = std::lower_bound(first, last, 0);
        d.data[r] = found != last && *found == 0
                        ? values_[(found - where_.off.data()) * height() + r % height()]
                        : T(0);
      }
    });
  }

 protected:
  DiagonalMatrix(const BuildRequest<T>& request, Diagonals where)
      : AssembledMatrix<T>(request),
        where_(std::move(where)),
        bit_bytes_((where_.height + 7) / 8),
        values_(request.context, where_.height * where_.off.size()),
        entries_(request.context, bit_bytes_ * where_.off.size()),
        borders_(row_borders(where_, this->rows(),
                             useful_parts(*request.context, this->nonzeros() + this->rows()))) {
    write(request.csr);
  }

  void do_update_values(const CsrMatrix<T>& csr) override { write(csr); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

  std::size_t array_bytes() const noexcept { return values_.bytes() + where_.off.bytes() + entries_.bytes(); }
  std::int64_t height() const noexcept { return where_.height; }

  Diagonals where_;
  std::int64_t bit_bytes_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;

 private:
  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    const DiagonalProduct<T> product{values_.data(),
                                     where_.off.data(),
                                     where_.ptr.data(),
                                     height(),
                                     this->rows(),
                                     this->cols(),
                                     alpha,
                                     beta,
                                     x.data,
                                     y.data,
                                     with_dot};
    const int parts = static_cast<int>(borders_.size()) - 1;
    PartialSums<T> sums(parts);
    parallel(parts, [&](int part, int) {
      sums[part] = diagonal_product(product, borders_[part], borders_[part + 1]);
    });
    return sums.total();
  }

  // Eight rows at once, one byte of entry bits for each diagonal. Both a row's columns and the offsets
  // ascend, so one walk over the offsets meets all entries of a row; the limit on fill keeps the walk short.
  void write(const CsrMatrix<T>& csr) {
    // Plain pointers: bytes may alias anything, members would be read again after every store of one.
    const std::int32_t *const off = where_.off.data(), *const col = csr.pattern.col;
    const T* const from = csr.values;
    T* const to = values_.data();
    std::uint8_t* const entries = entries_.data();
    const std::int64_t stride = height(), bit_stride = bit_bytes_, rows = this->rows();
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      std::vector<std::uint8_t> found;
      for (std::int64_t r = borders_[part]; r < borders_[part + 1];) {
        const std::int64_t h = r / stride, top = h * stride, first = where_.ptr[h],
                           count = where_.ptr[h + 1] - first;
        // Rows that a last, incomplete hack lacks are written as empty ones.
        for (std::int64_t i = r - top;
             i < stride && (top + i < borders_[part + 1] || borders_[part + 1] == rows);) {
          found.assign(static_cast<std::size_t>(count), 0);
          std::uint8_t* const bits = found.data();
          const std::int64_t byte = i / 8;
          for (unsigned bit = 0; bit < 8 && i < stride; ++bit, ++i) {
            const std::int64_t row = top + i;
            std::int64_t k = row < rows ? csr.pattern.row_ptr[row] : 0;
            const std::int64_t stop = row < rows ? csr.pattern.row_ptr[row + 1] : 0;
            T* const slot = to + first * stride + i;
            for (std::int64_t d = 0; d < count; ++d) {
              T value = 0;
              if (k < stop && col[k] - row == off[first + d])
                value = from[k++], bits[d] |= static_cast<std::uint8_t>(1u << bit);
              slot[d * stride] = value;
            }
          }
          for (std::int64_t d = 0; d < count; ++d) entries[(first + d) * bit_stride + byte] = bits[d];
        }
        r = std::min(top + stride, borders_[part + 1]);
      }
    });
  }

  std::vector<std::int64_t> borders_;
};

}  // namespace protean::formats
