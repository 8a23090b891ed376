// The conversion that a description says: its loops are run over a matrix, and store its entries.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "research/describe/plan.hpp"

namespace protean::research {

struct Converted {
  std::vector<std::int64_t> numbers;  // by variable; numbers of loops and entries have no meaning
  std::vector<std::vector<std::int64_t>> extents;  // by array
  std::vector<std::vector<std::int32_t>> index;    // by array; empty for values
  std::vector<std::vector<double>> values;         // by array; empty for indices
  // Of each nest: the range of the loops that run in parallel, and whether it writes each row of y once, so that it
  // can take beta y along.
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges;
  std::vector<bool> writes_each_row_once;

  std::size_t bytes() const noexcept;
};

// A place in an array; turned: tables are stored column after column.
inline std::int64_t place_in(const std::vector<std::int64_t>& extents, std::int64_t a, std::int64_t b,
                             bool turned) {
  return extents.size() < 2 ? a : turned ? b * extents[0] + a : a * extents[1] + b;
}

// Runs the loops twice: to store, and to check what kernels rely on. All places lie in their arrays, each entry is
// multiplied once, with the right row and column; what is not an entry is multiplied as a zero; and iterations of
// parallel loops write different rows. Throws BadFile with the line that breaks one of these.
Converted convert(const Description& description, const std::vector<Nest>& nests,
                  const CsrMatrix<double>& matrix, bool turned);

}  // namespace protean::research
