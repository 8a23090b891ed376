// CSR with the lengths of the rows in place of row pointers, after Wang et al.
//
//        | 1 . 2 . |     length    = 2 1 0 3
//    A = | . 3 . . |     group_ptr = 0 6           every 32nd row pointer
//        | . . . . |     col       = 0 2 | 1 | | 0 1 3   as in csr
//        | 4 5 . 6 |     values    = 1 2 | 3 | | 4 5 6
//
// Arrays:
//   row_ptr, col, values  those of csr, the caller's own. Products do not read row_ptr.
//   length     [rows] uint16, or uint32 when a row has 65536 entries or more.
//   group_ptr  [groups + 1] int64: the first entry of every 32 rows, and nnz; groups = rows / 32, rounded up.
// Bytes: (v + 4) nnz + p (rows + 1) + l rows + 8 (groups + 1), with v bytes a value, p = 4 or 8 bytes a row pointer and
//   l = 2 or 4 bytes a length.
// Parameters: none.
// Wins: where rows have one or two entries, whose pointers are a large share of what csr reads: here they are 2.25
// bytes
//   a row. On a GPU as many threads as slightly more than the mean length compute a row.
// Refuses: never.
// Source: Z. Wang, X. Xu, W. Zhao, Y. Zhang, S. He, Optimizing sparse matrix-vector multiplication on CUDA, ICETC 2010,
//   109-113. It changes csr so that less is sent to the device; lengths are our reading of it. The number of threads is
//   the smallest power of two that is at least the mean length + 1.
#include "formats/engines/rows.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

template <class T>
class CsrWang final : public CsrHolder<T> {
 public:
  explicit CsrWang(const BuildRequest<T>& request)
      : CsrHolder<T>(request),
        group_ptr_(request.context, wang_groups(request.csr.rows()) + 1),
        borders_(balanced_row_borders(
            request.csr.pattern, useful_parts(*request.context, request.csr.nonzeros() + request.csr.rows()),
            wang_group)) {
    const SparsityPattern& pattern = request.csr.pattern;
    for (std::int64_t g = 0; g < group_ptr_.size(); ++g)
      group_ptr_[g] = pattern.row_ptr[std::min(pattern.rows, g * wang_group)];
    const auto fill = [&](auto& length) {
      length = std::remove_reference_t<decltype(length)>(request.context, pattern.rows);
      for (std::int64_t r = 0; r < pattern.rows; ++r)
        length[r] = static_cast<std::remove_reference_t<decltype(length[0])>>(pattern.row_length(r));
    };
    if (plan_of<WangPlan>(request.admission).narrow)
      fill(narrow_);
    else
      fill(wide_);
  }

  std::size_t bytes() const noexcept override {
    return CsrHolder<T>::bytes() + narrow_.bytes() + wide_.bytes() + group_ptr_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    std::vector<LayoutArray> all = CsrHolder<T>::layout();
    all.push_back(wide_.empty() ? layout_array("length", narrow_) : layout_array("length", wide_));
    all.push_back(layout_array("group_ptr", group_ptr_));
    return all;
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (wide_.empty())
      multiply(narrow_.data(), alpha, x, beta, y);
    else
      multiply(wide_.data(), alpha, x, beta, y);
  }

 private:
  // The row pointers of some groups are made again from the lengths, on the stack.
  template <class Length>
  void multiply(const Length* length, T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
    constexpr std::int64_t strip = 8 * wang_group;
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      std::int64_t row_ptr[strip + 1];
      for (std::int64_t first = borders_[part]; first < borders_[part + 1]; first += strip) {
        const std::int64_t rows = std::min(strip, borders_[part + 1] - first);
        row_ptr[0] = group_ptr_[first / wang_group];
        for (std::int64_t i = 0; i < rows; ++i) row_ptr[i + 1] = row_ptr[i] + length[first + i];
        const RowsWork<T, std::int64_t> work{row_ptr,
                                             csr_.pattern.col,
                                             csr_.values,
                                             alpha,
                                             x.data,
                                             beta,
                                             y.data + first,
                                             this->context()->deterministic(),
                                             worth_prefetching(csr_.pattern, sizeof(T))};
        rows_product(work, RowShare{0, rows, row_ptr[0], row_ptr[rows]}, false);
      }
    });
  }

  using CsrHolder<T>::csr_;
  Buffer<std::uint16_t> narrow_;
  Buffer<std::uint32_t> wide_;
  Buffer<std::int64_t> group_ptr_;
  std::vector<std::int64_t> borders_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return admit_wang(pattern, longest_row(context, pattern), value_bytes);
}

constexpr Kernel kernels[] = {native_host_kernel<CsrWang>(Sums::ordered)};

}  // namespace

namespace device_code {
extern const DeviceCode csr_wang;
}

extern const FormatEntry csr_wang;
constinit const FormatEntry csr_wang{.family = "row",
                                     .id = "csr-wang",
                                     .title = "csr with row lengths in place of pointers",
                                     .source = "Wang, Xu, Zhao, Zhang, He, ICETC 2010",
                                     .traits = {.unsorted_rows = true, .uses_source = true},
                                     .params = {},
                                     .kernels = kernels,
                                     .admit = admit,
                                     .device = &device_code::csr_wang};

}  // namespace protean::formats
