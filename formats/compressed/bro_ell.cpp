// BRO-ELL: slices of ELLPACK whose columns are stored as differences, with as few bits as each slot of a slice needs.
//
//        | 1 . 2 . |     h = 2: differences of columns 1 2 | 2 . and . . . | 1 1 2
//    A = | . 3 . . |     col_ptr    = 0 2 5             streams 01 10 | 10 00 and 0 0 00 | 1 1 10
//        | . . . . |     bit_alloc  = 2 2 | 1 1 2       values  = 1 3 2 . | . 4 . 5 . 6
//        | 4 5 . 6 |     symbol_ptr = 0 1 2             symbols = 0x60000000 0x80000000 | 0 0xe0000000
//
// Arrays:
//   col_ptr     [slices + 1] int64: slots of a row before each slice. A slice has h rows; the last slice has the rows
//               that are left.
//   bit_alloc   [col_ptr[slices]] uint8: bits of a field in each slot of a slice.
//   symbol_ptr  [slices + 1] int64: symbols of a row before each slice.
//   symbols     [m] uint32: fields follow each other, the highest bit first, filled up to whole symbols. Symbol j of
//               row l of slice s lies at h symbol_ptr[s] + j h' + l; h' is the number of rows of the slice. The first
//               field of a row is its first column + 1, the others are differences. A field of 0 is padding and ends
//               the row.
//   values      [slots]: slot k of row l of slice s lies at h col_ptr[s] + k h' + l; 0 in padding.
// Bytes: v slots + 4 m + slots of a row in all slices + 16 (slices + 1), with v bytes a value.
// Parameters: h, the rows of a slice; max_fill, the most slots per entry.
// Wins: when columns lie near each other (bands, meshes in a good numbering): an index takes 2 to 8 bits instead of 32.
// Refuses: when slots > max_fill nonzeros.
// Source: W. T. Tang, W. J. Tan, R. Ray, Y. W. Wong, W. Chen, S. Kuo, R. S. M. Goh, S. J. Turner, W.-F. Wong,
//   Accelerating sparse matrix-vector multiplication on GPUs using bit-representation-optimized schemes, SC 2013,
//   doi:10.1145/2503210.2503234. The authors' slices are as high as a thread block; slices as high as a warp need less
//   padding. A slice has as many fields as its longest row has entries.
//
// engines/bits/bits.hpp has the streams, and engines/bits/bro.hpp everything else.
#include "formats/compressed/bro_rules.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

BroShape bro_ell_shape(const SumCounter& counter, const FormatParams& params) {
  return {.slices = true,
          .K = counter.pattern.cols,
          .h = static_cast<int>(params.integer("h")),
          .max_fill = params.integer("max_fill")};
}

namespace {
constexpr ParamDoc params[] = {bro_height_param, max_fill_param};
constexpr Kernel kernels[] = {bro_kernel};
}  // namespace

constinit const FormatEntry entries::bro_ell{
    .family = "compressed",
    .id = "bro-ell",
    .title = "Slices of ELLPACK, differences of columns in few bits",
    .source = "Tang et al., SC 2013",
    .traits = {.grows_with_longest = true, .admission_converts = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_bro<bro_ell_shape>,
    .device = &device_code::bro_ell};

}  // namespace protean::formats
