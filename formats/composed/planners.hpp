// The planners of composed formats, which serve host and device. Private to formats/.
#pragma once
#include "formats/engines/composed.hpp"

namespace protean::formats {

ComposedPlan plan_sum(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                      std::size_t value_bytes, const CutTools& tools);
ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools);

}  // namespace protean::formats
