// What is recorded of the decisions of the policy, and of the formats that it considered.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include <protean/core/export.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/reason.hpp>
#include <protean/operators/policy/switch_policy.hpp>

namespace PROTEAN_EXPORT protean {

// A decision. Each decision that changes something is recorded. Of consecutive decisions to stay for the same reason,
// only the first is recorded.
struct DecisionRecord {
  std::int64_t iteration = 0;
  double seconds = 0;  // since the solve began
  SwitchAction action = SwitchAction::stay;
  std::string format;  // the format that is begun, adopted, ...; empty if there is none
  double gain_seconds = 0, cost_seconds = 0, worst_seconds = 0, excess_seconds = 0, allowed_seconds = 0;
  Forecast remaining;
  Why why;
  std::string reason;  // text_of(why)
};

// Predicted and measured times of one format, in seconds; 0 if unknown. In another order than the caller's, the time of
// a product includes the permutations of vectors that the preconditioner then needs.
struct CandidateRecord {
  std::string format;          // with the order if it is not the caller's: "csr in order rcm"
  std::string order = "none";  // "none": the caller's
  bool admitted = true, lost = false, ran = false;
  std::string why;
  std::size_t bytes = 0;
  double predicted_product = 0, predicted_convert = 0, uncertainty = 0;  // the last before the format ran
  double measured_product = 0, measured_convert = 0;
};

}  // namespace protean
