// `protean compare` with a problem in a separate folder.
#pragma once
#include <nlohmann/json.hpp>

#include <map>

#include "support/command.hpp"

namespace protean::test {

using Json = nlohmann::json;

class Compare : public CommandTest {
 protected:
  static Json parse(const Outcome& outcome, const std::map<std::string, std::string>& files) {
    EXPECT_TRUE(files.count("r.json")) << outcome.err;
    return files.count("r.json") ? Json::parse(files.at("r.json")) : Json();
  }
};

}  // namespace protean::test
