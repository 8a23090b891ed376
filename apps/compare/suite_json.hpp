// The report of comparisons, of whatever they compare.
#pragma once
#include <string>
#include <vector>

#include "apps/report/json.hpp"

namespace protean::apps {

// For one comparison its object; for a suite {"suite": [...], "broken": [...]}.
template <class Compared, class ToJson>
Json suite_json(const std::vector<Compared>& all, const std::vector<std::string>& broken, bool suite,
                ToJson&& to_json) {
  if (!suite) return all.empty() ? Json::object() : to_json(all.front());
  Json json = Json::object();
  json["suite"] = Json::array();
  for (const Compared& one : all) json["suite"].push_back(to_json(one));
  json["broken"] = broken;
  return json;
}

}  // namespace protean::apps
