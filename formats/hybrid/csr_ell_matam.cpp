// CSR+ELL of Matam: rows up to a length that is chosen for the matrix are stored in ELLPACK, longer rows as compressed
// rows.
//
//        | 1 . 2 . |     t = 2   row_list   = 0 1 2 3      csr_row_ptr = 0 3
//    A = | . 3 . . |             ell_col    = 0 1 0 2 1 0  csr_col     = 0 1 3
//        | . . . . |             ell_values = 1 3 0 2 0 0  csr_values  = 4 5 6
//        | 4 5 . 6 |             empty      = 2
//
// Arrays: as in csr-ell-maringanti.
// Bytes: as csr-ell-maringanti.
// Parameters:
//   ell_speed  how much faster a slot of ELLPACK is than an entry of csr.
//   Pt         the most entries of a row in ELLPACK, which is the work of a thread.
// Wins: when it is not known in advance which rows are short.
// Refuses: never.
// Source: K. K. Matam, K. Kothapalli, Accelerating sparse matrix vector multiplication in iterative methods using GPU,
//   ICPP 2011, 612-621.
//
// The authors analyse the pattern and choose ELLPACK, csr or both, with limits for the work of a thread and of a warp.
// The rule here is ours: t minimises (slots of ELLPACK) + ell_speed (entries of csr); all rows are in ELLPACK when this
// pads by less than a tenth and no row is longer than Pt, and all rows are in csr when ELLPACK would get less than a
// tenth of the entries. On a GPU warps have equal shares of the entries of csr, so many warps share a long row. Padding
// carries no NaN of x.
#include "formats/entries.hpp"
#include "formats/hybrid/rules.hpp"

namespace protean::formats {

SumCut csr_ell_matam_cut(const SumCounter& counter, const FormatParams& params) {
  const std::int64_t speed = params.integer("ell_speed"), most = params.integer("Pt");
  const std::int64_t nonzeros = counter.pattern.nonzeros;
  const std::vector<std::int64_t> lengths = counter.lengths(most);
  std::int64_t best = -1, best_cost = speed * nonzeros, best_entries = 0, rows = 0, entries = 0, longest = -1;
  for (std::int64_t t = 0; t <= most; ++t) {
    const std::int64_t alike = lengths[static_cast<std::size_t>(t)];
    if (alike == 0) continue;
    rows += alike, entries += alike * t, longest = t;
    const std::int64_t cost = rows * t + speed * (nonzeros - entries);
    if (t > 0 && cost < best_cost) best = t, best_cost = cost, best_entries = entries;
  }
  const bool no_longer = entries == nonzeros;
  if (no_longer && 10 * (rows * longest - nonzeros) < nonzeros)
    best = longest;
  else if (10 * best_entries < nonzeros)
    best = -1;
  return cut_by_length(counter, lengths, best, 0);
}

namespace {

constexpr ParamDoc params[] = {{.name = "ell_speed",
                                .doc = "how much faster a slot of ELLPACK is than an entry of csr",
                                .default_value = "2",
                                .smallest = 1,
                                .largest = 1000},
                               {.name = "Pt",
                                .doc = "the most entries of a row in ELLPACK",
                                .default_value = "128",
                                .smallest = 0,
                                .largest = 1 << 16}};
constexpr Kernel kernels[] = {sum_kernel};

}  // namespace

constinit const FormatEntry entries::csr_ell_matam{
    .family = "hybrid",
    .id = "csr-ell-matam",
    .title = "ELLPACK or csr for each row by an estimate of the time",
    .source = "Matam, Kothapalli, ICPP 2011",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit_sum<csr_ell_matam_cut>,
    .device = &device_code::csr_ell_matam};

}  // namespace protean::formats
