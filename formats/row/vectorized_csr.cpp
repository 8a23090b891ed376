// Vectorized CSR: balanced-csr with SIMD instructions along each row.
//
//        | 1 . 2 . |     two threads: 3 entries each
//    A = | . 3 . . |     border = 0 3 4
//        | . . . . |     col    = 0 2 1 | 0 1 3    as in csr
//        | 4 5 . 6 |     values = 1 2 3 | 4 5 6
//
// Arrays:
//   row_ptr, col, values  as in csr: the caller's own arrays.
//   border  [parts + 1] int32: the first row of each thread (on a GPU, of each block of threads), then the number of
//           rows.
// Bytes: (v + 4) nnz + p (rows + 1) + 4 (parts + 1), with v bytes a value and p = 4 or 8 bytes a row pointer.
// Parameters: parts, the number of ranges of rows.
// Wins: when the lengths vary and rows have more than a few entries: all threads have about the same number of entries.
//   Unlike in csr, an empty row counts as no work.
// Refuses: never.
// Source: P. Mpakos, D. Galanopoulos, P. Anastasiadis, N. Papadopoulou, N. Koziris, G. Goumas, Feature-based SpMV
//   performance analysis on contemporary devices, IPDPS 2023 (Vectorized-CSR).
//
// On a GPU a block of threads takes a range, and a warp computes a row.
#include "formats/engines/rows/rows.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class VectorizedCsr final : public CsrInRanges<T> {
 public:
  using CsrInRanges<T>::CsrInRanges;
};

constexpr ParamDoc params[] = {ranges_param};

constexpr Kernel kernels[] = {native_host_kernel<VectorizedCsr>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::vectorized_csr{.family = "row",
                                                    .id = "vectorized-csr",
                                                    .title = "csr, equal entries a thread, SIMD along rows",
                                                    .source = "Mpakos et al., IPDPS 2023",
                                                    .traits = {.unsorted_rows = true, .uses_source = true},
                                                    .params = params,
                                                    .kernels = kernels,
                                                    .admit = admit_ranges,
                                                    .device = &device_code::vectorized_csr};

}  // namespace protean::formats
