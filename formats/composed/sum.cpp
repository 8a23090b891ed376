// SUM: the sum of parts that a user names, each in a format of the catalogue.
//
//        | 1 2 . . |     dia:diagonals(min_fill=60) + csr
//    A = | . 3 . . |     dia  off = 0, values = 1 3 6 7           the entries of diagonals that are well filled
//        | 4 5 6 . |     csr  row_ptr = 0 1 1 3 3                  the rest: a_01 a_20 a_21
//        | . . . 7 |          col = 1 | | 0 1 |  values = 2 | | 4 5 |
//
// Arrays: as in the parts; each part has all rows and columns. A part without entries is not stored.
// Bytes: the sum over the parts. A conversion also takes a byte for each entry, and one part at a time in CSR.
// Parameters:
//   parts  FORMAT[PARAMETER=VALUE,...]@KERNEL:RULE(NUMBER=VALUE,...) + ... + FORMAT, with the rules that
//          formats/compose.hpp describes. In C++ make_sum() takes parts as structs; in a problem file operator.parts is
//          a list of them.
// Wins: when a matrix has parts of different structure, each large enough to be worth its own pass over y.
// Refuses: a part that its format refuses; deterministic mode on a host, because rows are not summed in the order of
//   their columns.
// Source: the sum of disjoint parts after B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs,
//   ICS 2012, doi:10.1145/2304576.2304624; the parts are the user's.
//
// The cut is made in the memory in which the source lies, on a device by its kernels. It is made again for new values.
#include "formats/composed/planners.hpp"
#include "formats/engines/composed/composed.hpp"
#include "formats/entries.hpp"
#include "formats/host_support.hpp"

namespace protean::formats {

ComposedPlan plan_sum(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                      std::size_t value_bytes, const CutTools& tools) {
  return plan_of_parts(parts_of(params.word("parts")), context, pattern, value_bytes, tools);
}

namespace {

constexpr ParamDoc params[] = {
    {.name = "parts",
     .doc = "FORMAT[PARAMETERS]@KERNEL:RULE(NUMBERS) of each part; brackets and kernel may be left out, the "
            "last part has no rule and takes the rest",
     .default_value = "dia:diagonals + csr",
     .choices = "dia:diagonals + csr|ell:width(entries=3) + coo|bcsr[rows=2,cols=2]:blocks(rows=2,cols=2) + "
                "csr|sell-c-sigma:rows(at_most=32) + csr|..."}};
constexpr Kernel kernels[] = {composed_kernel};

}  // namespace

constinit const FormatEntry entries::sum{.family = "composed",
                                         .id = "sum",
                                         .title = "Parts of the user's choice, added up",
                                         .source = "after Su, Keutzer, clSpMV, ICS 2012",
                                         .traits = {.chosen_by_name = true, .shares_rows = true},
                                         .params = params,
                                         .kernels = kernels,
                                         .admit = admit_composed<plan_sum>,
                                         .device = &device_code::sum};

}  // namespace protean::formats
