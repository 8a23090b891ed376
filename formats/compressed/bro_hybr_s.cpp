// BRO-HYBR(S): BRO-HYBR with the rows sorted by length.
//
//        | 1 . 2 . |     K = 1, h = 2                       the rest: row 3 has columns 1 and 3, row 0 has 2
//    A = | . 3 . . |     perm      = 3 0 1 2                tail_row_ptr    = 0 2 3 3 3
//        | . . . . |     bit_alloc = 1 | 2                  tail_row_symbol = 0 2 3 3 3
//        | 4 5 . 6 |     values    = 4 1 | 3 .              tail_width      = 2 0 0 0    tail_values = 5 6 2
//
// Arrays: as in bro-hybr with sort = length: rows of similar lengths share a slice.
// Bytes: as bro-hybr with less padding in the slices, plus 4 rows.
// Parameters: K, break_even and h of bro-hybr.
// Wins: when bro-hybr does and neighbouring rows differ much in length. y is written in another order.
// Refuses: never.
// Source: W. T. Tang et al., TPDS 2015, doi:10.1109/TPDS.2014.2357437 (see bro_csr.cpp).
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bro_hybr_s_fixed[] = {{"sort", "length"}};
}

constinit const Preset entries::bro_hybr_s{.family = "compressed",
                                           .id = "bro-hybr-s",
                                           .title = "BRO-HYBR of the rows sorted by length",
                                           .source = "Tang et al., TPDS 2015",
                                           .base = "bro-hybr",
                                           .fixed = bro_hybr_s_fixed};

}  // namespace protean::formats
