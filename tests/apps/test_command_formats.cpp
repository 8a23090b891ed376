// `protean formats`.
#include <nlohmann/json.hpp>

#include <sstream>

#include "apps/command/formats.hpp"
#include "command_problems.hpp"
#include "formats/catalogue.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

TEST_F(Command, FormatsAsJsonAndText) {
  const Outcome json = run({"formats", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_TRUE(Json::parse(json.out).is_array());
  EXPECT_EQ(run({"formats"}).code, 0);
  EXPECT_EQ(run({"formats", "csr"}).code, 0);
  EXPECT_EQ(run({"formats", "csrr"}).code, 2);
  for (const Json& entry : Json::parse(json.out)) {
    const FormatEntry& format = find_format(entry["id"].get<std::string>());
    EXPECT_EQ(entry["engine"], format.engine) << format.id;
    EXPECT_EQ(entry["base"], format.base.empty() ? Json(nullptr) : Json(format.base)) << format.id;
  }
}

TEST_F(Command, FormatsOfOneFamily) {
  const Outcome ell = run({"formats", "--family", "ell", "--json"});
  ASSERT_EQ(ell.code, 0) << ell.err;
  std::size_t expected = 0;
  for (const FormatEntry* entry : catalogue()) expected += entry->family == "ell";
  EXPECT_EQ(Json::parse(ell.out).size(), expected);
  for (const Json& entry : Json::parse(ell.out)) EXPECT_EQ(entry["family"], "ell");
  const Outcome text = run({"formats", "--family", "ell"});
  EXPECT_NE(text.out.find("\nell\n  ell "), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find(" csr "), std::string::npos) << text.out;
  const Outcome wrong = run({"formats", "--family", "el"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("Did you mean 'ell'"), std::string::npos) << wrong.err;
  EXPECT_EQ(run({"formats", "csr", "--family", "row"}).code, 2);
}

TEST_F(Command, FormatsSayWhatAPresetIsInEachSpace) {
  const Outcome text = run({"formats", "csr-scalar"});
  EXPECT_NE(text.out.find("preset of       csr\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("on the host     kernel native of csr with balance = rows\n"), std::string::npos)
      << text.out;
  EXPECT_EQ(run({"formats", "csr"}).out.find("on the host"), std::string::npos);
  const Outcome json = run({"formats", "csr-scalar", "--json"});
  EXPECT_EQ(Json::parse(json.out)[0]["fixed_parameters"]["host"], Json({{"balance", "rows"}})) << json.out;
}

// Families in the order in which they come first, and each preset under its base. One whose base is not listed, or
// belongs to another family, stands alone.
TEST(FormatsTable, PresetsAreIndentedUnderTheirBase) {
  const auto entry = [](std::string_view family, std::string_view id, std::string_view base) {
    FormatEntry made{family, id, "a title", "", {}, {}, {}, nullptr};
    made.base = base;
    return made;
  };
  const FormatEntry entries[] = {entry("row", "plain", ""),         entry("slices", "sliced", ""),
                                 entry("row", "preset-1", "plain"), entry("slices", "other", "plain"),
                                 entry("row", "second", ""),        entry("row", "preset-2", "plain"),
                                 entry("row", "alone", "absent")};
  std::vector<const FormatEntry*> all;
  for (const FormatEntry& e : entries) all.push_back(&e);
  std::istringstream table(apps::formats_table(all));
  std::vector<std::string> lines;
  for (std::string line; std::getline(table, line);) lines.push_back(line.substr(0, line.find("  a title")));
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  lines.erase(lines.begin(), lines.begin() + 2);  // the heading
  EXPECT_EQ(lines, (std::vector<std::string>{"row", "  plain", "    preset-1", "    preset-2", "  second",
                                             "  alone", "slices", "  sliced", "  other"}));
}

}  // namespace
}  // namespace protean::test
