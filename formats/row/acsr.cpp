// ACSR, adaptive CSR: the rows are binned by length, and the bin gives the number of threads for each row; several
// groups of threads share a very long row.
//
//        | 1 . 2 . |     bin_max = 1: rows of 1 and 2 entries | longer ones | rows without entries
//    A = | . 3 . . |     row_list = 0 1 | 3 | 2
//        | . . . . |     bin_ptr  = 0 2 3 4
//        | 4 5 . 6 |     col      = 0 2 | 1 | | 0 1 3    as in csr
//
// Arrays:
//   row_ptr, col, values  as in csr: the caller's own arrays.
//   row_list  [rows] int32: the rows of bin 1, 2, ... bin_max, then longer rows, then rows without entries; ascending
//             within each. Bin 1 has the rows of 1 and 2 entries, bin b the rows of 2^(b-1) + 1 to 2^b entries.
//   bin_ptr   [bin_max + 3] int64: the first position of each bin, of the longer rows and of the rows without entries,
//             then the number of rows. For a device it stays in host memory.
//   On a device, if there are longer rows, also the first piece of each, [longer + 1] int64 (a piece has 4096 entries),
//   and the sum of each piece.
// Bytes: (v + 4) nnz + p (rows + 1) + 4 rows, and 8 (bin_max + 3) on the host, or 8 (longer + 1) + v pieces on a device
//   if there are longer rows; v bytes a value, p = 4 or 8 bytes a row pointer.
// Parameters: bin_max: rows of more than 2^bin_max entries are cut into pieces.
// Wins: when a few rows hold a large share of the entries and the others vary in length, as in graphs. Each bin is one
//   launch with 2^(b-1) threads a row. Longer rows take two launches: one for their pieces and one that adds the pieces
//   in order. On a host the longer rows are cut if one of them exceeds the share of a thread.
// Refuses: never.
// Source: A. Ashari, N. Sedaghati, J. Eisenlohr, S. Parthasarathy, P. Sadayappan, Fast sparse matrix-vector
//   multiplication on GPUs for graph applications, SC 2014, 781-792, doi:10.1109/SC.2014.69. In the paper a long row is
//   a launch from the device, at most RowMax of them; here one launch computes the pieces of all long rows, so their
//   number has no limit.
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

template <class T>
class Acsr final : public CsrInShares<T> {
 public:
  explicit Acsr(const BuildRequest<T>& request)
      : CsrInShares<T>(request), row_list_(request.context, request.csr.rows()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const auto bin_max = static_cast<int>(request.params.integer("bin_max"));
    const std::vector<std::int64_t> first = list_rows(
        pattern.rows, bin_max + 2, [&](std::int64_t r) { return acsr_bin(pattern.row_length(r), bin_max); },
        row_list_.data());
    bin_ptr_ = Buffer<std::int64_t>(request.context, static_cast<std::int64_t>(first.size()));
    std::copy(first.begin(), first.end(), bin_ptr_.begin());
    const std::int64_t cut = request.context->deterministic() ? std::numeric_limits<std::int64_t>::max()
                                                              : std::int64_t{1} << bin_max;
    this->set_shares(shares_of_list(pattern, row_list_.data(), pattern.rows, this->parts(), cut),
                     row_list_.data());
  }
  std::size_t bytes() const noexcept override {
    return CsrInShares<T>::bytes() + row_list_.bytes() + bin_ptr_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return this->layout_with({layout_array("row_list", row_list_), layout_array("bin_ptr", bin_ptr_)});
  }

 private:
  Buffer<std::int32_t> row_list_;
  Buffer<std::int64_t> bin_ptr_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  return Admission::accept(csr_bytes(pattern, value_bytes) + static_cast<std::size_t>(pattern.rows) * 4 +
                               static_cast<std::size_t>(params.integer("bin_max") + 3) * 8,
                           pattern.nonzeros);
}

constexpr ParamDoc params[] = {{.name = "bin_max",
                                .doc = "rows of more than 2^bin_max entries are cut into pieces",
                                .default_value = "10",
                                .smallest = 1,
                                .largest = acsr_most_bins}};

constexpr Kernel kernels[] = {native_host_kernel<Acsr>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::acsr{
    .family = "row",
    .id = "acsr",
    .title = "csr with bins of rows by length",
    .source = "Ashari, Sedaghati, Eisenlohr, Parthasarathy, Sadayappan, SC 2014",
    .traits = {.unsorted_rows = true, .uses_source = true, .shares_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::acsr};

}  // namespace protean::formats
