// A matrix that is the sum of parts, each a matrix in a format of the catalogue (formats/compose.hpp).
// engines/composed/cut.hpp says which entry lies in which part.
//
//   A x = A_1 x + A_2 x + ...      parts_[0]->apply(alpha, x, beta, y), then parts_[i]->apply(alpha, x, 1, y)
//
// Parts without entries are left out, except one if all are empty, because y must be written. A part has all rows and
// columns, so each is converted, updated and multiplied by the code of its format. The matrix has no arrays of its own:
// its bytes are the sum of the bytes of its parts, and the cut is made again for new values. A format is a planner that
// names the parts for a pattern. Private to formats/.
#pragma once
#include <memory>
#include <vector>

#include "formats/engines/composed/cut.hpp"

namespace protean::formats {

// The parts of a matrix, and which of their entries they have.
struct ComposedPlan {
  std::vector<PartOfSum> parts;
  std::shared_ptr<const Cut> cut;
};
using ComposedPlanner = ComposedPlan (*)(const Context& context, const SparsityPattern& pattern,
                                         const FormatParams& params, std::size_t value_bytes,
                                         const CutTools& tools);

// Cuts the pattern as the parts say.
ComposedPlan plan_of_parts(std::vector<PartOfSum> parts, const Context& context,
                           const SparsityPattern& pattern, std::size_t value_bytes, const CutTools& tools);

Admission admit_composed_with(const CutTools& tools, ComposedPlanner planner, const Context& context,
                              const SparsityPattern& pattern, const FormatParams& params,
                              std::size_t value_bytes);
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_composed_with(const CutTools& tools, const BuildRequest<T>& request);

template <ComposedPlanner planner>
Admission admit_composed(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                         std::size_t value_bytes) {
  return admit_composed_with(cuts_on_host(), planner, context, pattern, params, value_bytes);
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_composed(const BuildRequest<T>& request) {
  return make_composed_with(cuts_on_host(), request);
}
constexpr Kernel composed_kernel{
    .name = "native", .host = true, .make_f64 = make_composed<double>, .make_f32 = make_composed<float>};

}  // namespace protean::formats
