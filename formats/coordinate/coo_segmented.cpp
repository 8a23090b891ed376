// COO with segmented sums on a GPU: the runs of a row are added in registers, and a second launch adds the runs that
// cross a border of segments.
//
//        | 1 . 2 . |     segments of 4 entries (a warp has 512)
//    A = | . 3 . . |     first launch   y = (3, 3, 0, 4) for x = 1; the carry of the second segment is row 3, 5 + 6
//        | . . . . |     second launch  y(3) := y(3) + 11
//        | 4 5 . 6 |
//
// Arrays: as in coo; on a GPU also
//   carry_row    [segments] int32: the row that continues from the previous segment, or -1.
//   carry_value  [segments].
// Bytes: (v + 8) nnz, on a GPU also (v + 4) segments, with v bytes a value and a segment for each 512 entries.
// Parameters: none.
// Wins: on a GPU, for any row lengths, if the sums must have a fixed order. On a host it is the kernel of coo.
// Refuses: never.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC
//   2009, doi:10.1145/1654059.1654078; two launches instead of three: B.-Y. Su, K. Keutzer, clSpMV, ICS 2012,
//   doi:10.1145/2304576.2304624. The last segment needs no padding here.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constinit const Preset entries::coo_segmented{.family = "coordinate",
                                              .id = "coo-segmented",
                                              .title = "coo, segmented sums in two launches",
                                              .source = "Bell, Garland, SC 2009",
                                              .base = "coo",
                                              .host_kernel = "native",
                                              .device_kernel = "segmented"};

}  // namespace protean::formats
