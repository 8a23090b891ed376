// CSR with a thread or a warp for each row on a GPU, after El Zein and Rendell.
//
//        | 1 . 2 . |     mean length 1.5, below 8: one thread a row
//    A = | . 3 . . |
//        | . . . . |
//        | 4 5 . 6 |
//
// Arrays: as in csr, the caller's own.
// Bytes: as csr.
// Parameters:
//   lanes  on a GPU, threads a row. auto: 1 below a mean length of 8, else 32. measured: whichever is faster on this
//          GPU.
//   block  on a GPU, threads a block.
// Wins: on a GPU, when all rows are short or all are long. On a host it is the kernel of csr with whole rows.
// Refuses: never.
// Source: A. H. El Zein, A. P. Rendell, Generating optimal CUDA sparse matrix vector product implementations for
//   evolving GPU hardware, Concurr. Comput. Pract. Exp. 24(1), 2012, 3-13. They measure the border on each device, with
//   matrices of equal rows; lanes = measured times both with the matrix itself. The mean of 8 is ours.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam csr_elzein_rendell_fixed[] = {{"balance", "rows"}};
}  // namespace

constinit const Preset entries::csr_elzein_rendell{
    .family = "row",
    .id = "csr-elzein-rendell",
    .title = "csr, a thread or a warp a row",
    .source = "El Zein, Rendell, Concurr. Comput. Pract. Exp. 24(1), 2012",
    .base = "csr",
    .fixed = csr_elzein_rendell_fixed,
    .host_kernel = "native",
    .device_kernel = "elzein-rendell"};

}  // namespace protean::formats
