// CSR on a GPU with as many threads a row and a block as were the fastest in the first products, after Cheik Ahamed and
// Magoules.
//
//        | 1 . 2 . |     1, 2, 4, 8, 16 and 32 threads a row, in blocks of 64, 128, 256
//    A = | . 3 . . |     and 512: 24 products are timed, and the fastest stays
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters: none.
// Wins: on a GPU, in solves of some hundred products, when all rows have about the same length. On a host it is the
//   kernel of csr with whole rows.
// Refuses: never.
// Source: A.-K. Cheik Ahamed, F. Magoules, Fast sparse matrix-vector multiplication on graphics processing unit for
//   finite element analysis, HPCC 2012, 1307-1314. The order of the sums may differ while it searches.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_gridification_fixed[] = {{"balance", "rows"}};
}  // namespace

constinit const Preset entries::csr_gridification{.family = "row",
                                                  .id = "csr-gridification",
                                                  .title = "csr, threads a row and a block by trying all",
                                                  .source = "Cheik Ahamed, Magoules, HPCC 2012",
                                                  .base = "csr",
                                                  .fixed = csr_gridification_fixed,
                                                  .host_kernel = "native",
                                                  .device_kernel = "gridification"};

}  // namespace protean::formats
