// CMRS, compressed multi-row storage: the rows are grouped into strips of equal height with one pointer each, and each
// entry stores its row in the strip.
//
//        | 1 . 2 . |     height = 2 (rows 0 1 | 2 3)
//    A = | . 3 . . |     strip_ptr = 0 3 6
//        | . . . . |     packed    = 0 2 +1 | +0 +1 +3      (+ is the top bit: the second row of the strip)
//        | 4 5 . 6 |     values    = 1 2 3 | 4 5 6
//
// Arrays:
//   strip_ptr  [strips + 1] int64: number of entries before each strip; strips = ceil(rows / height).
//   packed     [nonzeros] uint32: the row in the strip in the top log2(height) bits, the column below. Entries of a
//              strip in the order of rows, columns ascending.
//   values     [nonzeros].
// Bytes: (v + 4) nonzeros + 8 (strips + 1), with v bytes a value: less than csr.
// Parameters:
//   height  rows in a strip, a power of two up to 16. 0 takes the smallest one with 128 entries a strip on average.
// Wins: on a GPU, for rows of 20 and more entries whose lengths vary: a warp takes the entries of all rows of a strip,
//   and neighbouring rows share the parts of x that they read.
// Refuses: when the columns leave too few bits for the row, cols > 2^32 / height.
// Source: Z. Koza, M. Matyka, S. Szkoda, L. Miroslaw, Compressed multirow storage format for sparse matrices on
//   graphics processing units, SIAM J. Sci. Comput. 36(2), C219-C239, 2014, doi:10.1137/120900216.
//
// The row in the strip could also be an array of bytes. It is packed into the column because only then does CMRS need
// no more memory than csr, as the authors claim; the width of the field is our reading. A matrix with more than 2^28
// columns takes a smaller height instead.
#include "formats/row/cmrs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class Cmrs final : public RowViewMatrix<T, Cmrs<T>> {
 public:
  explicit Cmrs(const BuildRequest<T>& request)
      : RowViewMatrix<T, Cmrs<T>>(request),
        height_bits_(cmrs_height_bits(request.csr.pattern, request.params)),
        strip_ptr_(request.context, cmrs_strips(request.csr.rows(), height_bits_) + 1),
        packed_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    for (std::int64_t s = 0; s < strip_ptr_.size(); ++s)
      strip_ptr_[s] = pattern.row_ptr[std::min(s << height_bits_, pattern.rows)];
    parallel(useful_parts(*request.context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
      const Range range = even_range(pattern.rows, part, parts);
      for (std::int64_t r = range.begin; r < range.end; ++r)
        for (std::int64_t k = pattern.row_ptr[r]; k < pattern.row_ptr[r + 1]; ++k)
          packed_[k] = CmrsView<T>::pack(pattern.col[k], r, height_bits_);
    });
    copy_array(*request.context, request.csr.values, pattern.nonzeros, values_.data());
  }

  std::size_t bytes() const noexcept override {
    return strip_ptr_.bytes() + packed_.bytes() + values_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("strip_ptr", strip_ptr_), layout_array("packed", packed_),
            layout_array("values", values_)};
  }
  CmrsView<T> row_view() const {
    return {values_.data(), packed_.data(), strip_ptr_.data(), this->rows(), height_bits_};
  }
  T* mutable_values() { return values_.data(); }

  // A thread has whole strips, nearly the same number of rows + entries each.
  void multiply(T alpha, const T* x, T beta, T* y) const {
    const CmrsView<T> a = row_view();
    const std::int64_t strips = strip_ptr_.size() - 1, height = std::int64_t{1} << height_bits_;
    const std::int64_t work = this->nonzeros() + this->rows();
    parallel(useful_parts(*this->context(), work), [&](int part, int parts) {
      const auto border = [&](int p) {
        const std::int64_t share = even_range(work, p, parts).begin;
        const auto* first = std::partition_point(
            a.strip_ptr, a.strip_ptr + strips,
            [&](const std::int64_t& at) { return at + (&at - a.strip_ptr) * height < share; });
        return p == parts ? strips : first - a.strip_ptr;
      };
      for (std::int64_t s = border(part), end = border(part + 1); s < end; ++s) {
        T sums[16] = {};
        for (std::int64_t k = a.strip_ptr[s]; k < a.strip_ptr[s + 1]; ++k)
          sums[a.row_in_strip(a.packed[k])] += a.values[k] * x[a.col(a.packed[k])];
        for (std::int64_t r = s * height; r < std::min(this->rows(), (s + 1) * height); ++r)
          store(alpha, sums[r - s * height], beta, y[r]);
      }
    });
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    copy_array(*this->context(), csr.values, csr.nonzeros(), values_.data());
  }

 private:
  int height_bits_;
  Buffer<std::int64_t> strip_ptr_;
  Buffer<std::uint32_t> packed_;
  Buffer<T> values_;
};

constexpr ParamDoc params[] = {{.name = "height",
                                .doc = "rows in a strip; 0: the smallest number with 128 entries per strip",
                                .default_value = "0",
                                .choices = "0|1|2|4|8|16"}};

constexpr Kernel kernels[] = {native_host_kernel<Cmrs>(Sums::ordered)};

}  // namespace

Admission admit_cmrs(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                     std::size_t value_bytes) {
  const int bits = cmrs_height_bits(pattern, params);
  if (pattern.cols > std::int64_t{1} << (32 - bits))
    return Admission::refuse(fmt::format(
        "{} columns leave no {} bits of an index for the row in a strip; set height to {} or less",
        pattern.cols, bits, std::int64_t{1} << (bits - 1)));
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
                               static_cast<std::size_t>(cmrs_strips(pattern.rows, bits) + 1) * 8,
                           pattern.nonzeros);
}

constinit const FormatEntry entries::cmrs{
    .family = "row",
    .id = "cmrs",
    .title = "Compressed multi-row storage: strips of rows",
    .source = "Koza, Matyka, Szkoda, Miroslaw, SIAM J. Sci. Comput. 36(2), 2014",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_cmrs,
    .device = &device_code::cmrs};

}  // namespace protean::formats
