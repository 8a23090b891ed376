// `protean solve --explain`: why the policy did or did not change the format, or why a format was chosen before the
// solve, and whether the predictions were right.
#pragma once
#include <string>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "core/csr.hpp"
#include "formats/choose.hpp"
#include "operators/elements/element_operator.hpp"
#include "operators/policy/cost_model.hpp"
#include "solvers/auto_switcher.hpp"
#include "systems/settings.hpp"

namespace protean::apps {

// The times of a candidate, measured after the solve.
struct RealCost {
  std::string format;
  std::size_t bytes = 0;  // of the matrix
  double product_seconds = 0, convert_seconds = 0;
  std::string why;  // the reason when it could not be built; else empty
};

// Builds every candidate that was admitted, one after the other, and measures its conversion and its product with so
// many vectors. `targets` is what survey_formats() returned.
std::vector<RealCost> measure_candidates(const CsrMatrix<double>& source, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets, std::int64_t columns = 1);

// The same for element matrices: the product on them, and the formats of the matrix they are assembled into.
// The time of a conversion includes the assembly.
std::vector<RealCost> measure_candidates(const ElementOperator<double>& elements, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets, std::int64_t columns = 1);

// What the policy knew and decided in a solve, or what a choice before the solve knew.
struct Explanation {
  bool decides = false;      // there is a policy
  std::string machine = {};  // "built in", or the file of the machine table
  std::vector<CandidateRecord> candidates;
  std::vector<DecisionRecord> decisions;
  std::vector<RealCost> real;
  // Without a policy: the choice before the solve, and its reason.
  ChoiceRecord choice = {};
  std::string reason = {};
  // That made the choice, or named the formats that the policy considers; empty: the default one.
  std::string selector = {};
  std::int64_t columns = 1;  // right-hand sides
};
// The ranking behind a choice as candidates, and as targets of measure_candidates().
std::vector<CandidateRecord> candidates_of(const ChoiceRecord& choice);
std::vector<SwitchTarget> targets_of(const ChoiceRecord& choice);
std::string explain_text(const Explanation& explanation);
// What was named and so stays as it is, and what may change in the solve.
std::string explain_names(const Problem& problem);
// What method auto took, why, and what it did in the middle of the solve; empty if the method was named.
std::string explain_method(std::string_view reason, const std::vector<MethodChange>& changes);
// The bytes of the preconditioner, and the precision of its numbers.
std::string explain_storage(std::string_view type, std::size_t bytes, std::string_view storage,
                            std::string_view reason);
// What preconditioner auto took, why, and what it did in the middle of the solve. If its type was named, what it
// decided by itself; empty if that is nothing.
std::string explain_preconditioner(bool named, std::string_view reason,
                                   const std::vector<PreconditionerChange>& changes);

}  // namespace protean::apps
