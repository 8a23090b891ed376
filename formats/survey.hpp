// What every storage format would need for a matrix, estimated from a sample of its rows: cheap enough to ask
// in the middle of a solve.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/operators/adaptive_operator.hpp>
#include <protean/operators/element_operator.hpp>

namespace protean {

// A part of a pattern that looks like the whole: blocks of neighbouring rows from all over it, moved together
// along their diagonals, so that diagonals, blocks and slices are what they were.
struct PatternSample {
  SparsityPattern pattern;  // rows of it; the columns are as wide as the shifts make them
  double share = 1;         // of the entries of the whole
};

// At most about `entries` entries in `blocks` blocks (more where 96 rows have more), whose first rows are
// multiples of 192. The whole pattern when it is not much larger than that. Host patterns only. O(entries)
// time: nothing else is read.
PatternSample sample_rows(const ContextPtr& context, const SparsityPattern& pattern,
                          std::int64_t entries = 3072, int blocks = 4);

// Every format of the catalogue with exact values, default parameters, and every kernel of it that this build
// has in `space`, in the order of the catalogue. A format is asked by its own admit() about the sample (on
// the host, whatever the space), those that give all rows one length about the longest row as well; bytes are
// scaled by those of csr. Host patterns only. With `deterministic`, kernels that have
// that mode. Reads all row pointers, and columns of the sample alone: a product or two.
std::vector<SwitchTarget> survey_formats(const SparsityPattern& pattern, Space space,
                                         bool deterministic = false, std::size_t value_bytes = 8);

// The same of the matrix that element matrices would be assembled into, without assembling it: rows of some
// hundred unknowns are worked out, and bytes are scaled by their number, csr's as well. Takes a few products
// at most.
template <class T>
std::vector<SwitchTarget> survey_formats(const ElementOperator<T>& elements);

}  // namespace protean
