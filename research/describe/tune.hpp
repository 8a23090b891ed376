// The best way to compile a description for a matrix, by trying all: the paper's tuner is exhaustive, too.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "research/describe/compiled.hpp"

namespace protean::research {

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

struct Candidate {
  Sizes sizes;
  Strategy strategy;
  std::string text(Target target) const;
};

// All combinations of the choices of the sizes and of the strategies that differ for this description: tables turned or
// not if there are tables, lanes if a loop can be shared, chunks if a loop is `shared`.
std::vector<Candidate> candidates(const Description& description, Target target);

struct Tried {
  Candidate candidate;
  double seconds = 0;   // of a product
  std::string refused;  // why there is no time
};
// Seconds of a product of a candidate. Throws what making the matrix throws.
using CandidateClock = std::function<double(const Candidate&)>;

// Each candidate in turn, the first of the least time marked as best. A candidate that cannot be made is noted and
// passed over; NotAvailable, which all would throw, is thrown.
struct Tuned {
  std::vector<Tried> tried;
  std::optional<std::size_t> best;
};
Tuned tune(const std::vector<Candidate>& candidates, const CandidateClock& clock);

// Makes the matrix and takes the least of some products.
CandidateClock clock_for(const Description& description, const CsrMatrix<double>& matrix,
                         const ContextPtr& context);

}  // namespace protean::research
