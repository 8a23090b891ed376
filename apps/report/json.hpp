// The parts that all JSON reports of the command have in common.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "apps/problem/problem_file.hpp"

namespace protean::apps {

using Json = nlohmann::ordered_json;

// JSON has no infinity and no NaN; both become null.
Json number(double value);

Json parameters_json(const FormatParams& parameters);
// The complete problem, with all defaults.
Json problem_json(const Problem& problem);
Json machine_json(int threads);

// "rhs" or "initial-residual"
std::string_view baseline_name(Baseline baseline);
// The norm of residuals: "2-norm", or in words the one that these options ask for.
std::string_view norm_name(const SolverOptions& options);

// Indented text that ends in a newline. Bytes that are not UTF-8 are replaced.
std::string text(const Json& json);

// 1234567 as "1 234 567"
std::string grouped(std::int64_t value);

}  // namespace protean::apps
