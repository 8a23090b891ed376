// BRO-CSR: rows as in CSR whose columns are stored as differences, all differences of a row in the same number of bits.
//
//        | 1 . 2 . |     row_ptr    = 0 2 3 3 6     row 0: 0, then 2 in 2 bits
//    A = | . 3 . . |     row_symbol = 0 2 3 3 5     row 1: 1
//        | . . . . |     width      = 2 0 0 2       row 3: 0, then 1 and 2 in 2 bits
//        | 4 5 . 6 |     symbols    = 0 0x80000000 | 1 | 0 0x60000000      values = 1 2 3 4 5 6
//
// Arrays:
//   row_ptr     [rows + 1] int32 or int64, as in the source: entries before each row.
//   row_symbol  [rows + 1] of the same type: symbols before each row.
//   width       [rows] uint8: bits of a difference in each row.
//   symbols     [m] uint32: the first column of a row, then the differences, with the highest bit first, filled up to
//               whole symbols.
//   values      [nnz].
// Bytes: v nnz + 4 m + rows + 2 w (rows + 1), with v bytes a value and w bytes a row pointer.
// Parameters: none.
// Wins: when rows are long and their columns lie near each other. There is no padding, whatever the lengths are.
// Refuses: never.
// Source: W. T. Tang, W. J. Tan, R. S. M. Goh, S. J. Turner, W.-F. Wong, A family of bit-representation-optimized
//   formats for fast sparse matrix-vector multiplication on the GPU, IEEE Transactions on Parallel and Distributed
//   Systems 26(9), 2015,
//   2373-2385, doi:10.1109/TPDS.2014.2357437. That a first column takes a symbol and that differences lie side by side
//   without lanes are our reading. Low confidence.
//
// engines/bits/bits.hpp has the streams, and engines/bits/bro.hpp everything else.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BroShape bro_csr_shape(const SumCounter&, const FormatParams&) { return {.tail = BroTail::rows}; }

namespace {
constexpr Kernel kernels[] = {bro_kernel};
}

constinit const FormatEntry entries::bro_csr{.family = "compressed",
                                             .id = "bro-csr",
                                             .title = "Rows, differences of columns in few bits",
                                             .source = "Tang et al., TPDS 2015",
                                             .traits = {.admission_converts = true},
                                             .params = {},
                                             .kernels = kernels,
                                             .admit = admit_bro<bro_csr_shape>,
                                             .device = &device_code::bro_csr};

}  // namespace protean::formats
