// BiJAD, bisection JAD: BiELL with all rows sorted by length.
//
//        | 1 . 2 . |     W = 2
//    A = | . 3 . . |     perm      = 3 0 1 -3
//        | . . . . |     group_ptr = 0 4 5 5 6
//        | 4 5 . 6 |     col       = 0 0 1 2 | 3 | | 1        values = 4 1 5 2 | 6 | | 3
//
// Arrays: as in biell with sort = all.
// Bytes: (v + 4) slots + 8 (strips (log2 W + 1) + 1) + 4 rows, with v bytes a value.
// Parameters: W and max_fill of biell.
// Wins: on a GPU, when lengths vary over the matrix: rows of a strip have nearly the same length, so there is even less
//   padding than in biell. But neighbouring rows of a strip may share nothing of x.
// Refuses: when slots > max_fill nonzeros.
// Source: C. Zheng, S. Gu, T.-X. Gu, B. Yang, X.-P. Liu, BiELL: a bisection ELLPACK-based storage format for optimizing
//   SpMV on GPUs, J. Parallel Distrib. Comput. 74(7), 2014, 2639-2647, doi:10.1016/j.jpdc.2014.03.002.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bijad_fixed[] = {{"sort", "all"}};
}

constinit const Preset entries::bijad{.family = "jagged",
                                      .id = "bijad",
                                      .title = "Bisection JAD: strips of sorted rows in groups",
                                      .source = "Zheng, Gu, Gu, Yang, Liu, JPDC 74(7), 2014",
                                      .base = "biell",
                                      .fixed = bijad_fixed};

}  // namespace protean::formats
