// `protean solve --explain`: why the policy changed the format, or did not, and whether it was right.
#pragma once
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "solvers/auto_switcher.hpp"

namespace protean::apps {

// What really happens with a candidate: measured after the solve.
struct RealCost {
  std::string format;
  double product_seconds = 0, convert_seconds = 0;
  std::string why;  // it could not be built: the reason
};

// Builds every candidate that was admitted and times conversion and product, one after the other. `targets`
// as the survey gave them.
std::vector<RealCost> measure_candidates(const CsrMatrix<double>& source, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets);

// The same of the matrix that these are assembled into, and the product on them as they are; conversions
// begin with the assembly.
std::vector<RealCost> measure_candidates(const ElementOperator<double>& elements, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets);

// What was decided in a solve, for people.
struct Explanation {
  std::string machine;  // where predictions came from
  std::vector<CandidateRecord> candidates;
  std::vector<DecisionRecord> decisions;
  std::vector<RealCost> real;
};
std::string explain_text(const Explanation& explanation);

}  // namespace protean::apps
