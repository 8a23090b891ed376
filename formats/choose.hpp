// Which storage format suits a matrix, by rule.
#pragma once
#include <string>
#include <string_view>

#include <protean/core/statistics.hpp>

namespace protean {

struct FormatChoice {
  std::string_view id;  // in the catalogue
  std::string reason;   // for a person
};

// What `format: auto` means. The rule, first match wins:
//   1. fewer than 1000 nonzeros: csr; conversion would cost more than it can save
//   2. longest row > 50 times the mean and > 1000 entries: csr, which cuts long rows between threads (sliced
//   formats
//      would pad)
//   3. everything else: sell-packed
// Rule 3 because sell-packed was the fastest format, or within a fifth of it, on every matrix of
// docs/results/spmv-host.md (whole diagonals can be faster as dia, dense blocks as bcsr) and is refused by
// none of them. The two thresholds are estimates, not measurements. Costs nothing beyond the statistics.
FormatChoice choose_format(const Statistics& statistics);

}  // namespace protean
