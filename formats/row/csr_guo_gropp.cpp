// CSR with its rows listed by length; on a GPU the length decides how many threads compute a row. After Guo and Gropp.
//
//        | 1 . 2 . |     row_list  = 2 1 0 | 3          by ascending length
//    A = | . 3 . . |     range_ptr = 0 3 4 4 4 4 4      0 to 2, 3 and 4, 5 to 8, 9 to 16, 17 to 32 entries, more
//        | . . . . |     col       = 0 2 | 1 | | 0 1 3  as in csr
//        | 4 5 . 6 |     values    = 1 2 | 3 | | 4 5 6
//
// Arrays:
//   row_ptr, col, values  as in csr, the caller's own.
//   row_list   [rows] int32: all rows, stable, by ascending length.
//   range_ptr  [7] int64: the first position of each range of lengths; the last is the number of rows. On a device the
//              host program keeps it.
// Bytes: (v + 4) nnz + p (rows + 1) + 4 rows, and 56 on the host; v bytes a value, p = 4 or 8 bytes a row pointer.
// Parameters: entries of the device kernel, by which threads are distributed (csr_guo_gropp.cu); measured tunes it.
// Wins: on a GPU, when lengths vary much within a matrix: the threads of a warp have rows of about the same length.
//   The ranges have 2, 4, 8, 16, 32 and 32 threads a row and a launch each, if they have rows. On a host neighbouring
//   positions have about the same length, but rows that share x are apart.
// Refuses: never.
// Source: D. Guo, W. Gropp, Adaptive thread distributions for SpMV on a GPU, Extreme Scaling Workshop (BW-XSEDE) 2012,
//   2:1-2:5. The ranges are ours.
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

template <class T>
class GuoGropp final : public CsrInShares<T> {
 public:
  explicit GuoGropp(const BuildRequest<T>& request)
      : CsrInShares<T>(request),
        row_list_(request.context, request.csr.rows()),
        range_ptr_(request.context, guo_gropp_ranges + 1) {
    const SparsityPattern& pattern = request.csr.pattern;
    const auto length = [&](std::int64_t r) { return pattern.row_length(r); };
    const std::vector<std::int64_t> first =
        list_rows(pattern.rows, longest_row(*request.context, pattern) + 1, length, row_list_.data());
    range_ptr_[0] = 0;
    for (int i = 0; i < guo_gropp_ranges; ++i) {
      const auto past = std::min(first.size() - 1, static_cast<std::size_t>(guo_gropp_longest(i)) + 1);
      range_ptr_[i + 1] = i + 1 == guo_gropp_ranges ? pattern.rows : first[past];
    }
    this->set_shares(shares_of_list(pattern, row_list_.data(), pattern.rows, this->parts(),
                                    std::numeric_limits<std::int64_t>::max()),
                     row_list_.data());
  }
  std::size_t bytes() const noexcept override {
    return CsrInShares<T>::bytes() + row_list_.bytes() + range_ptr_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return this->layout_with({layout_array("row_list", row_list_), layout_array("range_ptr", range_ptr_)});
  }

 private:
  Buffer<std::int32_t> row_list_;
  Buffer<std::int64_t> range_ptr_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(csr_bytes(pattern, value_bytes) + static_cast<std::size_t>(pattern.rows) * 4 +
                               (guo_gropp_ranges + 1) * 8,
                           pattern.nonzeros);
}

constexpr Kernel kernels[] = {native_host_kernel<GuoGropp>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::csr_guo_gropp{.family = "row",
                                                   .id = "csr-guo-gropp",
                                                   .title = "csr with a list of rows by length",
                                                   .source = "Guo, Gropp, Extreme Scaling Workshop 2012",
                                                   .traits = {.unsorted_rows = true, .uses_source = true},
                                                   .params = {},
                                                   .kernels = kernels,
                                                   .admit = admit,
                                                   .device = &device_code::csr_guo_gropp};

}  // namespace protean::formats
