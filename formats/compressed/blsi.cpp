// BLSI, bit-level single indexing: coordinates that keep row and column of an entry in one integer.
//
//        | 1 . 2 . |     row      = 0  0  1  3  3  3     two bits
//    A = | . 3 . . |     col      = 0  2  1  0  1  3     two bits
//        | . . . . |     index    = 0  2  5 12 13 15     4 row + col
//        | 4 5 . 6 |     values   = 1  2  3  4  5  6
//
// Arrays:
//   index   [nnz] uint32 if bits(rows) + bits(cols) <= 32, else uint64: row << bits(cols) | col, ascending. bits(n) is
//           the number of bits of n - 1.
//   values  [nnz].
//   On a GPU also, for each segment of 512 entries, carry_row int32 and carry_value, as in coo-segmented.
// Bytes: (v + 4) nnz or (v + 8) nnz, with v bytes a value; on a GPU (v + 4) segments more.
// Parameters: none.
// Wins: for a few products with a new matrix: the conversion is one pass, and little is transferred. For many products
//   csr is better, since it needs fewer bytes unless most rows are empty.
// Refuses: when bits(rows) + bits(cols) > 64. Matrices of this library have at most 62.
// Source: B. Neelima, S. R. Prakash, R. M. Reddy, New sparse matrix storage format to improve the performance of total
//   SpMV time, Scalable Computing: Practice and Experience 13 (2012), 159-171.
//
// The products work as in coo: equal numbers of entries for each thread on the host; segments with carries on a GPU
// (engines/runs/coo_segments.cuh), which decode an index by a shift and a mask.
#include "formats/compressed/blsi.hpp"

#include "formats/engines/runs/runs.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T, class Word>
class Blsi final : public RowViewMatrix<T, Blsi<T, Word>> {
 public:
  explicit Blsi(const BuildRequest<T>& request)
      : RowViewMatrix<T, Blsi<T, Word>>(request),
        index_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const auto borders =
        balanced_row_borders(pattern, useful_parts(*request.context, pattern.nonzeros + pattern.rows));
    const PackedEntries<T, Word> entries = row_view();
    parallel(static_cast<int>(borders.size()) - 1, [&](int part, int) {
      for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r)
        for (std::int64_t k = pattern.row_ptr[r], end = pattern.row_ptr[r + 1]; k < end; ++k)
          index_[k] = entries.packed(r, pattern.col[k]);
    });
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override { return index_.bytes() + values_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("index", index_), layout_array("values", values_)};
  }
  PackedEntries<T, Word> row_view() const {
    return {values_.data(), index_.data(), this->rows(), values_.size(), bits_below(this->cols())};
  }
  T* mutable_values() { return values_.data(); }

  void multiply(T alpha, const T* x, T beta, T* y) const {
    const PackedEntries<T, Word> a = row_view();
    if (a.size == 0) {
      for (std::int64_t r = 0; r < a.rows; ++r) store(alpha, T(0), beta, y[r]);
      return;
    }
    const int parts = useful_parts(*this->context(), a.size + a.rows);
    PartialSums<RowCarry<T>> carries(parts);
    parallel(parts, [&](int part, int) {
      const Range range = even_range(a.size, part, parts);
      if (range.size() == 0) return;
      const std::int64_t row = a.row_of(a.index[range.begin]);
      const std::int64_t before = range.begin > 0 ? a.row_of(a.index[range.begin - 1]) : -1;
      RowSums<T> sums(alpha, beta, y, before + 1, row, before == row);
      const auto product = [&](std::int64_t k) { return a.values[k] * x[a.col_of(a.index[k])]; };
      for (std::int64_t k = range.begin; k < range.end;) {
        const std::int32_t r = a.row_of(a.index[k]);
        sums.begin(r);
        // Four sums at once, because an addition waits for the one before.
        T four[4] = {};
        for (; k + 4 <= range.end && a.row_of(a.index[k + 3]) == r; k += 4)
          for (int i = 0; i < 4; ++i) four[i] += product(k + i);
        sums.add((four[0] + four[1]) + (four[2] + four[3]));
        for (; k < range.end && a.row_of(a.index[k]) == r; ++k) sums.add(product(k));
      }
      carries[part] = sums.end(range.end == a.size ? a.rows : 0);
    });
    for (int part = 0; part < parts; ++part)
      if (carries[part].row >= 0) y[carries[part].row] += alpha * carries[part].sum;
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    copy_array(*this->context(), csr.values, csr.nonzeros(), values_.data());
  }

 private:
  Buffer<Word> index_;
  Buffer<T> values_;
};

template <class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  if (index_bits(request.csr.rows(), request.csr.cols()) <= 32)
    return std::make_unique<Blsi<T, std::uint32_t>>(request);
  return std::make_unique<Blsi<T, std::uint64_t>>(request);
}

}  // namespace

Admission admit_blsi(const Context&, const SparsityPattern& pattern, const FormatParams&,
                     std::size_t value_bytes) {
  const int bits = index_bits(pattern.rows, pattern.cols);
  if (bits > 64)
    return Admission::refuse(
        fmt::format("row and column need {} + {} bits; an index has at most 64. Take coo",
                    bits_below(pattern.rows), bits_below(pattern.cols)));
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + (bits <= 32 ? 4 : 8)),
                           pattern.nonzeros);
}

namespace {
constexpr Kernel kernels[] = {
    {.name = "native", .host = true, .make_f64 = make<double>, .make_f32 = make<float>, .ordered = true}};
}  // namespace

constinit const FormatEntry entries::blsi{.family = "compressed",
                                          .id = "blsi",
                                          .title = "Coordinates in one integer an entry",
                                          .source = "Neelima, Prakash, Reddy, SCPE 13, 2012",
                                          .traits = {.shares_rows = true},
                                          .params = {},
                                          .kernels = kernels,
                                          .admit = admit_blsi,
                                          .device = &device_code::blsi};

}  // namespace protean::formats
