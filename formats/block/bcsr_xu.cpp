// BCSR of Xu et al.: on a GPU one block of threads computes each block row.
//
//        | 1 . 2 . |     4 x 4 blocks; the matrix is one block row:
//    A = | . 3 . . |     block of threads 0: thread t takes the blocks t, t + 128, ... of the block row
//        | . . . . |
//        | 4 5 . 6 |     values = 1 . 2 . . 3 . . . . . . 4 5 . 6             (. is a stored 0)
//
// Arrays: as in bcsr with 4 x 4 blocks.
// Bytes: as bcsr.
// Parameters: max_fill, the most stored values per entry.
// Wins: on a GPU, when block rows have hundreds of blocks, as in matrices of large elements: the part of x that they
//   read stays in the cache of one processor. Short block rows leave most of the 128 threads without work. On a host it
//   is bcsr with these blocks, like bsr4.
// Refuses: when 16 blocks > max_fill nonzeros.
// Source: W. Xu, H. Zhang, S. Jiao, D. Wang, F. Song, Z. Liu, Optimizing sparse matrix vector multiplication using
//   cache blocking method on Fermi GPU, SNPD 2012, as described by S. Filippone, V. Cardellini, D. Barbieri, A.
//   Fanfarillo, ACM Trans. Math. Softw. 43(4), 2017. The survey does not give the size of a block; 4 x 4 is our choice.
#include "formats/entries.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {
namespace {
constexpr FixedParam bcsr_xu_fixed[] = {{"rows", "4"}, {"cols", "4"}, {"sizes", "any"}, {"order", "blocks"}};
}  // namespace

constinit const Preset entries::bcsr_xu{.family = "block",
                                        .id = "bcsr-xu",
                                        .title = "bcsr with 4 x 4 blocks, a block of threads a block row",
                                        .source = "Xu, Zhang, Jiao, Wang, Song, Liu, SNPD 2012",
                                        .base = "bcsr",
                                        .fixed = bcsr_xu_fixed,
                                        .host_kernel = "native",
                                        .device_kernel = "row-block"};

}  // namespace protean::formats
