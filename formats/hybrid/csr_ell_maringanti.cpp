// CSR+ELL of Maringanti: rows of at most W entries are stored in ELLPACK, longer rows as compressed rows.
//
//        | 1 . 2 . |     W = 2   row_list   = 0 1 2 3      csr_row_ptr = 0 3
//    A = | . 3 . . |             ell_col    = 0 1 0 2 1 0  csr_col     = 0 1 3
//        | . . . . |             ell_values = 1 3 0 2 0 0  csr_values  = 4 5 6
//        | 4 5 . 6 |             empty      = 2
//
// Arrays:
//   row_list     [rows] int32: the rows of ELLPACK, ascending, then the rows of csr, ascending. Absent when one part
//                has all rows.
//   ell_col      [width n] int32: slot s of the n rows of ELLPACK lies at s n + position, the position in the list.
//                width is the length of the longest of them. A slot without an entry has the column of the row's last
//                entry (0 in a row without entries).
//   ell_values   [width n], in the same places. A slot without an entry has the value 0.
//   csr_col      [m] int32, of the other rows.
//   csr_values   [m].
//   csr_row_ptr  [rows - n + 1] int32 or int64, as in the source: by position.
//   empty        [rows without entries] int32: their positions, ascending; absent when width is 0.
// Bytes: (v + 4) (width n + m) + p (rows - n + 1) + 4 rows + 4 empty rows, with v bytes a value and p = 4 or 8 bytes a
//   row pointer. A part without rows takes no bytes, and then there is no list.
// Parameters:
//   W         the longest row of ELLPACK.
//   max_fill  the most stored values per entry.
// Wins: on a GPU, when few rows are long: a short row takes one thread, a long row one warp.
// Refuses: when more than max_fill nonzeros values would be stored, since one row of W entries pads all shorter rows.
// Source: A. Maringanti, V. Athavale, S. B. Patkar, Acceleration of conjugate gradient method for circuit simulation
//   using CUDA, HiPC 2009, 438-444.
//
// Padding carries no NaN of x. A very long row keeps one warp busy alone; csr-ell-matam cuts it. The engine has the
// parts and their products (formats/engines/sum/sum.hpp).
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

SumCut csr_ell_maringanti_cut(const SumCounter& counter, const FormatParams& params) {
  const std::int64_t W = params.integer("W");
  return cut_by_length(counter, counter.lengths(W), W, 32);
}

namespace {

constexpr ParamDoc params[] = {{.name = "W",
                                .doc = "the longest row of ELLPACK; longer rows are stored in csr",
                                .default_value = "32",
                                .smallest = 0,
                                .largest = 1 << 16},
                               max_fill_param};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::csr_ell_maringanti{
    .family = "hybrid",
    .id = "csr-ell-maringanti",
    .title = "ELLPACK for rows of at most W entries, csr for longer ones",
    .source = "Maringanti, Athavale, Patkar, HiPC 2009",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<csr_ell_maringanti_cut>,
    .device = &device_code::csr_ell_maringanti};

}  // namespace protean::formats
