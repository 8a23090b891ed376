// The schema and the reader of problem files say the same: keys that one knows, the other knows; values that the schema
// refuses, the reader refuses; and what the reader refuses for its type, its range, its word or its reader, the schema
// refuses. Keys and values come from the tables and from the schema itself, so a new option is walked through here.
#include "apps/problem/schema.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "core/error.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"
#include "json_schema.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/command.hpp"
#include "support/text.hpp"

namespace protean::apps {
namespace {

using Json = test::JsonSchema::Json;
using test::has;
using test::message_of;
using Names = std::set<std::string>;

const test::JsonSchema& schema() {
  static const test::JsonSchema one(problem_schema());
  return one;
}

// What the reader says against the problem; empty if it takes it. JSON is YAML.
std::string refusal(const Json& problem) {
  return message_of([&] { (void)parse_problem(problem.dump(), "p.yaml"); });
}
// A problem that the reader takes, and one of its maps.
struct Context {
  Json problem;
  std::string place;    // JSON pointer of the map
  std::string section;  // one name for all contexts with the same keys in the schema
};

Json with(const Context& context, const std::string& key, const Json& value) {
  Json problem = context.problem;
  problem[Json::json_pointer(context.place)][key] = value;
  return problem;
}

std::vector<Context> contexts() {
  const Json matrix = {{"file", "A.mtx"}};
  std::vector<Context> all;
  const auto add = [&](Json problem, const std::string& place, std::string section = {}) {
    if (!problem.contains("matrix")) problem["matrix"] = matrix;
    // Another build has what this one lacks.
    if (has(refusal(problem), "this build has no")) return;
    EXPECT_EQ(refusal(problem), "") << problem;
    all.push_back({std::move(problem), place, section.empty() ? place : std::move(section)});
  };
  const Json generated = {{"kind", "poisson-2d"}};
  const Json elements = {{"generate", {{"kind", "fem-hex"}, {"storage", "element"}}}};
  add({{"matrix", matrix}}, "");
  add({{"matrix", matrix}}, "/matrix");
  add({{"matrix", {{"generate", generated}}}}, "/matrix");
  for (const std::string_view kind : generator_kinds())
    add({{"matrix", {{"generate", {{"kind", kind}}}}}}, "/matrix/generate");
  add({{"matrix", {{"generate", {{"kind", "fem-hex"}, {"physics", "elasticity"}}}}}}, "/matrix/generate");
  for (const Json& one : {Json{{"file", "b.mtx"}}, Json{{"value", 1}}, Json{{"random", 1}}}) {
    add({{"rhs", one}}, "/rhs");
    add({{"rhs", {{"solution", one}}}}, "/rhs/solution");
    if (!one.contains("value")) add({{"initial_guess", one}}, "/initial_guess");
  }
  add({{"rhs", {{"solution", "ones"}}}}, "/rhs");
  for (const SolverEntry& method : solvers()) add({{"solver", {{"method", method.id}}}}, "/solver");
  add({{"solver", Json::object()}}, "/solver");
  for (const PreconditionerEntry& type : preconditioners()) {
    Json options = {{"type", type.id}};
    add({{"solver", {{"method", "gmres"}}}, {"preconditioner", options}}, "/preconditioner");
    const Json part = {{"type", "composition"}, {"parts", Json::array({options, {{"type", "jacobi"}}})}};
    if (type.id != "none")
      add({{"solver", {{"method", "gmres"}}}, {"preconditioner", part}}, "/preconditioner/parts/0", "part");
    for (const auto& option : preconditioner_options())
      if (!option.with.empty() && option.readers.has(type.id)) {
        options = {{"type", type.id}, {std::string(option.with), option.with_word}};
        add({{"solver", {{"method", "gmres"}}}, {"preconditioner", options}}, "/preconditioner");
      }
  }
  add({{"solver", {{"method", "gmres"}}},
       {"preconditioner", {{"type", "composition"}, {"parts", Json::array({{{"type", "jacobi"}}})}}}},
      "/preconditioner");
  add({{"operator", Json::object()}}, "/operator");
  add({{"operator", {{"space", "device"}}}, {"solver", Json::object()}}, "/solver");
  add({{"operator", {{"space", "device"}}}}, "/operator");
  add({{"operator", {{"format", "sum"}}}}, "/operator");
  add({{"matrix", elements}, {"operator", Json::object()}}, "/operator");
  for (const FormatEntry* format : catalogue()) {
    add({{"operator", {{"format", format->id}}}}, "/operator", "of-a-format");
    if (!settable_params(*format).empty())
      add({{"operator", {{"format", format->id}, {"parameters", Json::object()}}}}, "/operator/parameters");
  }
  const auto add_parts = [&](const Json& take) {
    const Json parts = Json::array({{{"format", "dia"}, {"take", take}}, {{"format", "csr"}}});
    const Json problem = {{"operator", {{"format", "sum"}, {"parts", parts}}}};
    if (take.is_object()) return add(problem, "/operator/parts/0/take");
    add(problem, "/operator/parts/0");
    add(problem, "/operator/parts/1");
  };
  add_parts("diagonals");
  for (const CutRuleDoc& rule : cut_rules())
    if (rule.name == "rows")  // which must exclude some
      add_parts({{"rule", rule.name}, {"at_most", 5}});
    else if (rule.name != "rest")
      add_parts({{"rule", rule.name}});
  add({{"schedule", {{"policy", "auto"}}}}, "/schedule");
  for (const Json& one :
       {Json{{"at_iteration", 3}}, Json{{"at_residual", 0.1}}, Json{{"after_seconds", 1}}}) {
    Json point = one;
    point["format"] = "sell-c-sigma";
    add({{"schedule", Json::array({point})}}, "/schedule/0", "point");
    point["format"] = "sum";
    add({{"schedule", Json::array({point})}}, "/schedule/0", "point");
    add({{"matrix", elements}, {"schedule", Json::array({point})}}, "/schedule/0", "point");
  }
  add({{"output", Json::object()}}, "/output");
  add({{"partition", {{"file", "ranks"}}}}, "/partition");
  return all;
}

// All schemas that may apply to the value at this place, on every way through the rules.
std::vector<const Json*> schemas_at(const std::string& place) {
  std::vector<const Json*> here;
  const auto spread = [&](const auto& self, const Json& one, std::vector<const Json*>& into) -> void {
    const Json& its = schema().resolved(one);
    if (std::find(into.begin(), into.end(), &its) != into.end()) return;
    into.push_back(&its);
    if (!its.is_object()) return;
    for (const char* const word : {"allOf", "anyOf", "oneOf"})
      if (its.contains(word))
        for (const Json& branch : its.at(word)) self(self, branch, into);
    for (const char* const word : {"then", "else"})
      if (its.contains(word)) self(self, its.at(word), into);
  };
  spread(spread, schema().root(), here);
  for (const std::string_view step : split(place, '/')) {
    if (step.empty()) continue;
    std::vector<const Json*> next;
    const bool item = step.find_first_not_of("0123456789") == std::string_view::npos;
    for (const Json* one : here) {
      if (!one->is_object()) continue;
      if (item && one->contains("items")) spread(spread, one->at("items"), next);
      if (!item && one->contains("properties") && one->at("properties").contains(std::string(step)))
        spread(spread, one->at("properties").at(std::string(step)), next);
    }
    here = std::move(next);
  }
  return here;
}

// The keys of the map at this place in the schema.
Names keys_in_schema(const std::string& place) {
  Names names;
  for (const Json* one : schemas_at(place))
    if (one->is_object() && one->contains("properties"))
      for (const auto& [key, its] : one->at("properties").items())
        if (its != false) names.insert(key);
  return names;
}

// The keys that the reader takes there: its message about another key names them.
Names keys_of_reader(const Context& context) {
  const std::string why = refusal(with(context, "no-such-key", 1));
  const std::string mark = "Allowed here: ";
  const std::size_t at = why.find(mark);
  EXPECT_NE(at, std::string::npos) << why;
  if (at == std::string::npos) return {};
  std::string list = why.substr(at + mark.size());
  list.resize(list.find('.'));
  Names names;
  for (std::string_view word : split(list, ',')) {
    word.remove_prefix(word[0] == ' ' ? 1 : 0);
    names.emplace(word);
  }
  return names;
}

TEST(Schema, HasTheKeysOfTheReader) {
  std::map<std::string, Names> of_reader, of_schema;
  for (const Context& context : contexts()) {
    if (context.section == "of-a-format") continue;
    SCOPED_TRACE(context.place + " of " + context.problem.dump());
    EXPECT_FALSE(schema().accepts(with(context, "no-such-key", 1)));
    EXPECT_TRUE(schema().accepts(context.problem));
    of_reader[context.section].merge(keys_of_reader(context));
    of_schema[context.section].merge(keys_in_schema(context.place));
  }
  EXPECT_GT(of_reader.size(), 14u);
  for (auto& [section, keys] : of_reader) {
    // They are keys of a preconditioner that is no part; the reader names them before it refuses them.
    if (section == "part") {
      for (const char* key :
           {"combine", "parts", "coordinates", "near_null_space", "labels", "schur_operator"})
        keys.erase(key);
    }
    EXPECT_EQ(keys, of_schema[section]) << section;
  }
}

// The schema of a parameter, or of another key, next to this format.
const Json* schema_next_to(const std::string& format, const std::string& key, bool parameter) {
  for (const Json& rule : schema().root().at("$defs").at("by-format").at("allOf"))
    if (rule["if"]["properties"]["format"]["const"] == format) {
      const Json& keys = rule["then"]["properties"];
      return &(parameter ? keys["parameters"]["properties"] : keys)[key];
    }
  return nullptr;
}

// The schemas of a key in a context. Of a format only its own, and there are so many formats that few values must do.
std::vector<const Json*> schemas_of(const Context& context, const std::string& key) {
  const bool parameter = context.place == "/operator/parameters";
  if (!parameter && context.section != "of-a-format") return schemas_at(context.place + "/" + key);
  return {schema_next_to(context.problem["operator"]["format"], key, parameter)};
}

// Values to try for a key: at the ends of the ranges of its schemas and just beyond, their words, and others.
std::vector<Json> values_for(const Context& context, const std::string& key) {
  const bool of_format = context.place == "/operator/parameters" || context.section == "of-a-format";
  std::vector<Json> values = {-1, "no-such-word", Json::array()};
  if (!of_format)
    values = {-1,
              0,
              1,
              2,
              7,
              0.5,
              1.5,
              1e300,
              "no-such-word",
              "auto",
              "none",
              "true",
              "7",
              "-x",
              "x.mtx",
              "inf",
              true,
              false,
              nullptr,
              Json::object(),
              Json::array(),
              {{"file", "x"}},
              {{"random", 1}},
              {{"kind", "poisson-2d"}},
              {{"no-such-key", 1}},
              {{"rule", "diagonals"}},
              Json::array({{{"type", "jacobi"}}}),
              Json::array({{{"format", "csr"}}})};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Json* one : schemas_of(context, key)) {
    if (!one->is_object()) continue;
    if (one->contains("anyOf")) one = &one->at("anyOf").front();  // words, which may also be quoted
    for (const char* const word : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      if (!one->contains(word)) continue;
      const Json& limit = one->at(word);
      values.push_back(limit);
      if (limit.is_number_integer()) {
        values.push_back(limit.get<std::int64_t>() - 1);
        values.push_back(limit.get<std::int64_t>() + 1);
      } else {
        values.push_back(std::nextafter(limit.get<double>(), -infinity));
        values.push_back(std::nextafter(limit.get<double>(), infinity));
      }
    }
    for (const char* const word : {"enum", "examples"})
      if (one->contains(word)) values.insert(values.end(), one->at(word).begin(), one->at(word).end());
    if (one->contains("const")) values.push_back(one->at("const"));
  }
  std::vector<Json> each;
  for (Json& value : values)
    // JSON has no infinity.
    if ((!value.is_number() || std::isfinite(value.get<double>())) &&
        std::find(each.begin(), each.end(), value) == each.end())
      each.push_back(std::move(value));
  return each;
}

// A rule between several keys, or of this build, which the reader alone has.
bool only_reader_knows(const std::string& why) {
  for (const std::string_view part : {"this build has no",
                                      "matrix.scale is 0",
                                      "it must be options of PETSc's",
                                      "is the last part",
                                      "a part cannot be a",
                                      "takes every row",
                                      "no format 'element'",
                                      "needs the key 'take'",
                                      "belongs to physics",
                                      "belongs to the cube",
                                      "it must be the name of a file",
                                      "storage: element",
                                      "has no effect on a host",
                                      "format is auto",
                                      "for preconditioner.setup aggregation",
                                      "runs on a GPU only",
                                      "nodes; at most",
                                      "needs a symmetric",
                                      "is not for operator",
                                      "is for operator.space: device",
                                      "the engine is protean",
                                      "rhs.columns: several",
                                      "belongs to matrix.file",
                                      "is for format auto",
                                      "is for a policy that decides",
                                      "has no meaning",
                                      "element matrices",
                                      "is the text \"inf\""})  // in quotes, which a schema does not see
    if (has(why, part)) return true;
  return false;
}

TEST(Schema, AndTheReaderTakeTheSameValues) {
  std::map<std::string, bool> taken;   // of each key: whether the reader took a value
  std::map<std::string, int> refused;  // and how many it refused
  std::size_t pairs = 0, failures = 0;
  for (const Context& context : contexts()) {
    Names keys = keys_in_schema(context.place);
    if (context.section == "of-a-format") keys = {"kernel", "parts"};
    if (context.place == "/operator/parameters") {
      keys.clear();
      for (const ParamDoc& one :
           settable_params(find_format(context.problem["operator"]["format"].get<std::string>())))
        if (one.name != "parts") keys.emplace(one.name);  // the text of a sum, which the reader parses
    }
    for (const std::string& key : keys) {
      for (const Json& value : values_for(context, key)) {
        const Json problem = with(context, key, value);
        const std::string why = refusal(problem);
        const bool valid = schema().accepts(problem);
        ++pairs;
        taken[context.section + "/" + key] |= why.empty();
        refused[context.section + "/" + key] += why.empty() ? 0 : 1;
        if (why.empty()) {
          EXPECT_TRUE(valid) << "the reader takes " << problem;
        } else if (value != "7" && !only_reader_knows(why)) {  // a schema sees no range of what is quoted
          EXPECT_FALSE(valid) << "the reader refuses " << problem << ": " << why;
        }
        if (HasFailure() && ++failures > 10) return;
      }
    }
  }
  RecordProperty("pairs", static_cast<int>(pairs));
  EXPECT_GT(pairs, 10000u);
  // No context has what these need: another option of the part, or a further part after the last one.
  std::set<std::string> need_more = {"of-a-format/parts", "/operator/parts/1/take", "part/aggressive_levels",
                                     "part/coarsening",   "part/strong_threshold",  "part/sweeps"};
  // Nor can a build without hypre take what its multigrid alone reads.
  for (const auto& option : preconditioner_options())
    if (!option.with.empty()) {
      const Json one = {{"type", "amg"}, {std::string(option.with), option.with_word}};
      if (has(refusal({{"matrix", {{"file", "A.mtx"}}}, {"preconditioner", one}}), "this build has no"))
        need_more.insert("/preconditioner/" + std::string(option.name));
    }
  for (const auto& [key, is] : taken)
    if (!need_more.contains(key)) { EXPECT_TRUE(is) << key << " is never taken"; }
  for (const auto& [key, count] : refused) EXPECT_GT(count, 0) << key << " is never refused";
}

// What an editor shows.
TEST(Schema, DescribesEachKey) {
  std::size_t described = 0;
  for (const KeyDoc& key : problem_keys()) {
    if (key.section.find('(') != std::string_view::npos || key.section.find('[') != std::string_view::npos)
      continue;
    std::string place;
    const std::string path = key.path();
    for (const std::string_view step : split(path, '.')) place += "/" + std::string(step);
    bool found = false;
    for (const Json* one : schemas_at(place))
      found |= one->is_object() && one->contains("description") && one->at("description") == key.about;
    EXPECT_TRUE(found) << path;
    ++described;
  }
  EXPECT_GT(described, 60u);
}

class SchemaCommand : public test::CommandTest {};

TEST_F(SchemaCommand, PrintsTheSchema) {
  const test::Outcome o = run({"schema"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, problem_schema());
  EXPECT_EQ(run({"schema", "extra"}).code, 2);
}

}  // namespace
}  // namespace protean::apps
