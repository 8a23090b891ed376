// ELLR-T: ELLPACK-R with T threads per row, which read neighbouring entries.
//
//        | 1 . 2 . |     T = 2, rows rounded up to a multiple of 16 (here 4): one slice of width 4
//    A = | . 3 . . |     col     = 0 2 1 1 0 0 0 1 | 2 2 1 1 0 0 3 3       lengths = 1 1 0 2 (steps of T entries)
//        | . . . . |     values  = 1 2 3 . . . 4 5 | . . . . . . 6 .
//        | 4 5 . 6 |
//
// Arrays: as in sliced-ellr-t with one slice of all rows.
// Bytes: (v + 4) ld width + 4 rows, with v bytes a value; ld = rows rounded up to a multiple of 16, width to a multiple
//   of T.
// Parameters: T and max_fill of sliced-ellr-t. The source finds T by timing all choices, as T = measured does.
// Wins: on a GPU, for rows of equal length with 16 entries and more.
// Refuses: when ld width > max_fill nonzeros: one long row pads all the others.
// Source: F. Vazquez, J. J. Fernandez, E. M. Garzon, Automatic tuning of the sparse matrix vector product on GPUs based
//   on the ELLR-T approach, Parallel Computing 38(8), 2012, 408-420, doi:10.1016/j.parco.2011.08.003. We read "each row
//   is a multiple of 16" as a statement about the number of rows.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam ellr_t_fixed[] = {{"S", "0"}};
}

constinit const Preset entries::ellr_t{.family = "ell",
                                       .id = "ellr-t",
                                       .title = "ELLPACK whose rows have T threads side by side",
                                       .source = "Vazquez, Fernandez, Garzon, Parallel Computing 38(8), 2012",
                                       .base = "sliced-ellr-t",
                                       .fixed = ellr_t_fixed};

}  // namespace protean::formats
