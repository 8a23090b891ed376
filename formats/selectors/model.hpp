// The cost model as a selector, and the ranking behind it.
#pragma once
#include <string>
#include <vector>

#include "formats/choose.hpp"
#include "formats/selectors/selector.hpp"

namespace protean {

// rank_formats(). With `likely_only`, csr and the formats that may be the fastest by the table: the others are not
// asked, which takes most of the time. The pattern lies in the memory of the context.
std::vector<RankedFormat> rank_by_cost(const Context& context, const SparsityPattern& pattern,
                                       const CostModel& model, const ChoiceOptions& options,
                                       bool likely_only);

// Why a known number of iterations is too few for a look at the formats; empty if they are enough, or not known. A look
// takes a time that hardly depends on the matrix. It is worth it if the expected savings are twice that.
std::string too_few_for_a_look(const Context& context, const SparsityPattern& pattern, const CostModel& model,
                               const ChoiceOptions& options);

}  // namespace protean
