// The planners of composed formats, which serve host and device. Private to formats/.
#pragma once
#include <functional>
#include <string_view>

#include "formats/engines/composed.hpp"

namespace protean::formats {

ComposedPlan plan_sum(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                      std::size_t value_bytes, const CutTools& tools);
// Seconds of a product y := A x, or y := A x + y, of a matrix in a format with these parameters (rows and cols of
// blocks), of so many bytes and stored values; below 0: unknown. The formats are csr, coo, ell, sell, dia, bdia, bcsr,
// bell and bsellpack.
using PartSeconds = std::function<double(std::string_view format, const FormatParams& params,
                                         const SparsityPattern& part, const Admission& size)>;
// The plan of the least seconds among those of clSpMV's policies (cocktail.cpp). csr must be known. The seconds of a
// plan with several parts count 1 + margin times.
ComposedPlan plan_cocktail_by_time(const Context& context, const SparsityPattern& pattern,
                                   std::size_t value_bytes, const CutTools& tools, const PartSeconds& seconds,
                                   double margin);
// The seconds of a plan; below 0 where a part is refused or not known. Chooses the format of each part among those of
// its category.
double choose_formats(ComposedPlan& plan, const Context& context, const SparsityPattern& pattern,
                      std::size_t value_bytes, const PartSeconds& seconds);

ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools);

}  // namespace protean::formats
