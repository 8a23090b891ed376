// The planners of composed formats, which serve host and device. Private to formats/.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "formats/engines/composed/composed.hpp"

namespace protean::formats {

ComposedPlan plan_sum(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                      std::size_t value_bytes, const CutTools& tools);

// A part that has not been cut.
struct PartSizes {
  std::int64_t rows = 0, cols = 0, entries = 0;
  double row_changes = -1;  // the fraction of rows that are not as long as the row before; -1: unknown
};
// Seconds of a product y := A x, or y := A x + y, of a matrix in a format with these parameters (rows and cols of
// blocks), of that many bytes and stored values; below 0: unknown. The formats are csr, coo, ell, sell, dia, bdia,
// bcsr, bell and bsellpack.
using PartSeconds = std::function<double(std::string_view format, const FormatParams& params,
                                         const PartSizes& part, const Admission& size)>;

// A plan by counts of the pattern. Where the cut is made, each part has exactly these entries and, on a host, bytes.
struct PredictedPart {
  PartOfSum part;
  std::int64_t entries = 0;
  std::size_t bytes = 0;
  double seconds = 0;
};
struct PredictedPlan {
  std::vector<PredictedPart> parts;  // the last one takes the rest, and may have no entries
  double seconds = -1;
};
struct CocktailOptions {
  bool diagonals = true, blocks = true;  // whether these categories are looked at
  double margin = 0;                     // the seconds of a plan with several parts count 1 + margin times
};
// The plan of the least seconds among the plans of clSpMV's policies (cocktail_plan.cpp). csr must be known.
PredictedPlan predict_cocktail(const Context& context, const SparsityPattern& pattern,
                               std::size_t value_bytes, const CutTools& tools, const PartSeconds& seconds,
                               const CocktailOptions& options);

ComposedPlan plan_cocktail(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                           std::size_t value_bytes, const CutTools& tools);

}  // namespace protean::formats
