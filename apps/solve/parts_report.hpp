// What the devices of a solve did, in the report and the summary.
#pragma once
#include <string>

#include "apps/report/json.hpp"
#include "apps/solve/solve.hpp"

namespace protean::apps {

// Takes format, bytes and parts of a result over several devices into the record.
void keep_parts(SolveRecord& record, const SolveResult& result);

// "the GPU", or how many have rows.
std::string gpus_text(const SolveRecord& record);
// The object `devices` of the report; null for one device.
Json devices_json(const SolveRecord& record);
// The rows of the summary: a line for each device, and the largest number of entries over the mean. Empty for one.
std::string devices_text(const SolveRecord& record);

}  // namespace protean::apps
