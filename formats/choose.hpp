// Which storage format suits a matrix, before a solve.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <protean/core/csr.hpp>
#include <protean/operators/cost_model.hpp>

namespace protean {

struct FormatChoice {
  std::string_view id;  // in the catalogue
  std::string reason;   // for a person
};

struct ChoiceOptions {
  Space space = Space::host;
  std::int64_t expected_iterations = 0;  // 0: not known, taken to be assumed_iterations
  double products_per_iteration = 1;     // 2 for BiCGStab
  bool deterministic = false;            // only kernels that have that mode
};
inline constexpr std::int64_t assumed_iterations = 300;

// What `format: auto` means: the format with the least conversion + expected iterations * product, both as
// the model predicts them for what survey_formats() finds in the pattern (host memory); csr when no other is
// expected to save 3 % of that, and for matrices of fewer than 1000 entries, for which nothing is worth a
// look. Own kernels only. Takes a few products.
FormatChoice choose_format(const SparsityPattern& pattern, const CostModel& model,
                           const ChoiceOptions& options = {});

}  // namespace protean
