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

// What `format: auto` means on the host. The rule, first match wins:
//   1. fewer than 1000 nonzeros: csr; conversion would cost more than it can save
//   2. longest row > 50 times the mean and > 1000 entries: csr, which cuts long rows between threads
//   3. everything else: sell-packed, the smallest and the fastest of the formats in the measurements
// The thresholds are those of benchmarks/, two threads. Costs nothing beyond the statistics.
FormatChoice choose_format(const Statistics& statistics);

}  // namespace protean
