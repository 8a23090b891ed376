#include "apps/problem/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "apps/problem/devices.hpp"
#include "apps/problem/problem_keys.hpp"
#include "apps/report/json.hpp"
#include "core/generate/generate.hpp"
#include "core/option_checks.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "formats/compose.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

// A rule that depends on the value of another key is an `if` with its `then`, not a branch of `oneOf`: a validator then
// names the key that is wrong, and an editor completes the keys of the kind that was chosen.
namespace protean::apps {
namespace {

using Type = KeyDoc::Type;
using Names = std::vector<std::string_view>;

bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A word as YAML reads it: true and 16 are not texts.
Json yaml_value(std::string_view word) {
  if (word == "true" || word == "false") return word == "true";
  const bool digits =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? Json(std::stoll(std::string(word))) : Json(word);
}

// The reader takes quoted words, too: "true", "16".
Json one_of_words(const Names& words) {
  Json values = Json::array();
  bool all_texts = true;
  for (const std::string_view word : words) {
    values.push_back(yaml_value(word));
    all_texts &= values.back().is_string();
  }
  if (all_texts) return {{"enum", values}};
  return {{"anyOf",
           {{{"enum", values}},
            {{"type", "string"}, {"pattern", fmt::format("^({})$", fmt::join(words, "|"))}}}}};
}

Json any_text() { return {{"type", {"string", "number", "boolean"}}, {"minLength", 1}}; }
Json empty_map() { return {{"type", "object"}, {"maxProperties", 0}}; }
Json reference(std::string_view definition) { return {{"$ref", fmt::format("#/$defs/{}", definition)}}; }

void set_limits(Json& schema, const NumberRange& range, bool whole) {
  const auto limit = [&](const char* inside, const char* outside, bool open, double value) {
    if (std::isinf(value)) return;
    schema[open ? outside : inside] = whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  limit("minimum", "exclusiveMinimum", range.open_below, range.smallest);
  limit("maximum", "exclusiveMaximum", range.open_above, range.largest);
}

// `instead`: a word that is allowed, too.
Json a_number(const NumberRange& range, bool whole, std::string_view instead = {}) {
  Json schema;
  // The reader also knows infinity without the dot of YAML.
  const bool infinite = !whole && std::isinf(range.largest);
  const std::string pattern = !instead.empty() ? fmt::format("^{}$", instead)
                              : infinite       ? std::string("^[-+]?inf$")
                                               : std::string();
  const char* const type = whole ? "integer" : "number";
  schema["type"] = pattern.empty() ? Json(type) : Json::array({type, "string"});
  set_limits(schema, range, whole);
  if (!pattern.empty()) schema["pattern"] = pattern;
  return schema;
}

Json when(Json condition, Json then) { return {{"if", std::move(condition)}, {"then", std::move(then)}}; }
Json given(std::string_view key) { return {{"required", Json::array({key})}}; }

// The key has this value; with `otherwise` also if it is not given.
Json is_word(std::string_view key, std::string_view word, bool otherwise) {
  Json schema = {{"properties", {{key, {{"const", word}}}}}};
  if (!otherwise) schema["required"] = Json::array({key});
  return schema;
}

Json closed_map(Json properties) {
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

class SchemaMaker {
 public:
  Json make() {
    Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "Problem file of protean " PROTEAN_VERSION_TEXT},
                   {"description", "What `protean solve` solves, and how"}};
    define_formats();
    schema.update(section(""));
    schema["$defs"] = std::move(definitions_);
    return schema;
  }

 private:
  // Meaning, default and type.
  Json key(const KeyDoc& doc) {
    Json schema;
    schema["description"] = doc.about;
    if (doc.otherwise.empty() && !std::isinf(doc.number) &&
        (doc.type == Type::number || doc.type == Type::integer))
      schema["default"] =
          doc.type == Type::integer ? Json(static_cast<std::int64_t>(doc.number)) : Json(doc.number);
    else if (among(doc.words, doc.otherwise) || (doc.option && !doc.otherwise.empty()))
      schema["default"] = yaml_value(doc.otherwise);
    schema.update(value(doc));
    return schema;
  }

  Json value(const KeyDoc& doc) {
    switch (doc.type) {
      case Type::text:
      case Type::file:
        return any_text();
      case Type::word:
        return one_of_words(doc.words);
      case Type::number:
      case Type::integer:
        return a_number(doc.range, doc.type == Type::integer);
      case Type::map:
      case Type::list:
      case Type::other:
        break;
    }
    if (doc.option && !doc.option->zero.empty())
      return a_number(doc.option->range, doc.option->kind == OptionKind::whole, doc.option->zero);
    if (doc.name == "parameters") return {{"type", "object"}};  // by_format() has the rest
    if (doc.path() == "preconditioner.fields") return fields();
    if (doc.path() == "operator.devices") return devices();
    if (doc.name == "kernel" || (doc.option && doc.option->words.empty() && doc.words.empty()))
      return any_text();
    if (doc.name == "parts")
      return list_of(doc.section == "preconditioner" ? preconditioner(true) : part_of_sum(), 1,
                     doc.section == "preconditioner" ? 0 : most_parts);
    if (doc.name == "take") return take();
    if (doc.path() == "schedule") return schedule();
    if (doc.type != Type::map) return one_of_words(doc.words);
    Json map = map_of(doc.path());
    if (doc.words.empty()) return map;
    return {{"if", {{"type", "object"}}}, {"then", std::move(map)}, {"else", one_of_words(doc.words)}};
  }

  Json map_of(const std::string& path) {
    if (path == "solver") return by_reader("solver", "method", {});
    if (path == "preconditioner") return preconditioner(false);
    if (path == "matrix.generate") return generate();
    Json map = section(path);
    if (path == "operator") map["allOf"] = Json::array({reference("by-format")});
    return map;
  }

  // The map of a section, with what a problem must give of it.
  Json section(std::string_view name) {
    Json properties = Json::object(), required = Json::array(), one = Json::array();
    for (const KeyDoc& doc : problem_keys()) {
      if (doc.section != name) continue;
      properties[std::string(doc.name)] = key(doc);
      if (doc.otherwise == "required") required.push_back(doc.name);
      if (doc.alternative) one.push_back(given(doc.name));
    }
    Json map = closed_map(std::move(properties));
    if (!required.empty()) map["required"] = std::move(required);
    if (!one.empty()) map["oneOf"] = std::move(one);
    return map;
  }

  static Json fields() {
    Json rows = {{"anyOf", {any_text(), list_of(any_text(), 1, 0)}}};
    Json field = closed_map({{"name", any_text()}, {"rows", std::move(rows)}});
    field["required"] = {"name", "rows"};
    return {{"anyOf", {any_text(), list_of(std::move(field), 1, 0)}}};
  }

  // A number, all, or a list of numbers.
  static Json devices() {
    Json list = list_of(a_number({0, 1023}, true), 1, most_devices);
    list["uniqueItems"] = true;
    return {{"anyOf", {a_number({1, most_devices}, true, "all"), std::move(list)}}};
  }

  static Json list_of(Json item, std::size_t fewest, std::size_t most) {
    Json list = {{"type", "array"}, {"items", std::move(item)}};
    if (fewest > 0) list["minItems"] = fewest;
    if (most > 0) list["maxItems"] = most;
    return list;
  }

  // A section whose options are read by some words of the key `of` only. `without`: words that it may not be.
  Json by_reader(std::string_view name, std::string_view of, const Names& without) {
    const KeyDoc* choice = nullptr;
    std::vector<const KeyDoc*> docs;
    for (const KeyDoc& doc : problem_keys()) {
      if (doc.section != name) continue;
      if (doc.name == of)
        choice = &doc;
      else
        docs.push_back(&doc);
    }
    Names words;
    for (const std::string_view word : choice->words)
      if (!among(without, word)) words.push_back(word);
    Json head = key(*choice);
    head["enum"] = words;
    Json rules = Json::array();
    for (const std::string_view word : words)
      rules.push_back(when(is_word(of, word, word == choice->otherwise),
                           closed_map(properties_read_by(word, of, docs, !without.empty()))));
    for (const KeyDoc* doc : docs)
      if (doc->option && !doc->option->with.empty()) rules.push_back(needs_companion(*doc->option));
    Json properties;
    properties[std::string(of)] = std::move(head);
    return {{"type", "object"}, {"properties", std::move(properties)}, {"allOf", std::move(rules)}};
  }

  Json properties_read_by(std::string_view word, std::string_view of, const std::vector<const KeyDoc*>& docs,
                          bool part) {
    Json properties;
    properties[std::string(of)] = true;
    for (const KeyDoc* doc : docs) {
      if (!doc->kinds.empty() && (part || !among(doc->kinds, word))) continue;
      if (word == "composition" && doc->kinds.empty()) continue;  // they belong to its parts
      const std::string name = fmt::format("{}.{}", doc->section, doc->name);
      if (doc->option && !doc->option->readers.has(word)) {
        // A word that asks for nothing may be given to everyone (is_unread()).
        if (doc->option->kind == OptionKind::word && asks_nothing(OptionValue(doc->otherwise)))
          properties[std::string(doc->name)] = {{"const", doc->otherwise}};
        continue;
      }
      if (!definitions_.contains(name)) definitions_[name] = key(*doc);
      properties[std::string(doc->name)] = reference(name);
    }
    return properties;
  }

  // An option that another one must allow.
  static Json needs_companion(const OptionInfo& option) {
    bool by_default = false;
    for (const KeyDoc& doc : problem_keys())
      by_default |= doc.option && doc.name == option.with && doc.otherwise == option.with_word;
    return when(given(option.name), is_word(option.with, option.with_word, by_default));
  }

  Json preconditioner(bool part) {
    if (part) return by_reader("preconditioner", "type", {"composition", "none"});
    Json map = by_reader("preconditioner", "type", {});
    map["allOf"].push_back(when(is_word("type", "composition", false), given("parts")));
    return map;
  }

  // matrix.generate: each kind has its own keys.
  Json generate() {
    Json rules = Json::array(), map = section("matrix.generate");
    for (const GeneratorEntry& kind : generators()) {
      Json properties = {{"kind", true}};
      for (const GeneratorParam& param : kind.params) {
        Json one = {{"description", param.doc}};
        if (param.choices.empty()) {
          one["default"] = param.integer ? Json(static_cast<std::int64_t>(param.default_value))
                                         : Json(param.default_value);
          one.update(a_number({param.smallest, param.largest}, param.integer));
        } else {
          const Names words = split(param.choices, '|');
          one["default"] = words[static_cast<std::size_t>(param.default_value)];
          one.update(one_of_words(words));
        }
        properties[std::string(param.name)] = std::move(one);
      }
      rules.push_back(when(is_word("kind", kind.kind, false), closed_map(std::move(properties))));
    }
    // The other kinds have sections of their own: "matrix.generate (fem-hex, fem-tet)"
    for (const std::string_view kind : generator_kinds()) {
      Json properties = {{"kind", true}};
      for (const KeyDoc& doc : problem_keys())
        if (const std::size_t bracket = doc.section.find(" (");
            bracket != std::string_view::npos && doc.section.find(kind) != std::string_view::npos)
          properties[std::string(doc.name)] = key(doc);
      if (properties.size() > 1)
        rules.push_back(when(is_word("kind", kind, false), closed_map(std::move(properties))));
    }
    map.erase("additionalProperties");  // the rules have it
    map["allOf"] = std::move(rules);
    return map;
  }

  Json schedule() {
    Json point = section("schedule[]"), map = section("schedule");
    point["allOf"] = Json::array({reference("by-format")});
    point["anyOf"] = Json::array({given("format"), given("order")});
    map["required"] = Json::array({"policy"});
    return {{"if", {{"type", "array"}}}, {"then", {{"items", std::move(point)}}}, {"else", std::move(map)}};
  }

  Json part_of_sum() {
    Json part = section("operator.parts[]");
    part["allOf"] = Json::array({reference("by-format")});
    return part;
  }

  // A rule, or a map with its numbers.
  static Json take() {
    Names rules;
    Json numbers = Json::array();
    for (const CutRuleDoc& rule : cut_rules()) {
      if (rule.name == "rest") continue;
      rules.push_back(rule.name);
      Json properties = {{"rule", true}};
      for (const ParamDoc& param : rule.params) {
        Json one = {{"description", param.doc}, {"default", yaml_value(param.default_value)}};
        one.update(a_number({static_cast<double>(param.smallest), static_cast<double>(param.largest)}, true));
        properties[std::string(param.name)] = std::move(one);
      }
      numbers.push_back(when(is_word("rule", rule.name, false), closed_map(std::move(properties))));
    }
    Json map = {{"properties", {{"rule", one_of_words(rules)}}},
                {"required", Json::array({"rule"})},
                {"allOf", numbers}};
    return {{"if", {{"type", "object"}}}, {"then", std::move(map)}, {"else", one_of_words(rules)}};
  }

  static Json parameter(const ParamDoc& param) {
    Json schema = {{"description", param.doc}, {"default", yaml_value(param.default_value)}};
    if (param.choices.empty()) {
      schema.update(Json{{"type", {"integer", "string"}},
                         {"minimum", param.smallest},
                         {"maximum", param.largest},
                         {"pattern", "^-?[0-9]+$"}});
      return schema;
    }
    Names words = split(param.choices, '|');
    if (words.back() != "...") {
      schema.update(one_of_words(words));
      return schema;
    }
    words.pop_back();
    schema.update(any_text());
    for (const std::string_view word : words) schema["examples"].push_back(yaml_value(word));
    return schema;
  }

  // What `kernel`, `parameters` and `parts` may be next to each `format`.
  void define_formats() {
    Json rules = Json::array();
    Names all_kernels;
    const auto rule = [&](std::string_view id, const Names& kernels, Json parameters) {
      Json then = {{"kernel", one_of_words(kernels)}, {"parameters", std::move(parameters)}};
      if (id != "sum") then["parts"] = false;
      rules.push_back(when(is_word("format", id, id == "auto"), {{"properties", std::move(then)}}));
    };
    for (const FormatEntry* entry : catalogue()) {
      Names kernels;
      for (const Space space : {Space::host, Space::device})
        for (const Kernel& kernel : kernels_in(*entry, space)) {
          if (!among(kernels, kernel.name)) kernels.push_back(kernel.name);
          if (!among(all_kernels, kernel.name)) all_kernels.push_back(kernel.name);
        }
      Json parameters = Json::object();
      for (const ParamDoc& param : settable_params(*entry))
        parameters[std::string(param.name)] = parameter(param);
      const bool none = parameters.empty();
      rule(entry->id, kernels, none ? empty_map() : closed_map(std::move(parameters)));
    }
    rule("auto", all_kernels, empty_map());
    definitions_["by-format"] = {{"allOf", std::move(rules)}};
  }

  Json definitions_ = Json::object();
};

}  // namespace

std::string problem_schema() { return text(SchemaMaker().make()); }

}  // namespace protean::apps
