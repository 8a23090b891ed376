// BIN-CSR: the rows lie in bins, each padded to its longest row; the diagonal is in a separate array.
//
//        | 1 . 2 . |     C = 2
//    A = | . 3 . . |     slice_ptr = 0 2 6                 diagonal         = 1 3 0 6
//        | . . . . |     col       = 2 1 | 2 0 2 1         without_diagonal = 2
//        | 4 5 . 6 |     values    = 2 . | . 4 . 5         (. is a stored 0)
//
// Arrays:
//   slice_ptr         [bins + 1] int64: slots before each bin.
//   col               [slots] int32: slot k of row i of bin b lies at slice_ptr[b] + k C + i. Columns ascend. Padding
//                     repeats the row's last column; a row without entries off the diagonal has its own column.
//   values            [slots]: 0 if padded. The last bin is padded to C rows.
//   diagonal          [rows]: 0 if the matrix has no such entry.
//   without_diagonal  [rows without a diagonal entry] int32, ascending.
// Bytes: (v + 4) slots + 8 (bins + 1) + v rows + 4 rows without a diagonal entry, with v bytes a value.
// Parameters: C, the rows of a bin; max_fill, the most slots per entry.
// Wins: when the diagonal is used often, as in Jacobi's method: it is one array. Otherwise it is as fast as sell.
// Refuses: rectangular matrices; when slots > max_fill nonzeros.
// Source: D. Weber, J. Bender, M. Schnoes, A. Stork, D. Fellner, Efficient GPU data structures and methods to solve
//   sparse linear systems in dynamics applications, Computer Graphics Forum 32(1), 2013, 16-26,
//   doi:10.1111/j.1467-8659.2012.03227.x.
//   The paper uses single precision.
//
// A NaN or an infinity in x_r reaches row r even if the matrix has no entry (r, r).
#include "formats/engines/slices/slices.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

SliceRule bin_csr_rule(const SparsityPattern&, const FormatParams& params) {
  SliceRule rule;
  rule.C = params.integer("C");
  rule.kind = LaneLengths::none, rule.diagonal_apart = true;
  return rule;
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "C", .doc = "rows in a bin", .default_value = "32", .smallest = 1, .largest = 1 << 20},
    slice_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<SliceMatrix>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::bin_csr{
    .family = "ell",
    .id = "bin-csr",
    .title = "Bins of padded rows, the diagonal apart",
    .source = "Weber, Bender, Schnoes, Stork, Fellner, Computer Graphics Forum 32(1), 2013",
    .traits = {.square_only = true, .grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit_slices_on_host<bin_csr_rule>,
    .device = &device_code::bin_csr};

}  // namespace protean::formats
