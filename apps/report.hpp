// What is left of a solve: report (JSON), history (CSV), summary (text).
#pragma once
#include <string>
#include <vector>

#include "apps/solve.hpp"

namespace protean::apps {

std::string report_json(const SolveRecord& record);
// iteration, residual (2-norm of the recurrence), relative_residual, seconds
std::string history_csv(const std::vector<IterationInfo>& history);
std::string summary(const SolveRecord& record);

// "csr -> sell-packed, converted in 12 ms beside the solve"
std::string switch_text(const SwitchRecord& record);

}  // namespace protean::apps
