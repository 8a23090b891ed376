// Sliced ELLPACK: slices of C rows in the order of the matrix, each padded to its longest row.
//
//        | 1 . 2 . |     C = 2
//    A = | . 3 . . |     slice_ptr = 0 4 10
//        | . . . . |     col       = 0 1 2 1 | 0 0 0 1 0 3
//        | 4 5 . 6 |     values    = 1 3 2 . | . 4 . 5 . 6        (. is a stored 0)
//
// Arrays: as in sell-c-sigma without perm, because rows are never sorted.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 empty rows, with v bytes a value; slots is the sum over the slices of
//   C times the longest row.
// Parameters: C and max_fill of sell-c-sigma.
// Wins: when neighbouring rows have similar lengths (stencils, meshes numbered along their cells). Rows stay next to
//   the rows that use the same entries of x, and y is written in order.
// Refuses: when slots > max_fill nonzeros.
// Source: A. Monakov, A. Lokhmotov, A. Avetisyan, Automatically tuning sparse matrix-vector multiplication for
//   GPU architectures, HiPEAC 2010, LNCS 5952, 111-125, doi:10.1007/978-3-642-11515-8_10. Slices of variable
//   height, which the paper also describes, are sell-variable.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam sell_fixed[] = {{"sigma", "1"}};
}

constinit const Preset entries::sell{.family = "ell",
                                     .id = "sell",
                                     .title = "Sliced ELLPACK, rows in their order",
                                     .source = "Monakov, Lokhmotov, Avetisyan, HiPEAC 2010",
                                     .base = "sell-c-sigma",
                                     .fixed = sell_fixed};

}  // namespace protean::formats
