// CSR-Adaptive: csr in blocks of rows; many short rows, one long row, or a piece of a very long row.
//
//        | 1 . 2 . |     S = 2
//    A = | . 3 . . |     block_ptr = 0 1 3 4     row 3 has more than S entries: a block of its own
//        | . . . . |     col       = 0 2 | 1 | 0 1 3    as in csr
//        | 4 5 . 6 |     values    = 1 2 | 3 | 4 5 6
//
// Arrays:
//   row_ptr, col, values  as in csr, the caller's own.
//   block_ptr  [blocks + 1] int32: the first row of each block; the last number is the number of rows. A block has at
//              most S entries and 256 rows, or one row; it does not go past a multiple of 4096 rows.
//   On a device also, if rows have more than 2 S entries: these rows, [long] int32; the first piece of 4096 entries of
//   each, [long + 1] int64; and the sum of each piece.
// Bytes: (v + 4) nnz + p (rows + 1) + 4 (blocks + 1), and 12 long + 8 + v pieces on a device if there are such rows;
//   v bytes a value, p = 4 or 8 bytes a row pointer.
// Parameters: S, the most entries of a block of several rows.
// Wins: when the lengths vary in any way. On a GPU the threads of a block store the products of its entries; then one
//   or more threads add the products of a row. All threads of a block add a long row, several blocks a very long one;
//   their sums are added in order. On a host threads get whole blocks, and very long rows are cut.
// Refuses: never.
// Source: J. L. Greathouse, M. Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage
//   format, SC 2014, 769-780, doi:10.1109/SC.2014.68; M. Daga, J. L. Greathouse, Structural agnostic SpMV: adapting
//   CSR-Adaptive for irregular matrices, HiPC 2015, 64-74, doi:10.1109/HiPC.2015.55 (very long rows; they add by atomic
//   operations).
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class CsrAdaptive final : public CsrInBlocks<T> {
 public:
  explicit CsrAdaptive(const BuildRequest<T>& request)
      : CsrInBlocks<T>(request, 2 * request.params.integer("S")) {}
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  return admit_blocks(pattern, row_blocks(pattern, params.integer("S")), value_bytes);
}

constexpr ParamDoc params[] = {block_entries_param};

constexpr Kernel kernels[] = {native_host_kernel<CsrAdaptive>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::csr_adaptive{
    .family = "row",
    .id = "csr-adaptive",
    .title = "csr in blocks of rows, or of one long row",
    .source = "Greathouse, Daga, SC 2014; Daga, Greathouse, HiPC 2015",
    .traits = {.unsorted_rows = true, .uses_source = true, .shares_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::csr_adaptive};

}  // namespace protean::formats
