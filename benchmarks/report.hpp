// What every benchmark says about where it ran.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace protean::bench {

// processor, cores, compiler, date, commit
nlohmann::json machine(int threads);
double median(std::vector<double> samples);
double geometric_mean(const std::vector<double>& values);
void write_json(const std::string& path, const nlohmann::json& json);

}  // namespace protean::bench
