// CSR-Stream: csr in blocks of rows whose entries fit the fast memory of a GPU's processor.
//
//        | 1 . 2 . |     S = 3
//    A = | . 3 . . |     block_ptr = 0 3 4
//        | . . . . |     col       = 0 2 1 | 0 1 3    as in csr
//        | 4 5 . 6 |     values    = 1 2 3 | 4 5 6
//
// Arrays:
//   row_ptr, col, values  as in csr, the caller's own.
//   block_ptr  [blocks + 1] int32: the first row of each block; the last number is the number of rows. A block has at
//              most S entries and 256 rows, and does not go past a multiple of 4096 rows.
// Bytes: (v + 4) nnz + p (rows + 1) + 4 (blocks + 1), with v bytes a value and p = 4 or 8 bytes a row pointer.
// Parameters: S, the most entries of a block.
// Wins: on a GPU, when rows are short, whatever their lengths are: the threads of a block read its entries side by side
//   and store the products; then a thread adds the products of a row. On a host threads get whole blocks.
// Refuses: when a row has more than S entries; csr-adaptive takes such rows.
// Source: J. L. Greathouse, M. Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//   format, SC 2014, 769-780, doi:10.1109/SC.2014.68 (CSR-Stream).
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class CsrStream final : public CsrInBlocks<T> {
 public:
  explicit CsrStream(const BuildRequest<T>& request)
      : CsrInBlocks<T>(request, std::numeric_limits<std::int64_t>::max()) {}
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const std::int64_t most = params.integer("S"), longest = longest_row(context, pattern);
  if (longest > most) return Admission::refuse(stream_refusal(longest, most));
  return admit_blocks(pattern, row_blocks(pattern, most), value_bytes);
}

constexpr ParamDoc params[] = {block_entries_param};

constexpr Kernel kernels[] = {native_host_kernel<CsrStream>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::csr_stream{.family = "row",
                                                .id = "csr-stream",
                                                .title = "csr in blocks of rows with few entries",
                                                .source = "Greathouse, Daga, SC 2014",
                                                .traits = {.unsorted_rows = true, .uses_source = true},
                                                .params = params,
                                                .kernels = kernels,
                                                .admit = admit,
                                                .device = &device_code::csr_stream};

}  // namespace protean::formats
