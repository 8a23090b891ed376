// Enhanced JDS: jagged diagonals, each of which begins at a multiple of 16 slots; a GPU keeps the pointers of the jags
// in shared memory.
//
//        | 1 . 2 . |     with multiples of 4 slots
//    A = | . 3 . . |     perm    = 3 0 1 2
//        | . . . . |     jag_ptr = 0 4 8 12                   jag_rows = 3 2 1
//        | 4 5 . 6 |     col     = 0 0 1 . | 1 2 . . | 3 ...  values = 4 1 3 . | 5 2 . . | 6 . . .
//
// Arrays: as in jad with round = 16 and ends = jags.
// Bytes: (v + 4) slots + 4 rows + 8 (longest + 1) + 4 longest, with v bytes a value.
// Parameters: max_fill of jad.
// Wins: on a GPU, when row lengths vary: every jag begins at the start of a memory line. The gaps between jags are
//   never read.
// Refuses: when slots > max_fill nonzeros, as when a few very long rows cause 15 slots of padding for each of their
//   entries.
// Source: A. Cevahir, A. Nukada, S. Matsuoka, Fast conjugate gradients with multiple GPUs, ICCS 2009, LNCS 5544,
//   893-903, doi:10.1007/978-3-642-01970-8_90. Multiples of 16 and pointers in shared memory are our reading; the paper
//   also has mixed precision. Low confidence.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam enhanced_jds_fixed[] = {{"round", "16"}, {"ends", "jags"}};
}

constinit const Preset entries::enhanced_jds{.family = "jagged",
                                             .id = "enhanced-jds",
                                             .title = "Aligned jagged diagonals, pointers in shared memory",
                                             .source = "Cevahir, Nukada, Matsuoka, ICCS 2009",
                                             .base = "jad",
                                             .fixed = enhanced_jds_fixed,
                                             .device_kernel = "staged"};

}  // namespace protean::formats
