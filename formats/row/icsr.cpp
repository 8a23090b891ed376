// ICSR: csr whose rows begin at multiples of `align`, padded with zeros.
//
//        | 1 . 2 . |     align = 4
//    A = | . 3 . . |     row_ptr = 0 4 8 8 12
//        | . . . . |     col     = 0 2 2 2 | 1 1 1 1 | | 0 1 3 3
//        | 4 5 . 6 |     values  = 1 2 . . | 3 . . . | | 4 5 6 .        (. is a stored 0)
//
// Arrays:
//   row_ptr  [rows + 1] int64: multiples of align; the last one is the number of slots. Empty rows take no slots.
//   col      [slots] int32: ascending within a row; padding repeats the last column of its row.
//   values   [slots]: 0 in padding.
// Bytes: (v + 4) slots + 8 (rows + 1), with v bytes a value; slots is the sum of the row lengths, each rounded up to a
//   multiple of align.
// Parameters:
//   align     the length of a row is rounded up to a multiple of it; 32 values of 4 bytes fill a cache line of a GPU.
//   max_fill  the most slots per entry.
//   On a GPU also T, the number of threads per row.
// Wins: on a GPU, when the lengths of most rows are close to a multiple of align: each load of a warp is one whole
//   line. On a host no row has a remainder that is added entry by entry.
// Refuses: when slots > max_fill nonzeros.
// Source: M. Yang, C. Sun, Z. Li, D. Cao, An improved sparse matrix-vector multiplication kernel for solving modified
//   equation in large scale power flow calculation on CUDA, IPEMC 2012, 2028-2031.
//
// Padding reads the entry of x that the last entry of its row reads, so NaN reaches no other row; an infinite x there
// makes NaN of an infinite sum.
#include <algorithm>

#include "formats/engines/rows/aligned_rows.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class Icsr final : public RowViewMatrix<T, Icsr<T>>, public HasApplyDot<T> {
 public:
  explicit Icsr(const BuildRequest<T>& request)
      : RowViewMatrix<T, Icsr>(request),
        row_ptr_(request.context, request.csr.rows() + 1),
        col_(request.context, request.admission.stored_values),
        values_(request.context, request.admission.stored_values) {
    const CsrMatrix<T>& csr = request.csr;
    const std::int64_t align = request.params.integer("align");
    row_ptr_[0] = 0;
    for (std::int64_t r = 0; r < csr.rows(); ++r)
      row_ptr_[r + 1] = row_ptr_[r] + aligned_length(csr.pattern.row_length(r), align);
    SparsityPattern padded = csr.pattern;
    padded.nonzeros = values_.size(), padded.row_ptr = {nullptr, row_ptr_.data()}, padded.col = col_.data();
    shares_ = shares_of_whole_rows(padded, useful_parts(*request.context, padded.nonzeros + padded.rows));
    parallel(static_cast<int>(shares_.size()), [&](int part, int) {
      for (std::int64_t r = shares_[part].row_begin; r < shares_[part].row_end; ++r) {
        const std::int64_t from = csr.pattern.row_ptr[r], length = csr.pattern.row_length(r);
        for (std::int64_t k = row_ptr_[r], i = 0; k < row_ptr_[r + 1]; ++k, ++i) {
          col_[k] = csr.pattern.col[from + std::min(i, length - 1)];
          values_[k] = i < length ? csr.values[from + i] : T(0);
        }
      }
    });
  }

  std::size_t bytes() const noexcept override { return row_ptr_.bytes() + col_.bytes() + values_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("row_ptr", row_ptr_), layout_array("col", col_), layout_array("values", values_)};
  }
  AlignedRows<T> row_view() const { return {values_.data(), col_.data(), row_ptr_.data(), this->rows()}; }
  T* mutable_values() { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const { run(alpha, x, beta, y, false); }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x.data, T(0), y.data, true);
  }

 private:
  T run(T alpha, const T* x, T beta, T* y, bool with_dot) const {
    const RowsWork<T, std::int64_t> work{row_ptr_.data(), col_.data(), values_.data(), alpha, x, beta, y,
                                         false,           true};
    return run_shares(work, this->rows(), shares_, with_dot);
  }

  Buffer<std::int64_t> row_ptr_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
  std::vector<RowShare> shares_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const std::int64_t align = params.integer("align");
  std::int64_t slots = 0;
  for (std::int64_t r = 0; r < pattern.rows; ++r) slots += aligned_length(pattern.row_length(r), align);
  return admit_aligned(pattern, params, slots, value_bytes);
}

constexpr ParamDoc params[] = {{.name = "align",
                                .doc = "the length of a row is rounded up to a multiple of this",
                                .default_value = "32",
                                .choices = "1|2|4|8|16|32|64"},
                               {.name = "max_fill",
                                .doc = "the format refuses more stored values per entry than this",
                                .default_value = "10",
                                .smallest = 1,
                                .largest = 1'000'000}};

constexpr Kernel kernels[] = {native_host_kernel<Icsr>(Sums::ordered)};

}  // namespace

Admission admit_aligned(const SparsityPattern& pattern, const FormatParams& params, std::int64_t slots,
                        std::size_t value_bytes) {
  const std::size_t bytes = aligned_bytes(pattern.rows, slots, value_bytes);
  if (auto reason = too_much_fill(slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, slots);
  return Admission::accept(bytes, slots);
}

constinit const FormatEntry entries::icsr{.family = "row",
                                          .id = "icsr",
                                          .title = "csr with rows padded to aligned ones",
                                          .source = "Yang, Sun, Li, Cao, IPEMC 2012",
                                          .traits = {},
                                          .params = params,
                                          .kernels = kernels,
                                          .admit = admit,
                                          .device = &device_code::icsr};

}  // namespace protean::formats
