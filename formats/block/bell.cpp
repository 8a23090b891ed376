// BELL: ELL of small dense blocks. All block rows are padded to the longest one.
//
//        | 1 . 2 . |     1 x 2 blocks: units of 2 values                             (. is a stored 0)
//    A = | . 3 . . |     block_col = 0 0 0 0 1 0 0 1
//        | . . . . |     values    = 1 . . 3 . . 4 5 | 2 . . . . . . 6
//        | 4 5 . 6 |
//
// Arrays: as in bsellpack with one slice, so without slice_ptr. Unit u of block k of all block rows lie together.
// Bytes: slots (v R C + 4 + ceil(R C / 8)), with v bytes a value; slots = block rows times the number of blocks of the
//   longest one.
// Parameters: rows, cols, max_fill: as in bcsr.
// Wins: on a GPU, when all block rows have about the same number of blocks.
// Refuses: when R C slots > max_fill nonzeros.
// Source: B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs, ICS 2012,
//   doi:10.1145/2304576.2304624 (BELL).
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bell_fixed[] = {
    {"slice", "0"}, {"sort", "none"}, {"order", "units"}, {"model", "bytes"}};
}  // namespace

constinit const Preset entries::bell{.family = "block",
                                     .id = "bell",
                                     .title = "bsellpack with one slice",
                                     .source = "Su, Keutzer, ICS 2012",
                                     .base = "bsellpack",
                                     .fixed = bell_fixed};

}  // namespace protean::formats
