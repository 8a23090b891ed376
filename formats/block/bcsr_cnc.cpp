// BCSR of the Concurrent Number Cruncher: square blocks of 2 or 4, one thread for each block row on a GPU.
//
//        | 1 . 2 . |     thread 0: blocks | 1 . | and | 2 . |       thread 1: | . . | and | . . |
//    A = | . 3 . . |                      | . 3 |     | . . |                 | 4 5 |     | . 6 |
//        | . . . . |
//        | 4 5 . 6 |     values = 1 . . 3 | 2 . . . | . . 4 5 | . . . 6       (. is a stored 0)
//
// Arrays: as in bcsr.
// Bytes: as bcsr.
// Parameters: max_fill, the most stored values per entry. The size is 2 x 2 or 4 x 4, whichever needs fewer bytes in a
//   sample of the rows.
// Wins: on a GPU, when block rows are short and of similar length: a thread reads x once for all rows of its block.
//   Neighbouring threads do not read neighbouring values. On a host it is bcsr with these sizes.
// Refuses: when the stored values are more than max_fill nonzeros.
// Source: L. Buatois, G. Caumon, B. Levy, Concurrent number cruncher: a GPU implementation of a general sparse linear
//   solver, Int. J. Parallel Emergent Distrib. Syst. 24(3), 2009, 205-223, doi:10.1080/17445760802337010.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bcsr_cnc_fixed[] = {
    {"rows", "auto"}, {"cols", "auto"}, {"sizes", "2x2-4x4"}, {"order", "blocks"}};
}  // namespace

constinit const Preset entries::bcsr_cnc{.family = "block",
                                         .id = "bcsr-cnc",
                                         .title = "bcsr with squares of 2 or 4, a thread a block row",
                                         .source = "Buatois, Caumon, Levy, IJPEDS 24(3), 2009",
                                         .base = "bcsr",
                                         .fixed = bcsr_cnc_fixed,
                                         .host_kernel = "native",
                                         .device_kernel = "thread"};

}  // namespace protean::formats
