// The results of a solve as a report (JSON), a history (CSV) and a summary (text).
#pragma once
#include <string>
#include <vector>

#include "apps/report/json.hpp"
#include "apps/solve/solve.hpp"

namespace protean::apps {

Json report_object(const SolveRecord& record);
std::string report_json(const SolveRecord& record);  // its text
Json switch_json(const SwitchRecord& record);
Json failed_switch_json(const FailedSwitch& failed);
// CSV with the columns iteration, residual (2-norm of the recurrence residual), relative_residual, seconds.
std::string history_lines(const std::vector<IterationInfo>& history);  // without the heading
std::string history_csv(const std::vector<IterationInfo>& history);
std::string summary(const SolveRecord& record);

// "csr -> sell-packed, converted in 12 ms next to the solve"
std::string switch_text(const SwitchRecord& record);

}  // namespace protean::apps
