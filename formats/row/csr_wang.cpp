// CSR with the lengths of the rows in place of row pointers, after Wang et al.
//
//        | 1 . 2 . |     length    = 2 1 0             of rows 0, 1, 2; row 3 ends where its group ends
//    A = | . 3 . . |     group_ptr = 0 6               every 32nd row pointer
//        | . . . . |     col       = 0 2 | 1 | | 0 1 3   as in csr
//        | 4 5 . 6 |     values    = 1 2 | 3 | | 4 5 6
//
// Arrays:
//   length     [rows - groups] uint16, or uint32 when a row has 65536 entries or more: the entries of each row, except
//              the last one of every 32 rows and of the matrix; groups = rows / 32, rounded up.
//   group_ptr  [groups + 1] int32 or int64, as the source: the first entry of every 32 rows, and nnz.
//   col        [nnz] int32: as in csr.
//   values     [nnz].
// Bytes: (v + 4) nnz + l (rows - groups) + p (groups + 1), with v bytes a value, l = 2 or 4 bytes a length and p = 4 or
//   8 bytes a row pointer. Never more than csr.
// Parameters: none.
// Wins: when rows have one or two entries, whose pointers are a large share of what csr reads: here they are about 2
//   bytes a row. On a GPU as many threads as slightly more than the mean length compute a row.
// Refuses: never.
// Source: Z. Wang, X. Xu, W. Zhao, Y. Zhang, S. He, Optimizing sparse matrix-vector multiplication on CUDA, ICETC 2010,
//   109-113. It changes csr so that less is sent to the device; lengths are our reading of it. The number of threads is
//   the smallest power of two that is at least the mean length + 1.
#include "formats/engines/rows/rows.hpp"
#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

template <class T>
class CsrWang final : public RowViewMatrix<T, CsrWang<T>> {
 public:
  explicit CsrWang(const BuildRequest<T>& request)
      : RowViewMatrix<T, CsrWang<T>>(request),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()),
        borders_(balanced_row_borders(
            request.csr.pattern, useful_parts(*request.context, request.csr.nonzeros() + request.csr.rows()),
            wang_group)),
        prefetch_(worth_prefetching(request.csr.pattern, sizeof(T))) {
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t groups = wang_groups(pattern.rows), lengths = wang_lengths(pattern.rows);
    if (plan_of<WangPlan>(request.admission).narrow)
      narrow_ = Buffer<std::uint16_t>(request.context, lengths);
    else
      wide_ = Buffer<std::uint32_t>(request.context, lengths);
    pattern.row_ptr.visit([&]<class P>(const P* row_ptr) {
      if constexpr (sizeof(P) == 4)
        group32_ = Buffer<P>(request.context, groups + 1), point(row_ptr, group32_.data());
      else
        group64_ = Buffer<P>(request.context, groups + 1), point(row_ptr, group64_.data());
    });
    copy(pattern.col, col_.data());
    copy(request.csr.values, values_.data());
  }

  std::size_t bytes() const noexcept override {
    return col_.bytes() + values_.bytes() + narrow_.bytes() + wide_.bytes() + group32_.bytes() +
           group64_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {wide_.empty() ? layout_array("length", narrow_) : layout_array("length", wide_),
            group64_.empty() ? layout_array("group_ptr", group32_) : layout_array("group_ptr", group64_),
            layout_array("col", col_), layout_array("values", values_)};
  }
  WangView<T> row_view() const {
    return {values_.data(),
            col_.data(),
            group64_.empty() ? group32_.data() : nullptr,
            group64_.empty() ? nullptr : group64_.data(),
            wide_.empty() ? narrow_.data() : nullptr,
            wide_.empty() ? nullptr : wide_.data(),
            this->rows()};
  }
  T* mutable_values() { return values_.data(); }

  // The row pointers of some groups are made again from the lengths, on the stack.
  void multiply(T alpha, const T* x, T beta, T* y) const {
    constexpr std::int64_t strip = 8 * wang_group;
    const WangView<T> a = row_view();
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      std::int64_t row_ptr[strip + 1];
      for (std::int64_t first = borders_[part]; first < borders_[part + 1]; first += strip) {
        const std::int64_t rows = std::min(strip, borders_[part + 1] - first);
        for (std::int64_t begin = 0; begin < rows; begin += wang_group) {
          const std::int64_t g = (first + begin) / wang_group, here = std::min(wang_group, rows - begin);
          row_ptr[begin] = a.group(g);
          for (std::int64_t i = 0; i + 1 < here; ++i)
            row_ptr[begin + i + 1] = row_ptr[begin + i] + a.stored(g, i);
          row_ptr[begin + here] = a.group(g + 1);
        }
        const RowsWork<T, std::int64_t> work{row_ptr, a.col,     a.values, alpha,    x,
                                             beta,    y + first, false,    prefetch_};
        rows_product(work, RowShare{0, rows, row_ptr[0], row_ptr[rows]}, false);
      }
    });
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { copy(csr.values, values_.data()); }

 private:
  template <class P>
  void point(const P* row_ptr, P* group_ptr) {
    const std::int64_t rows = this->rows(), groups = wang_groups(rows);
    for (std::int64_t g = 0; g <= groups; ++g) group_ptr[g] = row_ptr[std::min(rows, g * wang_group)];
    for (std::int64_t r = 0; r < rows; ++r) {
      if (r % wang_group == wang_group - 1 || r + 1 == rows) continue;
      const std::int64_t at = r - r / wang_group, length = row_ptr[r + 1] - row_ptr[r];
      if (wide_.empty())
        narrow_[at] = static_cast<std::uint16_t>(length);
      else
        wide_[at] = static_cast<std::uint32_t>(length);
    }
  }
  template <class N>
  void copy(const N* from, N* to) const {
    parallel(useful_parts(*this->context(), this->nonzeros()), [&](int part, int parts) {
      const Range range = even_range(this->nonzeros(), part, parts);
      std::copy(from + range.begin, from + range.end, to + range.begin);
    });
  }

  Buffer<std::int32_t> col_, group32_;
  Buffer<std::int64_t> group64_;
  Buffer<T> values_;
  Buffer<std::uint16_t> narrow_;
  Buffer<std::uint32_t> wide_;
  std::vector<std::int64_t> borders_;
  bool prefetch_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return admit_wang(pattern, longest_row(context, pattern), value_bytes);
}

constexpr Kernel kernels[] = {native_host_kernel<CsrWang>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::csr_wang{.family = "row",
                                              .id = "csr-wang",
                                              .title = "csr with row lengths in place of pointers",
                                              .source = "Wang, Xu, Zhao, Zhang, He, ICETC 2010",
                                              .traits = {.unsorted_rows = true},
                                              .params = {},
                                              .kernels = kernels,
                                              .admit = admit,
                                              .device = &device_code::csr_wang};

}  // namespace protean::formats
